//! Trajectories in numbers, which is what most records come to.

use crate::events::longest_run;
use crate::outcome::DELTAS;
use crate::plan::{Ledger, Plan};
use crate::{Words, clip, efficiency, entropy, process, round4, score, verification};

/// What a tool is to the formulas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It has no name, or an empty one.
    Unnamed,
    /// Bash.
    Bash,
    /// Read.
    Read,
    /// Write.
    Write,
    /// Edit.
    Edit,
    /// `NotebookEdit`, which changes files, but not those that it is asked about.
    Notebook,
    /// Any other.
    Other,
}

impl Kind {
    /// That of a tool's name.
    #[must_use]
    pub fn of(name: &[u8]) -> Self {
        match name {
            b"" => Self::Unnamed,
            b"Bash" => Self::Bash,
            b"Read" => Self::Read,
            b"Write" => Self::Write,
            b"Edit" => Self::Edit,
            b"NotebookEdit" => Self::Notebook,
            _ => Self::Other,
        }
    }

    /// Whether the tool changes files.
    #[must_use]
    pub fn changes(self) -> bool {
        self.writes() || self == Self::Notebook
    }

    /// Whether it is Write or Edit.
    pub(crate) fn writes(self) -> bool {
        (self == Self::Write) | (self == Self::Edit)
    }
}

/// A call of a tool.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Which tool: calls of one tool have one number.
    pub tool: u32,
    /// What it is.
    pub kind: Kind,
    /// Whether it went well, where that is known.
    pub success: Option<bool>,
    /// What its command is for; of Bash alone.
    pub words: Words,
    /// Which file it was given: calls that were given one file have one number. 0 for none.
    pub file: u32,
}

impl Call {
    /// What comes before the first call.
    pub(crate) const NONE: Self = Self {
        tool: 0,
        kind: Kind::Unnamed,
        success: None,
        words: Words { test: false, build: false },
        file: 0,
    };

    pub(crate) fn failed(&self) -> bool {
        self.success == Some(false)
    }

    pub(crate) fn failed_bash(&self) -> bool {
        self.failed() & (self.kind == Kind::Bash)
    }
}

/// A trajectory and what its record says of it.
#[derive(Clone, Copy, Debug)]
pub struct Numbers<'a> {
    /// The calls. `[E]`
    pub calls: &'a [Call],
    /// Of each tool whether it changes files and how often it was called, in the order of the record.
    pub counts: &'a [(bool, u32)],
    /// What is said of the outcome, in the order of [`OUTCOME`](crate::OUTCOME).
    pub flags: [Option<bool>; 4],
    /// How many calls there were; these here where it is not said, and so below.
    pub total: Option<u32>,
    /// How many went well.
    pub successes: Option<u32>,
    /// How many failed.
    pub failures: Option<u32>,
    /// How many calls of Bash failed.
    pub bash_errors: Option<u32>,
    /// How long it took, NaN where that is not known.
    pub seconds: f64,
}

impl Numbers<'_> {
    /// The reward of v1: the score of [`Record::reward`](crate::Record::reward) of a record that says the same.
    ///
    /// Cost: the number of calls.
    #[must_use]
    pub fn reward_v1(&self, weights: [f64; 3]) -> f64 {
        let signals = [said(self.flags), self.process(), self.efficiency()];
        round4(score::weighted(signals, weights))
    }

    /// The same of v2. Every file has to have a page in the ledger.
    #[must_use]
    pub fn reward_v2(&self, ledger: &mut Ledger) -> f64 {
        let plan = Plan::of(self.calls, ledger);
        let signals = [
            said(self.flags),
            self.weighted_process(plan.bash),
            self.sustained_efficiency(),
            self.verification(&plan),
            if self.total() < 3 { 0.6 } else { plan.consistency() },
            if self.total() < 3 { 0.8 } else { plan.motion() },
        ];
        round4(score::weighted(signals, score::V2))
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

    fn process(&self) -> f64 {
        if self.total() == 0 {
            return 0.5;
        }
        let rate = f64::from(self.successes()) / f64::from(self.total());
        clip(process::of_three(rate, self.clean(self.count(|call| call.kind == Kind::Bash)), self.density()))
    }

    fn weighted_process(&self, bash: u32) -> f64 {
        if self.total() == 0 {
            return 0.5;
        }
        let failed = self.calls.iter().map(Call::failed);
        let (rate, late) = (process::weighted_rate(failed.clone()), process::late(failed));
        clip(process::of_four(rate, self.clean(bash), self.density(), late))
    }

    /// How few of so many calls of Bash failed.
    fn clean(&self, calls: u32) -> f64 {
        if calls == 0 { 1.0 } else { 1.0 - f64::from(self.bash_errors()) / f64::from(calls) }
    }

    fn density(&self) -> f64 {
        if self.failures() == 0 {
            return 1.0;
        }
        process::calm(longest_run(self.calls.iter().map(Call::failed)))
    }

    fn efficiency(&self) -> f64 {
        if self.total() == 0 {
            return 0.5;
        }
        let (diversity, pace, touch) = self.shape();
        clip(efficiency::of_three(diversity, pace, touch))
    }

    fn sustained_efficiency(&self) -> f64 {
        if self.total() == 0 {
            return 0.5;
        }
        let (diversity, pace, touch) = self.shape();
        let (good, bad) = (f64::from(self.successes()), f64::from(self.failures()));
        let rate = if good + bad > 0.0 { good / (good + bad) } else { 1.0 };
        let sustained = efficiency::sustained_of(self.total().into(), rate);
        clip(efficiency::of_four(diversity, pace, touch, sustained))
    }

    fn shape(&self) -> (f64, f64, f64) {
        let diversity = entropy::diversity(self.counts.iter().map(|(_, count)| *count), self.total());
        let total = f64::from(self.total());
        let pace = if self.seconds > 0.0 { efficiency::pace_of(total / self.seconds * 60.0) } else { 0.5 };
        let changes = self.counts.iter().filter(|(changes, _)| *changes);
        let changes = changes.fold(0.0, |sum, (_, count)| sum + f64::from(*count));
        (diversity, pace, efficiency::touch_of(changes, total))
    }

    fn verification(&self, plan: &Plan) -> f64 {
        if self.total() == 0 {
            return 0.5;
        }
        if !self.counts.iter().any(|(changes, _)| *changes) {
            return 0.6;
        }
        let Words { test, build } = plan.words;
        clip(verification::of_three(test, build, plan.again))
    }
}

fn whole(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The outcome's score.
pub(crate) fn said(flags: [Option<bool>; 4]) -> f64 {
    let deltas = flags.iter().zip(DELTAS).map(|(flag, delta)| delta[flag.map_or(2, usize::from)]);
    clip(deltas.fold(0.5, |score, delta| score + delta))
}
