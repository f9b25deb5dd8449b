//! Verdict of one run of tests, a build or a linter.

use super::component::Component;
use super::runners::{OutputContext, Reading, Runner, all, read, script};
use super::shell::{CommandLine, program};
use super::tool_calls::Ran;

/// Commands that pass on the end of what they read.
const KEEPING_THE_END: [&str; 4] = ["tail", "tee", "cat", "less"];

/// Exit statuses that say nothing of the work: a timeout, no such command, a signal.
const OTHER_REASONS: [i64; 6] = [124, 126, 127, 130, 137, 143];

/// Texts in place of the output of a command that has not ended.
const NOT_ENDED: [&str; 4] =
    ["Command running in background", "Command timed out", "Command was aborted", "Command did not complete"];

/// Run of a check by one command.
pub(super) enum Run {
    /// Known runner.
    Runner(&'static Runner),
    /// Script or target, named for what it runs.
    Script(String, Component),
}

impl Run {
    pub(super) fn component(&self) -> Component {
        match self {
            Self::Runner(runner) => runner.component,
            Self::Script(_, component) => *component,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Runner(runner) => runner.name,
            Self::Script(name, _) => name,
        }
    }
}

/// Return the checks that a command runs.
pub(super) fn runs(words: &[String]) -> impl Iterator<Item = Run> {
    let words = program(words);
    let known: Vec<Run> = all().filter(|runner| runner.runs(&words)).map(Run::Runner).collect();
    let named = if known.is_empty() { script(&words) } else { None };
    let name = words.iter().take(3).copied().collect::<Vec<_>>().join(" ");
    known.into_iter().chain(named.map(|component| Run::Script(name, component)))
}

/// Verdict of a run.
pub(super) enum RunVerdict {
    /// Value, and why.
    Is(f64, String),
    /// It ran, and the output does not say how.
    Unknown,
    /// It ran no test at all, or never ran.
    Nothing,
}

/// Return the verdict of a run by the command at `at` of a line.
pub(super) fn verdict(run: &Run, line: &CommandLine, at: usize, ran: &Ran<'_>, alone: bool) -> RunVerdict {
    if NOT_ENDED.iter().any(|text| ran.output.contains(text)) {
        return RunVerdict::Unknown;
    }
    let code = exit_code(ran.output);
    // Without the command there was no run.
    if matches!(code, Some(126 | 127)) {
        return RunVerdict::Nothing;
    }
    let filtered = line.pipe(at).any(|name| !KEEPING_THE_END.contains(&name));
    match reading(run, ran.output, OutputContext { alone, filtered }) {
        Reading::Passed(summary) => RunVerdict::Is(1.0, format!("{}: {summary}", run.name())),
        Reading::Failed(summary) => RunVerdict::Is(0.0, format!("{}: {summary}", run.name())),
        Reading::Empty => RunVerdict::Nothing,
        Reading::Stopped => RunVerdict::Unknown,
        Reading::Unknown => by_status(run, line, at, ran, code),
    }
}

/// Return the verdict of the exit status, where nothing hides it.
fn by_status(run: &Run, line: &CommandLine, at: usize, ran: &Ran<'_>, code: Option<i64>) -> RunVerdict {
    let ended = code.is_none_or(|code| !OTHER_REASONS.contains(&code));
    // `cd` into a folder that is not there fails in the place of the run.
    let began = !ran.output.contains("cd: ");
    match ran.success.filter(|_| ended && began).and_then(|status| line.passed(at, status)) {
        Some(true) => RunVerdict::Is(1.0, format!("{}: exit status 0", run.name())),
        Some(false) => {
            let status = code.map_or_else(|| "not 0".to_owned(), |code| code.to_string());
            RunVerdict::Is(0.0, format!("{}: exit status {status}", run.name()))
        }
        None => RunVerdict::Unknown,
    }
}

/// Return what the output says; of a script, what any runner of its kind reads in it.
fn reading(run: &Run, output: &str, seen: OutputContext) -> Reading {
    let component = match run {
        Run::Runner(runner) => return read(runner, output, seen),
        Run::Script(_, component) => *component,
    };
    // A text of one runner may mean something else in the output of another.
    let seen = OutputContext { alone: false, ..seen };
    let found: Vec<Reading> = all()
        .filter(|runner| runner.component == component)
        .map(|runner| read(runner, output, seen))
        .collect();
    let first = |wanted: fn(&Reading) -> bool| found.iter().find(|reading| wanted(reading)).cloned();
    first(|reading| matches!(reading, Reading::Failed(_)))
        .or_else(|| first(|reading| *reading == Reading::Stopped))
        .or_else(|| first(|reading| matches!(reading, Reading::Passed(_))))
        .unwrap_or(Reading::Unknown)
}

/// Return the exit status in the first line of a result, as Claude Code writes it.
pub(crate) fn exit_code(output: &str) -> Option<i64> {
    let first = output.trim_start().lines().next()?;
    first.strip_prefix("Exit code ").or_else(|| first.strip_prefix("Exit code: "))?.trim().parse().ok()
}
