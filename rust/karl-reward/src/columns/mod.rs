//! The rewards of calls in columns.

mod tally;

use std::iter;

use karl_core::check::{check_length, check_not_infinite};
use karl_core::error::{Error, Result};
use karl_core::group::offsets::Offsets;
use karl_core::numeric::parallel;

use crate::calls::{Call, Ledger, Numbers, ToolKind, Tools, Words};
use crate::formula::{SignalsV1, composite};
use crate::version::Version;
use tally::CallTally;

/// Trajectories in columns. Flags are numbers: 1 for true, 0 for false, below 0 for unknown.
#[derive(Clone, Copy, Debug)]
pub struct TrajectoryColumns<'a> {
    /// Offsets of the calls of each trajectory. `[B + 1]`
    pub offsets: Offsets<'a>,
    /// The number of each call's tool in `names`. `[E]`
    pub tools: &'a [i64],
    /// Flag of each call: 1 if it succeeded. `[E]`
    pub success: &'a [i64],
    /// The names of the tools.
    pub names: &'a [String],
    /// The number of each call's file, from 0 and below E, and below 0 where it was given none; of v2 alone. `[E]`
    pub files: Option<&'a [i64]>,
    /// The number of each call's command in `texts`, and below 0 where it was given none; of v2 alone. `[E]`
    pub commands: Option<&'a [i64]>,
    /// The texts of the commands.
    pub texts: &'a [String],
    /// Correction, redo, build, continued, in the order of [`OUTCOME`](crate::OUTCOME), where they are known. `[B]` each
    pub flags: [Option<&'a [i64]>; 4],
    /// Duration of each trajectory in seconds, NaN if unknown. `[B]`
    pub seconds: Option<&'a [f64]>,
}

/// Compute the rewards: [`Record::reward`](crate::Record::reward) of records with counts equal to those of their
/// calls.
///
/// Cost: one pass over the calls in v1, three in v2.
///
/// # Errors
/// [`Error::Length`] for columns that differ in rows; [`Error::Row`] for a tool without a name, a command without a
/// text or a file beyond the number of calls; [`Error::NotFinite`] for infinite seconds.
pub fn scores(
    columns: &TrajectoryColumns<'_>,
    version: Version,
    weights: [f64; 3],
    threads: usize,
) -> Result<Vec<f64>> {
    check(columns)?;
    let kinds: Vec<ToolKind> = columns.names.iter().map(|name| ToolKind::of(name.as_bytes())).collect();
    let words = columns.texts.iter().map(|text| Words::of(text));
    let words: Vec<Words> = iter::once(Words::default()).chain(words).collect();
    let rows = columns.offsets.len();
    let threads = if rows < parallel::ALONE { 1 } else { threads };
    let parts = parallel::in_parts(rows, threads, |rows| match version {
        Version::V1 => {
            let mut tally = CallTally::new(kinds.len());
            rows.map(|row| columns.plain(row, weights, &kinds, &mut tally)).collect()
        }
        Version::V2 => {
            let mut desk = Desk::new(columns, &kinds, &words);
            rows.map(|row| desk.reward(row)).collect::<Vec<f64>>()
        }
    });
    Ok(parts.concat())
}

fn check(columns: &TrajectoryColumns<'_>) -> Result<()> {
    let (rows, calls) = (columns.offsets.len(), columns.tools.len());
    check_length("offsets", columns.offsets.values(), calls)?;
    check_length("success", columns.success.len(), calls)?;
    for (what, column) in [("files", columns.files), ("commands", columns.commands)] {
        column.map_or(Ok(()), |column| check_length(what, column.len(), calls))?;
    }
    columns.flags.iter().flatten().try_for_each(|flags| check_length("flags", flags.len(), rows))?;
    if let Some(seconds) = columns.seconds {
        check_length("seconds", seconds.len(), rows)?;
        check_not_infinite("seconds", seconds)?;
    }
    check_numbers(columns.tools, false, columns.names.len())?;
    check_numbers(columns.files.unwrap_or_default(), true, calls)?;
    check_numbers(columns.commands.unwrap_or_default(), true, columns.texts.len())
}

