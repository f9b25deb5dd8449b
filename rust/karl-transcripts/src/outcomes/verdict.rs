//! Verdict of one run of tests, a build or a linter.

use karl_log::format::Component;

use super::runners::{OutputContext, Reading, Runner, Target, all, read, targets};
use crate::tool_calls::processes::ExecutedCall;
use crate::tool_calls::shell::{CommandLine, SimpleCommand, program};

/// Exit statuses that say nothing of the work: a timeout, no such command, a signal.
const OTHER_REASONS: [i64; 6] = [124, 126, 127, 130, 137, 143];

/// Texts in place of the output of a command that has not ended.
const NOT_ENDED: [&str; 5] = [
    "Command running in background",
    "Command timed out",
    "command timed out after",
    "Command was aborted",
    "Command did not complete",
];

/// Run of a check by one command.
pub(super) enum Run {
    /// Known runner.
    Runner(&'static Runner),
    /// Script or target, named for what it runs.
    Script(String, Target),
}

impl Run {
    pub(super) fn component(&self) -> Component {
        match self {
            Self::Runner(runner) => runner.component,
            Self::Script(_, target) => target.component,
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
    let named = if known.is_empty() { targets(&words) } else { Vec::new() };
    let name = words.iter().take(3).copied().collect::<Vec<_>>().join(" ");
    known.into_iter().chain(named.into_iter().map(move |target| Run::Script(name.clone(), target)))
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
pub(super) fn verdict(
    run: &Run,
    line: &CommandLine,
    at: usize,
    ran: &ExecutedCall<'_>,
    alone: bool,
) -> RunVerdict {
    let result = &ran.result;
    let begins = |line: &str| NOT_ENDED.iter().any(|text| line.starts_with(text));
    if result.unfinished || result.output.lines().any(begins) {
        return RunVerdict::Unknown;
    }
    let code = line.echoed_status(at, &result.output).or(result.code);
    // Without the command there was no run.
    if matches!(code, Some(126 | 127)) {
        return RunVerdict::Nothing;
    }
    match reading(run, &result.output, line.pipe(at), alone) {
        Reading::Passed(summary) => RunVerdict::Is(1.0, format!("{}: {summary}", run.name())),
        Reading::Failed(summary) => RunVerdict::Is(0.0, format!("{}: {summary}", run.name())),
        Reading::Empty => RunVerdict::Nothing,
        Reading::Stopped => RunVerdict::Unknown,
        Reading::Unknown => by_status(run, line, at, ran, code),
    }
}

/// Return the verdict of the exit status, where nothing hides it.
fn by_status(
    run: &Run,
    line: &CommandLine,
    at: usize,
    ran: &ExecutedCall<'_>,
    code: Option<i64>,
) -> RunVerdict {
    // A target whose name does not say what it runs counts by the counts of tests alone, and without them it is
    // no run of tests.
    if matches!(run, Run::Script(_, target) if !target.by_status) {
        return RunVerdict::Nothing;
    }
    let ended = code.is_none_or(|code| !OTHER_REASONS.contains(&code));
    // `cd` into a folder that is not there fails in the place of the run.
    let began = !ran.result.output.contains("cd: ");
    let of_line = || ran.result.success.and_then(|status| line.passed(at, status));
    let echoed = line.echoed_status(at, &ran.result.output).map(|code| code == 0);
    match echoed.or_else(of_line).filter(|_| ended && began) {
        Some(true) => RunVerdict::Is(1.0, format!("{}: exit status 0", run.name())),
        Some(false) => {
            let status = code.map_or_else(|| "not 0".to_owned(), |code| code.to_string());
            RunVerdict::Is(0.0, format!("{}: exit status {status}", run.name()))
        }
        None => RunVerdict::Unknown,
    }
}

/// Return what the output says; of a script, what any runner of its kind reads in it.
fn reading(run: &Run, output: &str, pipe: &[SimpleCommand], alone: bool) -> Reading {
    let lines = output.lines().count();
    let read_by = |runner: &Runner, alone: bool| {
        let filtered = pipe.iter().any(|filter| hides(filter, runner, lines));
        read(runner, output, OutputContext { alone, filtered })
    };
    let component = match run {
        Run::Runner(runner) => return read_by(runner, alone),
        Run::Script(_, target) => target.component,
    };
    // A text of one runner may mean something else in the output of another.
    let found: Vec<Reading> = all()
        .filter(|runner| runner.component == component && !runner.own_output)
        .map(|runner| read_by(runner, false))
        .collect();
    let first = |wanted: fn(&Reading) -> bool| found.iter().find(|reading| wanted(reading)).cloned();
    first(|reading| matches!(reading, Reading::Failed(_)))
        .or_else(|| first(|reading| *reading == Reading::Stopped))
        .or_else(|| first(|reading| matches!(reading, Reading::Passed(_))))
        .unwrap_or(Reading::Unknown)
}

/// Return whether a command behind a pipe may hide a failure; `lines` is the length of what it let through.
fn hides(filter: &SimpleCommand, runner: &Runner, lines: usize) -> bool {
    let words = program(&filter.words);
    match words.first().copied() {
        Some("tee" | "cat" | "less" | "more") => false,
        // Fewer lines than it lets through are all there were.
        Some("tail") => runner.above && limit(&words).is_none_or(|limit| lines >= limit),
        Some("head") => limit(&words).is_none_or(|limit| lines >= limit),
        Some("grep" | "egrep" | "rg") => !keeps_failures(&words, runner),
        _ => true,
    }
}

/// Return the number of lines that `head` or `tail` lets through.
fn limit(words: &[&str]) -> Option<usize> {
    let at = |word: &&str| word.starts_with('-');
    let Some(place) = words.iter().position(at) else { return Some(10) };
    let digits = words[place].trim_start_matches("--lines=").trim_start_matches("-n").trim_start_matches('-');
    let number =
        if words[place] == "-n" || words[place] == "--lines" { words.get(place + 1)? } else { digits };
    number.parse().ok()
}

/// Options of grep by which lines with the pattern may be missing.
const GREP_HIDES: [&str; 6] = ["v", "c", "q", "l", "L", "m"];

/// Return whether a filter keeps every line by which a runner says that something failed.
fn keeps_failures(words: &[&str], runner: &Runner) -> bool {
    let (options, operands): (Vec<&str>, Vec<&str>) =
        words.iter().skip(1).partition(|word| word.starts_with('-') && word.len() > 1);
    let hides = |option: &&str| {
        !option.starts_with("--color")
            && (option.starts_with("--") || GREP_HIDES.iter().any(|letter| option.contains(letter)))
    };
    let [pattern] = operands[..] else { return false };
    if options.iter().any(hides) || runner.failures.is_empty() {
        return false;
    }
    let letter_case = options.iter().any(|option| option.contains('i'));
    let parts: Vec<&str> = pattern
        .split('|')
        .map(|part| part.trim_matches(['(', ')', '^', '\\']))
        .filter(|part| !part.is_empty())
        .collect();
    let keeps = |sign: &&str| {
        parts.iter().any(|part| {
            let is_plain = part.bytes().all(|byte| byte.is_ascii_alphabetic() || b" -_:".contains(&byte));
            let in_sign = sign.contains(part)
                || letter_case && sign.to_ascii_lowercase().contains(&part.to_ascii_lowercase());
            is_plain && in_sign
        })
    };
    runner.failures.iter().all(keeps)
}
