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
mod php_ruby;
mod python;
mod runner;
mod rust;

use karl_log::format::Component;

pub(super) use self::runner::{OutputContext, Reading, Runner, read};

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

/// Target of a script, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::outcomes) struct Target {
    /// Check that it runs.
    pub(in crate::outcomes) component: Component,
    /// True if its exit status is that of the check; false if the name may mean other work too.
    pub(in crate::outcomes) by_status: bool,
}

/// Programs that run targets by name.
const TARGETS: [&str; 33] = [
    "make", "gmake", "remake", "just", "mise", "npm", "pnpm", "yarn", "bun", "task", "go-task", "rake",
    "composer", "invoke", "inv", "poe", "pdm", "hatch", "nx", "turbo", "lerna", "rush", "moon", "rails",
    "deno", "node", "pixi", "devbox", "ninja", "mage", "artisan", "sail", "rye",
];

/// Those that run every target they are given.
const SEVERAL: [&str; 9] = ["make", "gmake", "remake", "just", "mise", "ninja", "rake", "task", "mage"];

/// Programs that run tests without a target.
const TESTS: [&str; 3] = ["tox", "nox", "ctest"];

/// Words between such a program and its target.
const BEFORE: [&str; 7] = ["run", "run-script", "run-many", "task", "affected", "workspaces", "foreach"];

/// Words behind which no target of tests follows.
const OTHER_WORK: [&str; 14] = [
    "install", "add", "ci", "i", "exec", "remove", "init", "create", "publish", "link", "update", "upgrade",
    "why", "x",
];

/// Options that take a value.
const VALUED: [&str; 19] = [
    "-C",
    "--prefix",
    "--filter",
    "-F",
    "-w",
    "--workspace",
    "--cwd",
    "--dir",
    "-f",
    "-d",
    "--directory",
    "--justfile",
    "--file",
    "--taskfile",
    "-p",
    "--project",
    "--projects",
    "--env",
    "-e",
];

/// Words of names, by what they run; the first that fits counts.
const NAMES: [(&str, Component); 20] = [
    ("lint", Component::Lint),
    ("linter", Component::Lint),
    ("typecheck", Component::Lint),
    ("types", Component::Lint),
    ("tsc", Component::Lint),
    ("clippy", Component::Lint),
    ("eslint", Component::Lint),
    ("test", Component::Tests),
    ("tests", Component::Tests),
    ("testing", Component::Tests),
    ("unittest", Component::Tests),
    ("unittests", Component::Tests),
    ("pytest", Component::Tests),
    ("spec", Component::Tests),
    ("specs", Component::Tests),
    ("e2e", Component::Tests),
    ("nextest", Component::Tests),
    ("build", Component::Build),
    ("rebuild", Component::Build),
    ("compile", Component::Build),
];

/// Words of names that may run tests among other work.
const MIXED: [&str; 11] =
    ["check", "checks", "ci", "verify", "validate", "all", "qa", "coverage", "cov", "presubmit", "precommit"];

/// Return what a script or target runs, by its name; nothing if the name does not say.
pub(in crate::outcomes) fn targets(words: &[&str]) -> Vec<Target> {
    let Some((&program, rest)) = words.split_first() else { return Vec::new() };
    let sure = |component| Target { component, by_status: true };
    if TESTS.contains(&program) {
        return vec![sure(Component::Tests)];
    }
    let script = [".sh", ".py", ".js", ".mjs", ".ts", ".rb", ".bash", ".ps1", ".bat", ".pl"]
        .iter()
        .find_map(|end| program.strip_suffix(end));
    if let Some(name) = script {
        return by_name(name).into_iter().collect();
    }
    if !TARGETS.contains(&program) {
        return Vec::new();
    }
    // What stands behind `--` goes to the runner.
    let rest = rest.split(|word| *word == "--").next().unwrap_or_default();
    let names = names(rest);
    let is_named = rest.iter().any(|word| BEFORE.contains(word)) || SEVERAL.contains(&program);
    if !is_named && names.first().is_some_and(|first| OTHER_WORK.contains(first)) {
        return Vec::new();
    }
    match names[..] {
        [] if program.ends_with("make") => vec![sure(Component::Build)],
        ["t" | "tst", ..] if matches!(program, "npm" | "pnpm" | "yarn" | "bun" | "just" | "mise") => {
            vec![sure(Component::Tests)]
        }
        _ if SEVERAL.contains(&program) => unique(names.iter().filter_map(|name| by_name(name))),
        // `yarn workspace NAME test`: the name of a folder is not a target.
        ["workspace", _, ..] => unique(names.iter().skip(2).take(2).filter_map(|name| by_name(name))),
        _ => unique(names.iter().take(1).filter_map(|name| by_name(name))),
    }
}

