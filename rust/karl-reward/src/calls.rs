//! Trajectories in numbers, which is what most records come to: calls, the counts of them, and the rewards of both versions.

use std::convert::Infallible;

use crate::formula::{
    Measures, MeasuresV2, SignalsV1, SignalsV2, V2, Waste, Writes, composite, diversity, longest_run,
};
use crate::reward::Reward;

/// A tool, as far as the formula tells tools apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolKind {
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

impl ToolKind {
    /// Return the kind of a tool by its name.
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

    /// Return whether the tool changes files.
    #[must_use]
    pub fn changes(self) -> bool {
        self.writes() || self == Self::Notebook
    }

    /// Return whether the tool is Write or Edit.
    pub(crate) fn writes(self) -> bool {
        (self == Self::Write) | (self == Self::Edit)
    }
}

/// A call of a tool.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Number of the tool, the same for all calls of it.
    pub tool: u32,
    /// Its kind.
    pub kind: ToolKind,
    /// True if it succeeded; None if unknown.
    pub success: Option<bool>,
    /// The purpose of its command; of Bash alone.
    pub words: Words,
    /// Number of the file given, the same for all calls with it. 0 for none.
    pub file: u32,
}

impl Call {
    /// Placeholder before the first call.
    pub(crate) const NONE: Self = Self {
        tool: 0,
        kind: ToolKind::Unnamed,
        success: None,
        words: Words { test: false, build: false },
        file: 0,
    };

    pub(crate) fn has_failed(&self) -> bool {
        self.success == Some(false)
    }

    pub(crate) fn is_failed_bash(&self) -> bool {
        self.has_failed() & (self.kind == ToolKind::Bash)
    }
}

const TESTS: [&str; 6] = ["pytest", "npm test", "bun test", "cargo test", "go test", "make test"];
const BUILDS: [&str; 5] = ["xcodebuild", "cargo build", "make ", "npm run build", "bun build"];

/// The last four bytes of these words.
const ENDS: [u32; 3] =
    [u32::from_le_bytes(*b"test"), u32::from_le_bytes(*b"uild"), u32::from_le_bytes(*b"ake ")];

/// The bits by which small letters differ from capital ones; a space has it too.
const SMALL: u32 = 0x2020_2020;

/// Purpose of a command: to run tests, to build.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// True if the command contains one of the six words of tests, in any case.
    pub test: bool,
    /// True if it contains one of the five words of builds.
    pub build: bool,
}

impl Words {
    /// Return the purposes of either of two commands.
    fn or(self, other: Self) -> Self {
        Self { test: self.test | other.test, build: self.build | other.build }
    }

    /// Return the purposes of a command.
    ///
    /// Speed: most commands are rejected by four bytes at a time. No record isolates it; `benches/record/reward.json`,
    /// v2, log, includes it.
    ///
    /// ```
    /// use karl_reward::Words;
    ///
    /// assert_eq!(Words::of("cd src && Make test"), Words { test: true, build: true });
    /// assert_eq!(Words::of("make"), Words::default());
    /// ```
    #[must_use]
    pub fn of(command: &str) -> Self {
        // A letter beyond ASCII may have a small form within.
        if command.is_ascii() && !ends(command.as_bytes()) {
            return Self::default();
        }
        let command = command.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| command.contains(word));
        Self { test: has(&TESTS), build: has(&BUILDS) }
    }
}

/// Return whether the command has four bytes that end one of the words; most commands do not.
fn ends(command: &[u8]) -> bool {
    let is_end = |four: &[u8; 4]| ENDS.contains(&(u32::from_le_bytes(*four) | SMALL));
    command.windows(4).any(|four| four.first_chunk().is_some_and(is_end))
}

/// The count of each tool, in the order in which they are counted.
#[derive(Clone, Debug, Default)]
pub struct Tools {
    counts: Vec<(bool, u32)>,
    /// Position of the count of each tool, from 1; 0 between trajectories.
    places: Vec<usize>,
}

impl Tools {
    /// Forget all.
    pub fn clear(&mut self) {
        self.counts.clear();
    }

    /// Add a tool: whether it changes files, and its count.
    pub fn push(&mut self, changes: bool, count: u32) {
        self.counts.push((changes, count));
    }

    /// Count calls, each by the number of its tool and whether that changes files.
    pub fn count(&mut self, calls: impl Iterator<Item = (u32, bool)> + Clone) {
        for (tool, changes) in calls.clone() {
            if tool as usize >= self.places.len() {
                self.places.resize(tool as usize + 1, 0);
            }
            let place = &mut self.places[tool as usize];
            if *place == 0 {
                self.counts.push((changes, 0));
                *place = self.counts.len();
            }
            self.counts[*place - 1].1 += 1;
        }
        calls.for_each(|(tool, _)| self.places[tool as usize] = 0);
    }

