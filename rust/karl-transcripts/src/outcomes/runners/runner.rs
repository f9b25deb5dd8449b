//! Test runner, build or linter: a row of patterns, and the verdict that they read in an output.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use karl_log::format::Component;
use regex::Regex;

/// Test runner, build or linter.
#[derive(Debug)]
pub(in crate::outcomes) struct Runner {
    pub(in crate::outcomes) name: &'static str,
    pub(in crate::outcomes) component: Component,
    /// Commands that run it: a program and the first operand; `*word` is any argument that contains it.
    pub(in crate::outcomes) commands: &'static [&'static str],
    /// Operands with which these commands run something else.
    pub(in crate::outcomes) unless: &'static [&'static str],
    /// Lines of a summary.
    pub(in crate::outcomes) line: &'static str,
    /// Count of passed tests in a summary line; without a group every match is one.
    pub(in crate::outcomes) passed: &'static str,
    /// Count of failures in a summary line.
    pub(in crate::outcomes) failed: &'static str,
    /// Texts of a failure without counts.
    pub(in crate::outcomes) broken: &'static str,
    /// Texts of a run without any test.
    pub(in crate::outcomes) none: &'static str,
    /// Texts of a run that was stopped, or that says nothing about the work.
    pub(in crate::outcomes) stopped: &'static str,
    /// True if one line has both counts, so that a part of the output suffices.
    pub(in crate::outcomes) whole: bool,
    /// Beginnings of lines that a failure always has; a filter that keeps them hides none.
    pub(in crate::outcomes) failures: &'static [&'static str],
    /// True if a failure may stand above the last summary, so that the end of an output does not suffice.
    pub(in crate::outcomes) above: bool,
    /// True if its lines mean nothing in the output of a script.
    pub(in crate::outcomes) own_output: bool,
}

impl Runner {
    /// Runner without any pattern; empty patterns match nothing.
    pub(super) const NOTHING: Self = Self {
        name: "",
        component: Component::Tests,
        commands: &[],
        unless: &[],
        line: "",
        passed: "",
        failed: "",
        broken: "",
        none: "",
        stopped: "",
        whole: false,
        failures: &[],
        above: false,
        own_output: false,
    };

    /// Return whether the words of a command run it.
    pub(in crate::outcomes) fn runs(&self, words: &[&str]) -> bool {
        let Some((&program, rest)) = words.split_first() else { return false };
        let operands = || rest.iter().filter(|word| !word.starts_with(['-', '+']));
        let matches = |command: &&str| {
            let (wanted, operand) = command.split_once(' ').unwrap_or((command, ""));
            wanted == program
                && match operand.strip_prefix('*') {
                    Some(part) => rest.iter().any(|word| word.to_ascii_lowercase().contains(part)),
                    None => operand.is_empty() || operands().next().is_some_and(|&word| word == operand),
                }
        };
        self.commands.iter().any(matches) && !rest.iter().any(|word| self.unless.contains(word))
    }
}

/// Verdict of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::outcomes) enum Reading {
    /// Everything passed; the summary.
    Passed(String),
    /// Something failed; the summary.
    Failed(String),
    /// No test ran.
    Empty,
    /// The run was stopped, or broke for reasons of its own.
    Stopped,
    /// The output does not say.
    Unknown,
}

/// Facts about the command line of an output.
#[derive(Clone, Copy, Debug)]
pub(in crate::outcomes) struct OutputContext {
    /// True if no other runner wrote into the same output.
    pub(in crate::outcomes) alone: bool,
    /// True if lines may be missing anywhere but before the end.
    pub(in crate::outcomes) filtered: bool,
}

/// Maximum length of a quoted summary.
const QUOTED: usize = 200;

/// Return the verdict of a runner's output.
pub(in crate::outcomes) fn read(runner: &Runner, output: &str, seen: OutputContext) -> Reading {
    let text = plain(output);
    let matches = |pattern: &str| compiled(pattern).is_some_and(|regex| regex.is_match(&text));
    if matches(runner.stopped) {
        return Reading::Stopped;
    }
    let (mut passed, mut failed, mut summary) = (0, 0, String::new());
    let lines = compiled(runner.line);
    for line in lines.iter().flat_map(|regex| regex.find_iter(&text)) {
        let (more_passed, more_failed) =
            (count(runner.passed, line.as_str()), count(runner.failed, line.as_str()));
        // The first failure, or else the last success.
        if failed == 0 && (more_passed > 0 || more_failed > 0) {
            summary = quoted(line.as_str());
        }
        passed += more_passed;
        failed += more_failed;
    }
    if failed > 0 {
        return Reading::Failed(summary);
    }
    // Of several runners in one output, none owns such a line.
    if let Some(found) = compiled(runner.broken).filter(|_| seen.alone).and_then(|regex| regex.find(&text)) {
        return Reading::Failed(quoted(found.as_str()));
    }
    match () {
        () if passed > 0 && (runner.whole || !seen.filtered && !is_cut(&text)) => Reading::Passed(summary),
        () if passed > 0 => Reading::Unknown,
        () if matches(runner.none) => Reading::Empty,
        () => Reading::Unknown,
    }
}

/// Return whether a tool left out a part in the middle of an output.
fn is_cut(text: &str) -> bool {
    static CUT: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?:…|\.\.\.) ?\[?\d+ (?:characters|chars|lines|tokens) truncated|\[\.\.\. omitted \d+ of \d+ lines|<response clipped>").ok()
    });
    CUT.as_ref().is_some_and(|regex| regex.is_match(text))
}

/// Return an output without colours, with a line for each that overwrote another.
fn plain(output: &str) -> Cow<'_, str> {
    static COLOURS: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b\][^\x07]*\x07").ok());
    let text = COLOURS.as_ref().map_or(Cow::Borrowed(output), |regex| regex.replace_all(output, ""));
    if text.contains('\r') { Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n")) } else { text }
}

fn quoted(line: &str) -> String {
    line.trim().trim_matches('=').trim().chars().take(QUOTED).collect()
}

/// Return the sum of a pattern's first groups in a line; a match without a group counts 1.
fn count(pattern: &str, line: &str) -> u64 {
    let Some(regex) = compiled(pattern) else { return 0 };
    let numbers = regex.captures_iter(line).map(|found| {
        let group = found.iter().skip(1).flatten().next();
        group.map_or(1, |group| group.as_str().parse().unwrap_or(1))
    });
    numbers.fold(0, u64::saturating_add)
}

/// Return a pattern of the table, compiled once; `None` for an empty one.
fn compiled(pattern: &str) -> Option<Regex> {
    static COMPILED: LazyLock<Mutex<HashMap<String, Option<Regex>>>> = LazyLock::new(Mutex::default);
    if pattern.is_empty() {
        return None;
    }
    let mut known = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(regex) = known.get(pattern) {
        return regex.clone();
    }
    // A pattern is tested to be valid.
    known.entry(pattern.to_owned()).or_insert_with(|| Regex::new(pattern).ok()).clone()
}
