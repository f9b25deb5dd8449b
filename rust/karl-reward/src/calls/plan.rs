//! Counts of calls in numbers, for verification, consistency and motion.
//!
//! Speed: counts without branches. No record isolates it; `benches/record/reward.json`, v2, columns, includes it.

use super::bash_purpose::Words;
use super::call::{Call, ToolKind};
use crate::formula::measures::{Waste, Writes};

/// A page for each file, by its number: what calls have done to it so far. All are blank between trajectories.
/// The page of no file is the first.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Vec<Page>);

#[derive(Clone, Copy, Debug, Default)]
struct Page {
    reads: u32,
    writes: u32,
}

impl Ledger {
    /// Make room for so many files.
    pub fn hold(&mut self, files: usize) {
        self.0.resize((files + 1).max(self.0.len()), Page::default());
    }
}

/// Counts of calls for verification, consistency and motion.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plan {
    /// True if a file was read after it was written.
    pub(super) again: bool,
    /// Purposes of the commands.
    pub(super) words: Words,
    /// Calls of Bash.
    pub(super) bash: u32,
    reads: u32,
    writes: u32,
    /// Writes of files that were read before.
    prepared: u32,
    /// Files that were written three times or more.
    often: u32,
    /// Reads of files that are never written.
    idle: u32,
    undone: u32,
    loops: u32,
    stuck: u32,
}

// Calls come as they like: a branch on what one is would often be guessed wrong, so that there is none.
impl Plan {
    pub(super) fn of(calls: &[Call], ledger: &mut Ledger) -> Self {
        let mut plan = Self::default();
        // Two walks, each with as many counts as a processor has registers for.
        plan.files(calls, ledger);
        plan.steps(calls);
        plan
    }

    fn files(&mut self, calls: &[Call], ledger: &mut Ledger) {
        let mut before = Call::NONE;
        for call in calls {
            self.file(call, &mut ledger.0[call.file as usize]);
            let written = before.kind.writes() & call.kind.writes();
            self.undone += u32::from(written & (before.file == call.file) & (call.file != 0));
            before = *call;
        }
        for call in calls {
            ledger.0[call.file as usize] = Page::default();
        }
    }

    fn steps(&mut self, calls: &[Call]) {
        let (mut run, mut before) = (Run::default(), Call::NONE);
        for call in calls {
            self.stuck += u32::from(run.sticks(call));
            self.loops += u32::from(before.failed_bash() & call.failed_bash());
            self.words = self.words.or(call.words);
            self.bash += u32::from(call.kind == ToolKind::Bash);
            before = *call;
        }
    }

    fn file(&mut self, call: &Call, page: &mut Page) {
        let read = u32::from((call.kind == ToolKind::Read) & (call.file != 0));
        let written = u32::from(call.kind.writes() & (call.file != 0));
        let fresh = u32::from(page.writes == 0);
        self.again |= read > fresh;
        self.prepared += written & u32::from(page.reads > 0);
        self.reads += read;
        self.writes += written;
        // Reads before a file's first write are not idle once it comes.
        self.idle = self.idle + (read & fresh) - page.reads * (written & fresh);
        page.reads += read;
        page.writes += written;
        self.often += written & u32::from(page.writes == 3);
    }

    pub(super) fn writes(&self) -> Writes {
        Writes { count: self.writes, prepared: self.prepared, often: self.often as usize }
    }

    pub(super) fn waste(&self) -> Waste {
        Waste {
            stuck: self.stuck as usize,
            loops: self.loops as usize,
            undone: self.undone as usize,
            reads: self.reads as usize,
            idle: self.idle as usize,
        }
    }
}

/// Calls of one tool in a row.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    tool: u32,
    length: u32,
    failed: bool,
    stuck: bool,
}

impl Run {
    /// Return whether the run gets stuck with this call: the third or a later one of a named tool, one of which failed.
    fn sticks(&mut self, call: &Call) -> bool {
        let goes_on = (call.tool == self.tool) & (call.kind != ToolKind::Unnamed) & (self.length > 0);
        self.tool = call.tool;
        self.length = if goes_on { self.length + 1 } else { 1 };
        self.failed = (self.failed & goes_on) | call.failed();
        let stuck = self.stuck & goes_on;
        self.stuck = stuck | ((self.length > 2) & self.failed);
        self.stuck & !stuck
    }
}
