//! Counts of calls in columns, taken in one pass.
//!
//! Speed: v1 of columns in one pass, without calls laid out. Record: `benches/record/reward.json`, v1, columns.

use std::convert::Infallible;

use crate::calls::{Numbers, ToolKind};
use crate::formula::process::longest_run;
use crate::formula::{Measures, entropy};

/// Counts of one trajectory.
pub(super) struct CallTally {
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
    pub(super) fn new(tools: usize) -> Self {
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
    pub(super) fn count(&mut self, (tools, success): (&[i64], &[i64]), seconds: f64, kinds: &[ToolKind]) {
        self.blank();
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
        self.sort(kinds);
        // Fewer than three failures in a row are none.
        self.longest =
            if failures < 3 { 0 } else { longest_run(success.iter().map(|&success| success == 0)) };
    }

    fn blank(&mut self) {
        self.tools[..self.seen].iter().for_each(|&tool| self.counts[tool] = 0);
    }

    /// Count the calls of Bash, and those of tools that change files.
    fn sort(&mut self, kinds: &[ToolKind]) {
        (self.bash, self.mutations) = (0, 0);
        for &tool in &self.tools[..self.seen] {
            self.bash += if kinds[tool] == ToolKind::Bash { self.counts[tool] } else { 0 };
            self.mutations += if kinds[tool].changes() { self.counts[tool] } else { 0 };
        }
    }

    /// Return the counts that v2 needs.
    pub(super) fn numbers(&self) -> Numbers<'static> {
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
    pub(super) fn tools(&self) -> impl ExactSizeIterator<Item = (usize, u32)> {
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
        Ok(entropy::diversity(self.tools().map(|(_, count)| count), self.total))
    }

    fn calls_a_minute(&self) -> Result<Option<f64>, Infallible> {
        Ok((self.seconds > 0.0).then(|| f64::from(self.total) / self.seconds * 60.0))
    }

    fn mutations(&self) -> Result<(f64, f64), Infallible> {
        Ok((self.mutations.into(), self.total.into()))
    }
}
