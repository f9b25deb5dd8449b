//! The rewards of v1 from calls in columns.

use std::sync::LazyLock;

use super::efficiency::pace_of;
use super::outcome::DELTAS;
use super::process::calm;
use super::trajectory::MUTATIONS;
use super::{clip, larger, round4, smaller};
use crate::blocks;
use crate::check::{check_length, check_not_infinite};
use crate::error::{Error, Result};
use crate::ragged::Offsets;

/// Trajectories in columns. What is asked and answered by a number is 1 for yes, 0 for no, below 0 where nothing is said.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a> {
    /// Where the calls of each trajectory begin. `[B + 1]`
    pub offsets: Offsets<'a>,
    /// The number of each call's tool in `names`. `[E]`
    pub tools: &'a [i64],
    /// Whether each call went well. `[E]`
    pub success: &'a [i64],
    /// The names of the tools.
    pub names: &'a [String],
    /// Correction, redo, build, continued, in the order of [`OUTCOME`](super::OUTCOME), where they are known. `[B]` each
    pub flags: [Option<&'a [i64]>; 4],
    /// How long each trajectory took, NaN where that is not known. `[B]`
    pub seconds: Option<&'a [f64]>,
}

/// The rewards of v1: [`Record::reward`](super::Record::reward) of records whose counts are those of their calls.
///
/// Cost: one pass over the calls.
///
/// # Errors
/// [`Error::Length`] for columns that differ in rows; [`Error::Row`] for a tool without a name; [`Error::NotFinite`] for
/// infinite seconds.
pub fn scores(columns: &Columns<'_>, weights: [f64; 3], threads: usize) -> Result<Vec<f64>> {
    check(columns)?;
    let mut rewards = vec![0.0; columns.offsets.len()];
    let is = |tools: &[&str]| columns.names.iter().map(|name| tools.contains(&name.as_str())).collect();
    let kinds = Kinds { bash: is(&["Bash"]), mutation: is(&MUTATIONS) };
    blocks::fill(&mut rewards, threads, |first, rewards| {
        let mut calls = Calls::new(columns.names.len());
        for (at, reward) in rewards.iter_mut().enumerate() {
            calls.count(columns, first + at, &kinds);
            let signals =
                [outcome(columns, first + at), calls.process(), calls.efficiency(columns, first + at)];
            let [outcome, process, efficiency] = [0, 1, 2].map(|at| weights[at] * signals[at]);
            *reward = round4(outcome + process + efficiency);
        }
    });
    Ok(rewards)
}

fn check(columns: &Columns<'_>) -> Result<()> {
    let (rows, count) = (columns.offsets.len(), columns.names.len());
    check_length("offsets", columns.offsets.values(), columns.tools.len())?;
    check_length("success", columns.success.len(), columns.tools.len())?;
    columns.flags.iter().flatten().try_for_each(|flags| check_length("flags", flags.len(), rows))?;
    if let Some(seconds) = columns.seconds {
        check_length("seconds", seconds.len(), rows)?;
        check_not_infinite("seconds", seconds)?;
    }
    let named = |tool: i64| usize::try_from(tool).is_ok_and(|tool| tool < count);
    // Without a way out, so that many are looked at together.
    if columns.tools.iter().fold(true, |all, &tool| all & named(tool)) {
        return Ok(());
    }
    let index = columns.tools.iter().position(|&tool| !named(tool)).unwrap_or_default();
    Err(Error::Row { index, row: columns.tools[index], count })
}

struct Kinds {
    bash: Vec<bool>,
    mutation: Vec<bool>,
}

/// What is counted of one trajectory.
struct Calls {
    /// The calls of each tool; 0 between trajectories.
    counts: Vec<u32>,
    /// The calls of the tools of this trajectory, in order of appearance.
    tools: Vec<usize>,
    /// The entropy of so many tools that are called alike.
    bits: Vec<f64>,
    total: u32,
    good: u32,
    bash: u32,
    failed_bash: u32,
    mutations: u32,
    longest: u32,
}

