//! The rewards of calls in columns.

use std::convert::Infallible;
use std::iter;

use crate::calls::{Call, Ledger, Numbers, ToolKind, Tools, Words};
use crate::formula::{Measures, SignalsV1, composite, diversity, longest_run};
use crate::reward::Version;
use karl_core::check::{check_length, check_not_infinite};
use karl_core::error::{self, Error};
use karl_core::group::offsets::Offsets;
use karl_core::numeric::parallel;

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
) -> error::Result<Vec<f64>> {
    check(columns)?;
    let kinds: Vec<ToolKind> = columns.names.iter().map(|name| ToolKind::of(name.as_bytes())).collect();
    let words = columns.texts.iter().map(|text| Words::of(text));
    let words: Vec<Words> = iter::once(Words::default()).chain(words).collect();
    let rows = columns.offsets.len();
    let threads = if rows < parallel::ALONE { 1 } else { threads };
    let parts = parallel::in_parts(rows, threads, |rows| match version {
        Version::V1 => {
            let mut tally = CallTally::new(kinds.len());
            rows.map(|row| columns.reward_v1(row, weights, &kinds, &mut tally)).collect()
        }
        Version::V2 => {
            let mut buffers = CallBuffers::new(columns, &kinds, &words);
            rows.map(|row| buffers.reward_v2(row)).collect::<Vec<f64>>()
        }
    });
    Ok(parts.concat())
}

fn check(columns: &TrajectoryColumns<'_>) -> error::Result<()> {
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

/// Reject a number that is not below `count`; `none` says whether numbers below 0 stand for none.
fn check_numbers(column: &[i64], none: bool, count: usize) -> error::Result<()> {
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
    fn reward_v1(&self, row: usize, weights: [f64; 3], kinds: &[ToolKind], tally: &mut CallTally) -> f64 {
        tally.count(self.calls(row), self.seconds(row), kinds);
        let Ok(signals) = SignalsV1::of(tally);
        composite(signals.scores(self.flags_of(row)), weights)
    }

    /// Return the tools and the success of the calls of a row.
    fn calls(&self, row: usize) -> (&[i64], &[i64]) {
        let calls = self.offsets.row(row);
        (&self.tools[calls.clone()], &self.success[calls])
    }

    fn flags_of(&self, row: usize) -> [Option<bool>; 4] {
        self.flags.map(|flags| flags.and_then(|flags| flag_of(flags[row])))
    }

    fn seconds(&self, row: usize) -> f64 {
        self.seconds.map_or(f64::NAN, |seconds| seconds[row])
    }
}

fn flag_of(number: i64) -> Option<bool> {
    (number >= 0).then_some(number > 0)
}

/// Buffers in which the trajectories of v2 are laid out one after the other.
struct CallBuffers<'a> {
    columns: &'a TrajectoryColumns<'a>,
    kinds: &'a [ToolKind],
    /// Purposes of no command, then those of each text.
    words: &'a [Words],
    tally: CallTally,
    calls: Vec<Call>,
    tools: Tools,
    ledger: Ledger,
}

impl<'a> CallBuffers<'a> {
    fn new(columns: &'a TrajectoryColumns<'a>, kinds: &'a [ToolKind], words: &'a [Words]) -> Self {
        let mut ledger = Ledger::default();
        ledger.hold(columns.files.map_or(0, <[i64]>::len));
        let (tally, calls, tools) = (CallTally::new(kinds.len()), Vec::new(), Tools::default());
        Self { columns, kinds, words, tally, calls, tools, ledger }
    }

