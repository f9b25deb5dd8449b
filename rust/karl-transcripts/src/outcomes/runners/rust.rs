//! Rust: cargo test, nextest, builds and clippy.

use karl_log::format::Component::{Build, Lint};

use super::runner::Runner;

/// Texts of a compilation that failed.
const BROKEN: &str = r"(?m)^error\[E\d+\]: .*$|^error: could not compile .*$";

pub(super) const RUNNERS: [Runner; 5] = [
    Runner {
        name: "cargo test",
        commands: &["cargo test", "cargo t", "cargo *test", "cross test"],
        unless: &[
            "--no-run", "--help", "--list", "run", "r", "build", "b", "clippy", "nextest", "fmt", "install",
            "bench", "check", "doc",
        ],
        line: r"(?m)^test result: .*$",
        passed: r"(\d+) passed",
        failed: r"(\d+) failed",
        broken: BROKEN,
        none: r"(?m)^test result: ok\. 0 passed; 0 failed",
        failures: &["test result: FAILED. passed; failed;"],
        ..Runner::NOTHING
    },
    Runner {
        name: "cargo nextest",
        commands: &["cargo *nextest"],
        unless: &["list", "--no-run", "install"],
        line: r"(?m)^\s*Summary \[.*\].* tests? run: .*$",
        passed: r"(\d+) passed",
        failed: r"(\d+) (?:failed|timed out|exec failed)",
        broken: BROKEN,
        none: r"no tests to run",
        stopped: r"(?i-u)cancell?ing due to (?:interrupt|signal)",
        whole: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "cargo build",
        component: Build,
        commands: &["cargo build", "cargo b", "cargo check", "cargo c", "maturin develop", "maturin build"],
        line: r"(?m)^\s*Finished .*$|^error(?:\[E\d+\])?: .*$",
        passed: r"^\s*Finished ",
        failed: r"^error",
        ..Runner::NOTHING
    },
    Runner {
        name: "cargo clippy",
        component: Lint,
        commands: &["cargo clippy"],
        line: r"(?m)^\s*Finished .*$|^error(?:\[E\d+\])?: .*$",
        passed: r"^\s*Finished ",
        failed: r"^error",
        ..Runner::NOTHING
    },
    Runner {
        name: "cargo fmt",
        component: Lint,
        commands: &["cargo *--check"],
        line: r"(?m)^Diff in .*$",
        failed: r"^Diff in ",
        ..Runner::NOTHING
    },
];
