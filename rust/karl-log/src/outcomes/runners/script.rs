//! Scripts and targets that run tests, builds and linters under a name: `npm test`, `make lint`, `tox`.

use crate::outcomes::component::Component;

/// Programs that run targets by name.
const TARGETS: [&str; 21] = [
    "make", "gmake", "just", "mise", "npm", "pnpm", "yarn", "bun", "task", "rake", "composer", "invoke",
    "inv", "poe", "pdm", "hatch", "nx", "turbo", "lerna", "rails", "deno",
];

/// Programs that run tests without a target.
const TESTS: [&str; 2] = ["tox", "nox"];

/// Parts of names, by what they run; the first that fits counts.
const NAMES: [(&str, Component); 9] = [
    ("lint", Component::Lint),
    ("typecheck", Component::Lint),
    ("type-check", Component::Lint),
    ("clippy", Component::Lint),
    ("eslint", Component::Lint),
    ("test", Component::Tests),
    ("spec", Component::Tests),
    ("build", Component::Build),
    ("compile", Component::Build),
];

/// Return what a script or target runs, by its name; `None` if the name does not say.
pub(in crate::outcomes) fn script(words: &[&str]) -> Option<Component> {
    let (&program, rest) = words.split_first()?;
    let by_name = |name: &str| {
        let name = name.to_ascii_lowercase();
        NAMES.iter().find(|(part, _)| name.contains(part)).map(|&(_, component)| component)
    };
    if TESTS.contains(&program) {
        return Some(Component::Tests);
    }
    let is_script =
        [".sh", ".py", ".js", ".mjs", ".ts", ".rb", ".bash"].iter().any(|end| program.ends_with(end));
    if is_script {
        return by_name(program);
    }
    if !TARGETS.contains(&program) {
        return None;
    }
    // What stands behind `--` goes to the runner.
    let rest = rest.split(|word| *word == "--").next().unwrap_or_default();
    let mut operands =
        rest.iter().filter(|word| !word.starts_with('-') && !["run", "run-script", "t"].contains(word));
    match operands.next() {
        Some(_) if ["install", "add", "ci", "i", "exec", "remove"].contains(rest.first()?) => None,
        Some(target) => by_name(target),
        None if rest.first() == Some(&"t") => Some(Component::Tests),
        None => matches!(program, "make" | "gmake").then_some(Component::Build),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_by_hand() {
        for (command, wanted) in [
            ("npm test", Some(Component::Tests)),
            ("npm run test:unit -- --coverage", Some(Component::Tests)),
            ("npm t", Some(Component::Tests)),
            ("mise run lint", Some(Component::Lint)),
            ("mise run test -- ./redact/...", Some(Component::Tests)),
            ("make", Some(Component::Build)),
            ("make -j4 lint", Some(Component::Lint)),
            ("tox -e py311", Some(Component::Tests)),
            ("run_tests.sh", Some(Component::Tests)),
            ("npm install test", None),
            ("npm start", None),
            ("mise run fmt", None),
            ("cat test.log", None),
        ] {
            assert_eq!(script(&command.split(' ').collect::<Vec<_>>()), wanted, "{command}");
        }
    }
}