    fn reward_v2(&mut self, row: usize) -> f64 {
        self.fill_calls(row);
        self.tally.count(self.columns.calls(row), self.columns.seconds(row), self.kinds);
        self.tools.clear();
        self.tally.tools().for_each(|(tool, count)| self.tools.push(self.kinds[tool].changes(), count));
        let numbers = Numbers {
            calls: &self.calls,
            counts: self.tools.counts(),
            flags: self.columns.flags_of(row),
            ..self.tally.numbers()
        };
        numbers.reward_v2(&mut self.ledger)
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be below 2^32")]
    fn fill_calls(&mut self, row: usize) {
        let (columns, row) = (self.columns, self.columns.offsets.row(row));
        let tools = columns.tools[row.clone()].iter().zip(&columns.success[row.clone()]);
        self.calls.clear();
        self.calls.extend(tools.map(|(&tool, &success)| {
            let (kind, success) = (self.kinds[tool as usize], flag_of(success));
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

/// Counts of one trajectory in columns, taken in one pass.
///
/// Speed: v1 of columns in one pass, without calls laid out. Record: `benches/record/reward.json`, v1, columns.
struct CallTally {
    /// The calls of each tool; 0 between trajectories.
    counts: Vec<u32>,
    /// The tools of this trajectory in order of appearance, then room for one that has been there before.
    tools: Vec<usize>,
    seen: usize,
    total: u32,
    good: u32,
    failures: u32,
    bash: u32,
    failed_bash: u32,
    mutations: u32,
    longest: usize,
    seconds: f64,
}

impl CallTally {
    fn new(tools: usize) -> Self {
        let (counts, tools) = (vec![0; tools], vec![0; tools + 1]);
        Self {
            counts,
            tools,
            seen: 0,
            total: 0,
            good: 0,
            failures: 0,
            bash: 0,
            failed_bash: 0,
            mutations: 0,
            longest: 0,
            seconds: f64::NAN,
        }
    }

    /// Count the calls of a row by their tools and success; `kinds` are those of the tools.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to have a name")]
    fn count(&mut self, (tools, success): (&[i64], &[i64]), seconds: f64, kinds: &[ToolKind]) {
        self.tools[..self.seen].iter().for_each(|&tool| self.counts[tool] = 0);
        self.seconds = seconds;
        let (mut seen, mut good, mut failures, mut failed_bash) = (0, 0, 0, 0);
        for (&tool, &success) in tools.iter().zip(success) {
            let tool = tool as usize;
            let (count, failed) = (&mut self.counts[tool], success == 0);
            // Without a branch, which would often be guessed wrong: a tool that is known is written over by the next.
            self.tools[seen] = tool;
            seen += usize::from(*count == 0);
            *count += 1;
            good += u32::from(success > 0);
            failures += u32::from(failed);
            failed_bash += u32::from(failed & (kinds[tool] == ToolKind::Bash));
        }
        (self.seen, self.total, self.good) = (seen, tools.len() as u32, good);
        (self.failures, self.failed_bash) = (failures, failed_bash);
        self.count_kinds(kinds);
        // Fewer than three failures in a row are none.
        self.longest =
            if failures < 3 { 0 } else { longest_run(success.iter().map(|&success| success == 0)) };
    }

    /// Count the calls of Bash, and those of tools that change files.
    fn count_kinds(&mut self, kinds: &[ToolKind]) {
        (self.bash, self.mutations) = (0, 0);
        for &tool in &self.tools[..self.seen] {
            self.bash += if kinds[tool] == ToolKind::Bash { self.counts[tool] } else { 0 };
            self.mutations += if kinds[tool].changes() { self.counts[tool] } else { 0 };
        }
    }

    /// Return the counts that v2 needs.
    fn numbers(&self) -> Numbers<'static> {
        Numbers {
            calls: &[],
            counts: &[],
            flags: [None; 4],
            total: Some(self.total),
            successes: Some(self.good),
            failures: Some(self.failures),
            bash_errors: Some(self.failed_bash),
            seconds: self.seconds,
        }
    }

    /// Return the calls of each tool, in order of appearance.
    fn tools(&self) -> impl ExactSizeIterator<Item = (usize, u32)> {
        self.tools[..self.seen].iter().map(|&tool| (tool, self.counts[tool]))
    }
}

impl Measures for CallTally {
    type Fault = Infallible;

    fn is_empty(&self) -> bool {
        self.total == 0
    }

    fn success_rate(&self) -> Result<f64, Infallible> {
        Ok(f64::from(self.good) / f64::from(self.total))
    }

    fn bash_error_rate(&self) -> Result<f64, Infallible> {
        Ok(if self.bash == 0 { 0.0 } else { f64::from(self.failed_bash) / f64::from(self.bash) })
    }

    fn longest_failure(&self) -> Result<usize, Infallible> {
        Ok(self.longest)
    }

    fn diversity(&self) -> Result<Option<f64>, Infallible> {
        Ok(diversity(self.tools().map(|(_, count)| count), self.total))
    }

    fn calls_a_minute(&self) -> Result<Option<f64>, Infallible> {
        Ok((self.seconds > 0.0).then(|| f64::from(self.total) / self.seconds * 60.0))
    }

    fn mutations(&self) -> Result<(f64, f64), Infallible> {
        Ok((self.mutations.into(), self.total.into()))
    }
}