    /// Return for each tool a flag that it changes files, and its count.
    #[must_use]
    pub fn counts(&self) -> &[(bool, u32)] {
        &self.counts
    }
}

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
        let Ok(signals) =
            SignalsV2::of(&PlannedNumbers { numbers: self, plan: Plan::of(self.calls, ledger) });
        composite(signals.scores(self.flags), V2)
    }

    /// Return the reward of v1 with its signals and components.
    #[must_use]
    pub fn reward_with_signals_v1(&self, weights: [f64; 3]) -> Reward {
        let Ok(signals) = SignalsV1::of(self);
        Reward::v1(&signals, self.flags, weights)
    }

    /// Return the reward of v2 with its signals and components. The ledger has to hold every file.
    #[must_use]
    pub fn reward_with_signals_v2(&self, ledger: &mut Ledger) -> Reward {
        let Ok(signals) =
            SignalsV2::of(&PlannedNumbers { numbers: self, plan: Plan::of(self.calls, ledger) });
        Reward::v2(&signals, self.flags)
    }

    fn total(&self) -> u32 {
        self.total.unwrap_or_else(|| u32::try_from(self.calls.len()).unwrap_or(u32::MAX))
    }

    fn successes(&self) -> u32 {
        self.successes.unwrap_or_else(|| self.count(|call| call.success == Some(true)))
    }

    fn failures(&self) -> u32 {
        self.failures.unwrap_or_else(|| self.count(Call::has_failed))
    }

    fn bash_errors(&self) -> u32 {
        self.bash_errors.unwrap_or_else(|| self.count(Call::is_failed_bash))
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
        Ok(if self.failures() == 0 { 0 } else { longest_run(self.calls.iter().map(Call::has_failed)) })
    }

    fn diversity(&self) -> Result<Option<f64>, Infallible> {
        Ok(diversity(self.counts.iter().map(|(_, count)| *count), self.total()))
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
struct PlannedNumbers<'n, 'a> {
    numbers: &'n Numbers<'a>,
    plan: Plan,
}

impl Measures for PlannedNumbers<'_, '_> {
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

impl MeasuresV2 for PlannedNumbers<'_, '_> {
    fn failure_flags(&self) -> Result<impl ExactSizeIterator<Item = bool>, Infallible> {
        Ok(self.numbers.calls.iter().map(Call::has_failed))
    }

    fn good_share(&self) -> Result<(f64, f64), Infallible> {
        let (good, bad) = (f64::from(self.numbers.successes()), f64::from(self.numbers.failures()));
        let rate = if good + bad > 0.0 { good / (good + bad) } else { 1.0 };
        Ok((rate, self.numbers.total().into()))
    }

    fn verifications(&self) -> Result<[bool; 3], Infallible> {
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

/// The reads and writes of each file so far, by its number. All are 0 between trajectories. Those of no file are the first.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Vec<FileCounts>);

#[derive(Clone, Copy, Debug, Default)]
struct FileCounts {
    reads: u32,
    writes: u32,
}

impl Ledger {
    /// Make room for so many files.
    pub fn hold(&mut self, files: usize) {
        self.0.resize((files + 1).max(self.0.len()), FileCounts::default());
    }
}

/// Counts of calls for verification, consistency and motion.
///
/// Speed: counts without branches. No record isolates it; `benches/record/reward.json`, v2, columns, includes it.
#[derive(Clone, Copy, Debug, Default)]
struct Plan {
    /// True if a file was read after it was written.
    again: bool,
    /// Purposes of the commands.
    words: Words,
    /// Calls of Bash.
    bash: u32,
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

// A branch on the kind of a call would often be mispredicted, so that there is none.
impl Plan {
    fn of(calls: &[Call], ledger: &mut Ledger) -> Self {
        let mut plan = Self::default();
        // Two walks, each with as many counts as a processor has registers for.
        plan.count_files(calls, ledger);
        plan.count_steps(calls);
        plan
    }

    fn count_files(&mut self, calls: &[Call], ledger: &mut Ledger) {
        let mut before = Call::NONE;
        for call in calls {
            self.add_file(call, &mut ledger.0[call.file as usize]);
            let written = before.kind.writes() & call.kind.writes();
            self.undone += u32::from(written & (before.file == call.file) & (call.file != 0));
            before = *call;
        }
        for call in calls {
            ledger.0[call.file as usize] = FileCounts::default();
        }
    }

    fn count_steps(&mut self, calls: &[Call]) {
        let (mut run, mut before) = (Run::default(), Call::NONE);
        for call in calls {
            self.stuck += u32::from(run.gets_stuck(call));
            self.loops += u32::from(before.is_failed_bash() & call.is_failed_bash());
            self.words = self.words.or(call.words);
            self.bash += u32::from(call.kind == ToolKind::Bash);
            before = *call;
        }
    }

    fn add_file(&mut self, call: &Call, counts: &mut FileCounts) {
        let read = u32::from((call.kind == ToolKind::Read) & (call.file != 0));
        let written = u32::from(call.kind.writes() & (call.file != 0));
        let fresh = u32::from(counts.writes == 0);
        self.again |= read > fresh;
        self.prepared += written & u32::from(counts.reads > 0);
        self.reads += read;
        self.writes += written;
        // Reads before a file's first write are not idle once it comes.
        self.idle = self.idle + (read & fresh) - counts.reads * (written & fresh);
        counts.reads += read;
        counts.writes += written;
        self.often += written & u32::from(counts.writes == 3);
    }

    fn writes(&self) -> Writes {
        Writes { count: self.writes, prepared: self.prepared, often: self.often as usize }
    }

    fn waste(&self) -> Waste {
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
    fn gets_stuck(&mut self, call: &Call) -> bool {
        let goes_on = (call.tool == self.tool) & (call.kind != ToolKind::Unnamed) & (self.length > 0);
        self.tool = call.tool;
        self.length = if goes_on { self.length + 1 } else { 1 };
        self.failed = (self.failed & goes_on) | call.has_failed();
        let stuck = self.stuck & goes_on;
        self.stuck = stuck | ((self.length > 2) & self.failed);
        self.stuck & !stuck
    }
}