impl Calls {
    fn new(tools: usize) -> Self {
        let bits = (0..=tools).map(|tools| libm::log2(tools as f64)).collect();
        let (counts, tools) = (vec![0; tools], Vec::with_capacity(tools));
        Self { counts, tools, bits, total: 0, good: 0, bash: 0, failed_bash: 0, mutations: 0, longest: 0 }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to have a name")]
    fn count(&mut self, columns: &Columns<'_>, row: usize, kinds: &Kinds) {
        (self.good, self.bash, self.failed_bash, self.mutations, self.longest) = (0, 0, 0, 0, 0);
        self.tools.drain(..).for_each(|tool| self.counts[tool] = 0);
        let calls = columns.offsets.row(row);
        self.total = calls.len() as u32;
        let mut run = 0;
        for (&tool, &success) in columns.tools[calls.clone()].iter().zip(&columns.success[calls]) {
            let tool = tool as usize;
            if self.counts[tool] == 0 {
                self.tools.push(tool);
            }
            self.counts[tool] += 1;
            let failed = success == 0;
            self.failed_bash += u32::from(kinds.bash[tool] & failed);
            self.good += u32::from(success > 0);
            run = if failed { run + 1 } else { 0 };
            self.longest = self.longest.max(run);
        }
        for &tool in &self.tools {
            self.bash += if kinds.bash[tool] { self.counts[tool] } else { 0 };
            self.mutations += if kinds.mutation[tool] { self.counts[tool] } else { 0 };
        }
    }

    fn process(&self) -> f64 {
        if self.total == 0 {
            return 0.5;
        }
        let rate = f64::from(self.good) / f64::from(self.total);
        let bash =
            if self.bash == 0 { 1.0 } else { 1.0 - f64::from(self.failed_bash) / f64::from(self.bash) };
        clip(rate * 0.45 + bash * 0.30 + calm(self.longest as usize) * 0.25)
    }

    fn efficiency(&self, columns: &Columns<'_>, row: usize) -> f64 {
        if self.total == 0 {
            return 0.5;
        }
        let total = f64::from(self.total);
        let seconds = columns.seconds.map_or(0.0, |seconds| seconds[row]);
        let pace = if seconds > 0.0 { pace_of(total / seconds * 60.0) } else { 0.5 };
        let touch = smaller(1.0, f64::from(self.mutations) / larger(total * 0.3, 1.0));
        clip(self.diversity() * 0.35 + pace * 0.35 + touch * 0.30)
    }

    fn diversity(&self) -> f64 {
        if self.tools.len() < 2 {
            return 0.3;
        }
        let entropy = self.tools.iter().fold(0.0, |sum, &tool| sum - TERMS.of(self.counts[tool], self.total));
        entropy / self.bits[self.tools.len()]
    }
}

fn outcome(columns: &Columns<'_>, row: usize) -> f64 {
    let said =
        columns.flags.iter().zip(DELTAS).filter_map(|(flags, delta)| Some((flags.as_ref()?[row], delta)));
    let said = said.filter(|(flag, _)| *flag >= 0);
    clip(said.fold(0.5, |score, (flag, delta)| score + delta[usize::from(flag > 0)]))
}

/// Terms of the entropy, of all trajectories of up to 64 calls.
struct Terms(Vec<f64>);

static TERMS: LazyLock<Terms> = LazyLock::new(Terms::new);

impl Terms {
    const MOST: u32 = 64;

    fn new() -> Self {
        let sizes = (0..=Self::MOST).flat_map(|total| (0..=Self::MOST).map(move |count| (count, total)));
        Self(sizes.map(|(count, total)| Self::term(count.into(), total.into())).collect())
    }

    fn of(&self, count: u32, total: u32) -> f64 {
        if total > Self::MOST {
            return Self::term(count.into(), total.into());
        }
        self.0[(total * (Self::MOST + 1) + count) as usize]
    }

    /// p log2 p for p = count / total.
    fn term(count: f64, total: f64) -> f64 {
        let share = count / total;
        share * libm::log2(share)
    }
}
