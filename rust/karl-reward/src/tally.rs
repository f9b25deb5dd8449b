//! What v1 asks of calls in columns, counted in one pass.

use crate::columns::Columns;
use crate::efficiency::{self, pace_of, touch_of};
use crate::events::longest_run;
use crate::numbers::{Kind, Numbers};
use crate::process::{self, calm};
use crate::{clip, entropy};

/// What is counted of one trajectory.
pub(crate) struct Tally {
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
}

impl Tally {
    pub(crate) fn new(tools: usize) -> Self {
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
        }
    }

    /// Counts the calls of a row; `kinds` are those of the tools.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to have a name")]
    pub(crate) fn count(&mut self, columns: &Columns<'_>, row: usize, kinds: &[Kind]) {
        self.blank();
        let calls = columns.offsets.row(row);
        let (tools, success) = (&columns.tools[calls.clone()], &columns.success[calls]);
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
            failed_bash += u32::from(failed & (kinds[tool] == Kind::Bash));
        }
        (self.seen, self.total, self.good) = (seen, tools.len() as u32, good);
        (self.failures, self.failed_bash) = (failures, failed_bash);
        self.sort(kinds);
        // Fewer than three failures in a row are none.
        self.longest =
            if failures < 3 { 0 } else { longest_run(success.iter().map(|&success| success == 0)) };
    }

    fn blank(&mut self) {
        self.tools[..self.seen].iter().for_each(|&tool| self.counts[tool] = 0);
    }

    /// How many calls were of Bash, and how many of tools that change files.
    fn sort(&mut self, kinds: &[Kind]) {
        (self.bash, self.mutations) = (0, 0);
        for &tool in &self.tools[..self.seen] {
            self.bash += if kinds[tool] == Kind::Bash { self.counts[tool] } else { 0 };
            self.mutations += if kinds[tool].changes() { self.counts[tool] } else { 0 };
        }
    }

    /// What v2 takes of it.
    pub(crate) fn numbers(&self) -> Numbers<'static> {
        Numbers {
            calls: &[],
            counts: &[],
            flags: [None; 4],
            total: Some(self.total),
            successes: Some(self.good),
            failures: Some(self.failures),
            bash_errors: Some(self.failed_bash),
            seconds: f64::NAN,
        }
    }

    /// The calls of each tool, in order of appearance.
    pub(crate) fn tools(&self) -> impl ExactSizeIterator<Item = (usize, u32)> {
        self.tools[..self.seen].iter().map(|&tool| (tool, self.counts[tool]))
    }

    pub(crate) fn process(&self) -> f64 {
        if self.total == 0 {
            return 0.5;
        }
        let rate = f64::from(self.good) / f64::from(self.total);
        let bash =
            if self.bash == 0 { 1.0 } else { 1.0 - f64::from(self.failed_bash) / f64::from(self.bash) };
        clip(process::of_three(rate, bash, calm(self.longest)))
    }

    pub(crate) fn efficiency(&self, seconds: f64) -> f64 {
        if self.total == 0 {
            return 0.5;
        }
        let total = f64::from(self.total);
        let diversity = entropy::diversity(self.tools().map(|(_, count)| count), self.total);
        let pace = if seconds > 0.0 { pace_of(total / seconds * 60.0) } else { 0.5 };
        clip(efficiency::of_three(diversity, pace, touch_of(self.mutations.into(), total)))
    }
}
