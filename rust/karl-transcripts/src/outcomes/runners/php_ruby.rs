//! Ruby, PHP, Perl and shell: `RSpec`, minitest, `PHPUnit`, prove, Bats.

use super::runner::Runner;

pub(super) const RUNNERS: [Runner; 6] = [
    Runner {
        name: "rspec",
        commands: &["rspec", "parallel_rspec", "crystal spec"],
        line: r"(?m)^\d+ examples?, \d+ failures?.*$",
        passed: r"^([1-9]\d*) examples?",
        failed: r"([1-9]\d*) (?:failures?|errors? occurred)",
        none: r"(?m)^0 examples, 0 failures|^No examples found",
        whole: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "phpunit",
        commands: &["phpunit", "paratest"],
        unless: &["--list-tests", "--version"],
        line: r"(?m)^OK \(\d+ tests?, .*\)$|^Tests: \d+, Assertions: .*$|^(?:FAILURES|ERRORS)!$",
        passed: r"^OK \(([1-9]\d*)|^Tests: ([1-9]\d*)",
        failed: r"(?:Failures|Errors): (\d+)|^FAILURES!|^ERRORS!",
        broken: r"(?m)^PHP Fatal error: .*$",
        none: r"No tests executed!",
        whole: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "pest",
        commands: &["pest", "artisan test"],
        line: r"(?m)^\s*Tests:\s+(?:\d+ \w+, )*\d+ \w+ \(\d+ assertions\)\s*$",
        passed: r"([1-9]\d*) passed",
        failed: r"(\d+) (?:failed|errors?)",
        whole: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "minitest",
        commands: &["rails test", "rails test:all", "rake test", "mtest"],
        line: r"(?m)^\d+ (?:runs|tests), \d+ assertions, .*$",
        passed: r"^([1-9]\d*) ",
        failed: r"([1-9]\d*) (?:failures|errors)",
        none: r"(?m)^0 (?:runs|tests), ",
        above: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "prove",
        commands: &["prove"],
        line: r"(?m)^Result: (?:PASS|FAIL)\s*$",
        passed: r"PASS",
        failed: r"FAIL",
        none: r"(?m)^Result: NOTESTS",
        whole: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "bats",
        commands: &["bats"],
        unless: &["--count"],
        line: r"(?m)^\d+ tests?, \d+ failures?.*$|^not ok \d+.*$",
        passed: r"^([1-9]\d*) tests?,",
        failed: r"([1-9]\d*) failures?|^not ok",
        whole: true,
        ..Runner::NOTHING
    },
];
