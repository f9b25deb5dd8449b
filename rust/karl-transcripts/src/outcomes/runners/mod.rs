//! Test runners, builds and linters: the commands that run them, and what their output says.
//!
//! A runner is a row of small patterns. The lines that `line` finds are summaries; `passed` and `failed` read
//! their counts. What no pattern reads is unknown.

#[cfg(test)]
mod fixtures;
mod functional;
mod go;
mod javascript;
mod jvm;
mod native;
mod output;
mod php_ruby;
mod python;
mod runner;
mod rust;
mod script;

pub(super) use self::output::{OutputContext, Reading, read};
pub(super) use self::runner::Runner;
pub(super) use self::script::{Target, targets};

/// Every runner.
pub(super) const RUNNERS: [&[Runner]; 8] = [
    &python::RUNNERS,
    &rust::RUNNERS,
    &go::RUNNERS,
    &javascript::RUNNERS,
    &jvm::RUNNERS,
    &native::RUNNERS,
    &php_ruby::RUNNERS,
    &functional::RUNNERS,
];

/// Iterate over every runner.
pub(super) fn all() -> impl Iterator<Item = &'static Runner> {
    RUNNERS.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use karl_log::format::Component;

    use super::*;

    #[test]
    fn every_pattern_is_valid() {
        for runner in all() {
            let patterns =
                [runner.line, runner.passed, runner.failed, runner.broken, runner.none, runner.stopped];
            for pattern in patterns {
                assert!(regex::Regex::new(pattern).is_ok(), "{}: {pattern}", runner.name);
                // Wheels lack Unicode's tables of case, which other crates bring to the tests.
                assert!(!pattern.contains("(?i)"), "{}: {pattern}", runner.name);
            }
        }
    }

    #[test]
    fn commands_by_hand() {
        for (command, wanted) in [
            ("pytest -q tests", "pytest"),
            ("cargo +nightly test --lib", "cargo test"),
            ("cargo nextest run", "cargo nextest"),
            ("go test ./...", "go test"),
            ("gradlew :app:testDebug", "gradle"),
            ("mvn -q test", "maven"),
            ("tsc --noEmit", "tsc"),
            ("ruff check .", "ruff"),
            ("cargo xtask test", "cargo test"),
            ("cargo make test", "cargo test"),
            ("cargo llvm-cov nextest", "cargo nextest"),
            ("node --test", "node --test"),
            ("bun test a", "bun test"),
            ("playwright test --project=x", "playwright"),
            ("mix test test/a.exs", "mix test"),
            ("bazel test //...", "bazel test"),
            ("flutter test", "dart test"),
            ("xcodebuild -scheme A test", "xcodebuild"),
            ("clojure -M:test", "clojure test"),
            ("zig build test", "zig test"),
        ] {
            let words: Vec<&str> = command.split(' ').collect();
            let found: Vec<_> =
                all().filter(|runner| runner.runs(&words)).map(|runner| runner.name).collect();
            assert_eq!(found, [wanted], "{command}");
        }
        for command in
            ["cargo run test", "go version", "cargo test --no-run", "pytest --collect-only", "ruff format ."]
        {
            let words: Vec<&str> = command.split(' ').collect();
            assert!(
                !all().any(|runner| runner.component == Component::Tests && runner.runs(&words)),
                "{command}"
            );
        }
    }
}
