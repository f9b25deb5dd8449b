//! Trajectories in numbers, which is what most records come to.

use std::convert::Infallible;

use super::bash_purpose::Words;
use super::call::{Call, ToolKind};
use super::plan::{Ledger, Plan};
use crate::formula::measures::{Waste, Writes};
use crate::formula::process::longest_run;
use crate::formula::{Measures, MeasuresV2, SignalsV1, SignalsV2, V2, composite, entropy};
use crate::reward::Reward;

/// A trajectory and what its record says of it.
#[derive(Clone, Copy, Debug)]
pub struct Numbers<'a> {
    /// The calls. `[E]`
    pub calls: &'a [Call],
    /// For each tool a flag that it changes files, and its number of calls, in the order of the record.
    pub counts: &'a [(bool, u32)],
    /// Flags of the outcome, in the order of [`OUTCOME`](crate::OUTCOME).
    pub flags: [Option<bool>; 4],
    /// Number of calls; where None, that of `calls`, and so below.
    pub total: Option<u32>,
    /// Number of calls that succeeded.
    pub successes: Option<u32>,
    /// Number of calls that failed.
    pub failures: Option<u32>,
    /// Number of calls of Bash that failed.
    pub bash_errors: Option<u32>,
    /// Duration in seconds, NaN if unknown.
    pub seconds: f64,
}

impl Numbers<'_> {
    /// Return the reward of v1: the score of [`Record::reward`](crate::Record::reward) of a record with the same values.
    ///
    /// Cost: the number of calls.
    #[must_use]
    pub fn reward_v1(&self, weights: [f64; 3]) -> f64 {
        let Ok(signals) = SignalsV1::of(self);
        composite(signals.scores(self.flags), weights)
    }

    /// Return the reward of v2. The ledger has to hold every file.
    #[must_use]
    pub fn reward_v2(&self, ledger: &mut Ledger) -> f64 {
        let Ok(signals) = SignalsV2::of(&Planned { numbers: self, plan: Plan::of(self.calls, ledger) });
        composite(signals.scores(self.flags), V2)
    }

    /// Return the reward of v1 with its signals and components.
    #[must_use]
    pub fn scored_v1(&self, weights: [f64; 3]) -> Reward {
        let Ok(signals) = SignalsV1::of(self);
        Reward::v1(&signals, self.flags, weights)
    }

    /// Return the reward of v2 with its signals and components. The ledger has to hold every file.
    #[must_use]
    pub fn scored_v2(&self, ledger: &mut Ledger) -> Reward {
        let Ok(signals) = SignalsV2::of(&Planned { numbers: self, plan: Plan::of(self.calls, ledger) });
        Reward::v2(&signals, self.flags)
    }

    fn total(&self) -> u32 {
        self.total.unwrap_or_else(|| whole(self.calls.len()))
    }

    fn successes(&self) -> u32 {
        self.successes.unwrap_or_else(|| self.count(|call| call.success == Some(true)))
    }

    fn failures(&self) -> u32 {
        self.failures.unwrap_or_else(|| self.count(Call::failed))
    }

    fn bash_errors(&self) -> u32 {
        self.bash_errors.unwrap_or_else(|| self.count(Call::failed_bash))
    }

    fn count(&self, is: impl Fn(&Call) -> bool) -> u32 {
        self.calls.iter().map(|call| u32::from(is(call))).sum()
    }

    /// Return the share of so many calls of Bash that failed.
    fn bash_error_rate_of(&self, calls: u32) -> f64 {
        if calls == 0 { 0.0 } else { f64::from(self.bash_errors()) / f64::from(calls) }
    }
}

impl Measures for Numbers<'_> {
    type Fault = Infallible;

    fn is_empty(&self) -> bool {
        self.total() == 0
    }

    fn success_rate(&self) -> Result<f64, Infallible> {
        Ok(f64::from(self.successes()) / f64::from(self.total()))
    }

    fn bash_error_rate(&self) -> Result<f64, Infallible> {
        Ok(self.bash_error_rate_of(self.count(|call| call.kind == ToolKind::Bash)))
    }

    fn longest_failure(&self) -> Result<usize, Infallible> {
        Ok(if self.failures() == 0 { 0 } else { longest_run(self.calls.iter().map(Call::failed)) })
    }

    fn diversity(&self) -> Result<Option<f64>, Infallible> {
        Ok(entropy::diversity(self.counts.iter().map(|(_, count)| *count), self.total()))
    }

    fn calls_a_minute(&self) -> Result<Option<f64>, Infallible> {
        Ok((self.seconds > 0.0).then(|| f64::from(self.total()) / self.seconds * 60.0))
    }

    fn mutations(&self) -> Result<(f64, f64), Infallible> {
        let changes = self.counts.iter().filter(|(changes, _)| *changes);
        Ok((changes.fold(0.0, |sum, (_, count)| sum + f64::from(*count)), self.total().into()))
    }
}

/// A trajectory in numbers with what v2 counts of its calls.
struct Planned<'n, 'a> {
    numbers: &'n Numbers<'a>,
    plan: Plan,
}

impl Measures for Planned<'_, '_> {
    type Fault = Infallible;

    fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    fn success_rate(&self) -> Result<f64, Infallible> {
        self.numbers.success_rate()
    }

    fn bash_error_rate(&self) -> Result<f64, Infallible> {
        Ok(self.numbers.bash_error_rate_of(self.plan.bash))
    }

    fn longest_failure(&self) -> Result<usize, Infallible> {
        self.numbers.longest_failure()
    }

    fn diversity(&self) -> Result<Option<f64>, Infallible> {
        self.numbers.diversity()
    }

    fn calls_a_minute(&self) -> Result<Option<f64>, Infallible> {
        self.numbers.calls_a_minute()
    }

    fn mutations(&self) -> Result<(f64, f64), Infallible> {
        self.numbers.mutations()
    }
}

impl MeasuresV2 for Planned<'_, '_> {
    fn failed(&self) -> Result<impl ExactSizeIterator<Item = bool>, Infallible> {
        Ok(self.numbers.calls.iter().map(Call::failed))
    }

    fn good_share(&self) -> Result<(f64, f64), Infallible> {
        let (good, bad) = (f64::from(self.numbers.successes()), f64::from(self.numbers.failures()));
        let rate = if good + bad > 0.0 { good / (good + bad) } else { 1.0 };
        Ok((rate, self.numbers.total().into()))
    }

    fn verified(&self) -> Result<[bool; 3], Infallible> {
        let Words { test, build } = self.plan.words;
        Ok([test, build, self.plan.again])
    }

    fn changes_files(&self) -> Result<bool, Infallible> {
        Ok(self.numbers.counts.iter().any(|(changes, _)| *changes))
    }

    fn is_short(&self) -> Result<bool, Infallible> {
        Ok(self.numbers.total() < 3)
    }

    fn writes(&self) -> Result<Writes, Infallible> {
        Ok(self.plan.writes())
    }

    fn waste(&self) -> Result<Waste, Infallible> {
        Ok(self.plan.waste())
    }
}

fn whole(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
