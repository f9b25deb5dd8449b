//! Ruby and PHP: `RSpec`, `PHPUnit`.

use super::runner::Runner;

pub(super) const RUNNERS: [Runner; 2] = [
    Runner {
        name: "rspec",
        commands: &["rspec"],
        line: r"(?m)^\d+ examples?, \d+ failures?.*$",
        passed: r"^([1-9]\d*) examples?",
        failed: r"([1-9]\d*) (?:failures?|errors? occurred)",
        none: r"(?m)^0 examples, 0 failures|^No examples found",
        whole: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "phpunit",
        commands: &["phpunit", "pest"],
        unless: &["--list-tests", "--version"],
        line: r"(?m)^OK \(\d+ tests?, .*\)$|^Tests: \d+, Assertions: .*$|^(?:FAILURES|ERRORS)!$",
        passed: r"^OK \(([1-9]\d*)|^Tests: ([1-9]\d*)",
        failed: r"(?:Failures|Errors): (\d+)|^FAILURES!|^ERRORS!",
        broken: r"(?m)^PHP Fatal error: .*$",
        none: r"No tests executed!",
        whole: true,
        ..Runner::NOTHING
    },
];