/// Return the words that may be targets.
fn names<'w>(rest: &[&'w str]) -> Vec<&'w str> {
    let mut names = Vec::new();
    let mut words = rest.iter();
    while let Some(&word) = words.next() {
        if VALUED.contains(&word) {
            words.next();
        } else if matches!(word, "-t" | "--target" | "--targets" | "--run" | "--test") {
            names.extend(if word == "--test" { Some("test") } else { words.next().copied() });
        } else if let Some(target) =
            word.strip_prefix("--target=").or_else(|| word.strip_prefix("--targets="))
        {
            names.push(target);
        } else if !word.starts_with(['-', '+'])
            && !word.contains('=')
            && !BEFORE.contains(&word)
            && word.parse::<f64>().is_err()
        {
            names.push(word);
        }
    }
    names
}

/// Return what a name says that it runs.
fn by_name(name: &str) -> Option<Target> {
    let words = words_of(name);
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    let joined = words.join("-");
    let of = |component| Some(Target { component, by_status: true });
    if joined.contains("type-check") {
        return of(Component::Lint);
    }
    match NAMES.iter().find(|(word, _)| has(word)) {
        Some(&(_, component)) => of(component),
        None if MIXED.iter().any(|word| has(word)) => {
            Some(Target { component: Component::Tests, by_status: false })
        }
        None => None,
    }
}

/// Return the words of a name in lower case: `runTests:unit` has `run`, `tests`, `unit`.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in name.chars() {
        let starts = !letter.is_ascii_alphanumeric() || letter.is_ascii_uppercase() && was_lower;
        if starts {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_ascii_alphanumeric()) {
            word.push(letter.to_ascii_lowercase());
        }
        was_lower = letter.is_ascii_lowercase() || letter.is_ascii_digit();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Return targets, each once.
fn unique(targets: impl Iterator<Item = Target>) -> Vec<Target> {
    let mut all = Vec::new();
    for target in targets {
        if !all.contains(&target) {
            all.push(target);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use karl_log::format::Component;

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

    #[test]
    fn scripts_by_hand() {
        use Component::{Build, Lint, Tests};
        for (command, wanted) in [
            ("npm test", vec![Tests]),
            ("npm run test:unit -- --coverage", vec![Tests]),
            ("npm t", vec![Tests]),
            ("npm --prefix web run test", vec![Tests]),
            ("pnpm --filter app test", vec![Tests]),
            ("pnpm -r run typecheck", vec![Lint]),
            ("yarn workspace build-tools test", vec![Tests]),
            ("bun run test", vec![Tests]),
            ("node --run test", vec![Tests]),
            ("turbo run test --filter=web", vec![Tests]),
            ("nx run web:test", vec![Tests]),
            ("nx run-many -t test", vec![Tests]),
            ("mise run lint", vec![Lint]),
            ("mise run test -- ./redact/...", vec![Tests]),
            ("make", vec![Build]),
            ("make -j 4 lint", vec![Lint]),
            ("make -C core lint test", vec![Lint, Tests]),
            ("make build-latest", vec![Build]),
            ("just test unit", vec![Tests]),
            ("task test", vec![Tests]),
            ("tox -e py311", vec![Tests]),
            ("nox -s tests", vec![Tests]),
            ("run_tests.sh", vec![Tests]),
            ("runTests.js", vec![Tests]),
            ("hatch test", vec![Tests]),
            ("npm install test", vec![]),
            ("npm start", vec![]),
            ("mise run fmt", vec![]),
            ("cat test.log", vec![]),
            ("update_latest.sh", vec![]),
            ("npm run contest", vec![]),
        ] {
            let found: Vec<Component> = targets(&command.split(' ').collect::<Vec<_>>())
                .into_iter()
                .map(|target| target.component)
                .collect();
            assert_eq!(found, wanted, "{command}");
        }
        for command in ["make check", "npm run ci", "just verify", "ci.sh"] {
            let found = targets(&command.split(' ').collect::<Vec<_>>());
            assert_eq!(found, [Target { component: Tests, by_status: false }], "{command}");
        }
    }
}