/// `none`: whether numbers below 0 stand for none.
fn check_numbers(column: &[i64], none: bool, count: usize) -> Result<()> {
    let end = i64::try_from(count.min(u32::MAX as usize)).unwrap_or(i64::MAX);
    let floor = if none { 0 } else { -1 };
    // By signs and without a way out, so that many are looked at together; an overflow only makes it look again.
    if column.iter().fold(0, |odd, &number| odd | !number.wrapping_sub(end) | (number & floor)) >= 0 {
        return Ok(());
    }
    let within = |number: i64| number < end && (none || number >= 0);
    match column.iter().position(|&number| !within(number)) {
        Some(index) => Err(Error::Row { index, row: column[index], count }),
        None => Ok(()),
    }
}

impl TrajectoryColumns<'_> {
    /// Return the reward of v1.
    fn plain(&self, row: usize, weights: [f64; 3], kinds: &[ToolKind], tally: &mut CallTally) -> f64 {
        tally.count(self.calls(row), self.seconds(row), kinds);
        let Ok(signals) = SignalsV1::of(tally);
        composite(signals.scores(self.said(row)), weights)
    }

    /// Return the tools and the success of the calls of a row.
    fn calls(&self, row: usize) -> (&[i64], &[i64]) {
        let calls = self.offsets.row(row);
        (&self.tools[calls.clone()], &self.success[calls])
    }

    fn said(&self, row: usize) -> [Option<bool>; 4] {
        self.flags.map(|flags| flags.and_then(|flags| answer(flags[row])))
    }

    fn seconds(&self, row: usize) -> f64 {
        self.seconds.map_or(f64::NAN, |seconds| seconds[row])
    }
}

fn answer(number: i64) -> Option<bool> {
    (number >= 0).then_some(number > 0)
}

/// Buffers in which the trajectories of v2 are laid out one after the other.
struct Desk<'a> {
    columns: &'a TrajectoryColumns<'a>,
    kinds: &'a [ToolKind],
    /// Purposes of no command, then those of each text.
    words: &'a [Words],
    tally: CallTally,
    calls: Vec<Call>,
    tools: Tools,
    ledger: Ledger,
}

impl<'a> Desk<'a> {
    fn new(columns: &'a TrajectoryColumns<'a>, kinds: &'a [ToolKind], words: &'a [Words]) -> Self {
        let mut ledger = Ledger::default();
        ledger.hold(columns.files.map_or(0, <[i64]>::len));
        let (tally, calls, tools) = (CallTally::new(kinds.len()), Vec::new(), Tools::default());
        Self { columns, kinds, words, tally, calls, tools, ledger }
    }

    fn reward(&mut self, row: usize) -> f64 {
        self.lay(row);
        self.tally.count(self.columns.calls(row), self.columns.seconds(row), self.kinds);
        self.tools.clear();
        self.tally.tools().for_each(|(tool, count)| self.tools.push(self.kinds[tool].changes(), count));
        let said = Numbers {
            calls: &self.calls,
            counts: self.tools.counts(),
            flags: self.columns.said(row),
            ..self.tally.numbers()
        };
        said.reward_v2(&mut self.ledger)
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be below 2^32")]
    fn lay(&mut self, row: usize) {
        let (columns, row) = (self.columns, self.columns.offsets.row(row));
        let tools = columns.tools[row.clone()].iter().zip(&columns.success[row.clone()]);
        self.calls.clear();
        self.calls.extend(tools.map(|(&tool, &success)| {
            let (kind, success) = (self.kinds[tool as usize], answer(success));
            Call { tool: tool as u32, kind, success, ..Call::NONE }
        }));
        let from_1 = |number: i64| (number.max(-1) + 1) as usize;
        if let Some(files) = columns.files {
            let calls = self.calls.iter_mut().zip(&files[row.clone()]);
            calls.for_each(|(call, &file)| call.file = from_1(file) as u32);
        }
        if let Some(commands) = columns.commands {
            let calls = self.calls.iter_mut().zip(&commands[row]);
            let place = |call: &Call, command| if call.kind == ToolKind::Bash { from_1(command) } else { 0 };
            calls.for_each(|(call, &command)| call.words = self.words[place(call, command)]);
        }
    }
}
