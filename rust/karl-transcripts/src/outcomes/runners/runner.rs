//! Row of the table of runners.

use karl_log::format::Component;

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
