//! Program of a simple command, without the programs that only start it.

/// Programs that start another one, with the options that take a value.
const STARTERS: [(&str, &[&str]); 28] = [
    ("sudo", &["-u", "-g"]),
    ("time", &[]),
    ("nice", &["-n"]),
    ("nohup", &[]),
    ("env", &["-u"]),
    ("command", &[]),
    ("exec", &[]),
    ("timeout", &["-s", "-k", "--signal", "--kill-after"]),
    ("stdbuf", &[]),
    ("xvfb-run", &[]),
    ("npx", &["-p", "--package"]),
    ("bunx", &[]),
    ("pnpx", &[]),
    ("do", &[]),
    ("then", &[]),
    ("else", &[]),
    ("pnpm exec", &[]),
    ("pnpm dlx", &[]),
    ("yarn exec", &[]),
    ("npm exec", &[]),
    ("poetry run", &[]),
    ("pipenv run", &[]),
    ("uv run", &["--with", "--extra", "--group", "--python", "-p", "--directory", "--project"]),
    ("uvx", &["--with", "--from", "--python"]),
    ("rye run", &[]),
    ("pdm run", &[]),
    ("bundle exec", &[]),
    ("mise exec", &[]),
];

/// Return the words of the program that a command runs: without assignments, starters, interpreters and the
/// folder of the program.
pub(in crate::outcomes) fn program(words: &[String]) -> Vec<&str> {
    let mut rest: Vec<&str> = words.iter().map(String::as_str).collect();
    loop {
        let assignments = rest.iter().take_while(|word| is_assignment(word)).count();
        rest.drain(..assignments);
        let Some(first) = rest.first().copied() else { return rest };
        let name = base(first);
        if let Some((head, valued)) = STARTERS.iter().find(|(head, _)| begins(&rest, head)) {
            skip(&mut rest, head, valued);
        } else if name.starts_with("python") || name == "py" {
            // `python -m pytest` is pytest, `python tests.py` is the script.
            let Some(module) = rest.iter().position(|word| *word == "-m") else {
                return if rest.contains(&"-c") { rest } else { script(&rest) };
            };
            rest.drain(..=module);
        } else if matches!(name, "node" | "ruby" | "perl" | "php" | "bash" | "sh" | "zsh") {
            return script(&rest);
        } else {
            rest[0] = name;
            return rest;
        }
    }
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// Return whether words begin with a starter.
fn begins(words: &[&str], head: &str) -> bool {
    let mut words = words.iter();
    head.split(' ').all(|part| words.next().is_some_and(|word| base(word) == part))
}

/// Remove a starter and its options.
fn skip(rest: &mut Vec<&str>, head: &str, valued: &[&str]) {
    rest.drain(..head.split(' ').count());
    while let Some(&option) = rest.first().filter(|word| word.starts_with('-')) {
        let count = if valued.contains(&option) { 2 } else { 1 };
        rest.drain(..count.min(rest.len()));
    }
    let is_number = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
    if head == "timeout" && rest.first().is_some_and(is_number) {
        rest.remove(0);
    }
}

/// Return the script of an interpreter and its arguments; the interpreter itself without a script.
fn script<'w>(rest: &[&'w str]) -> Vec<&'w str> {
    let at = rest.iter().skip(1).position(|word| !word.starts_with('-')).map(|at| at + 1);
    let mut words = rest[at.unwrap_or_default()..].to_vec();
    if let Some(first) = words.first_mut() {
        *first = base(first);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::super::line::CommandLine;
    use super::*;

    #[test]
    fn programs_by_hand() {
        for (text, wanted) in [
            ("pytest -q", "pytest -q"),
            ("A=1 .venv/bin/python -m pytest -q x", "pytest -q x"),
            ("python3 -W error -m unittest", "unittest"),
            ("uv run --with x pytest", "pytest"),
            ("timeout -k 5 60s npx --yes jest a", "jest a"),
            ("sudo -u me env B=2 ./gradlew test", "gradlew test"),
            ("python manage.py test app", "manage.py test app"),
            ("php vendor/bin/phpunit", "phpunit"),
            ("bash scripts/test.sh -v", "test.sh -v"),
            ("bundle exec rspec", "rspec"),
            ("python -c 'import x'", "python -c import x"),
            ("A=1", ""),
            ("", ""),
        ] {
            let line = CommandLine::parse(text);
            let words = line.steps.first().map(|step| step.words.clone()).unwrap_or_default();
            assert_eq!(program(&words).join(" "), wanted, "{text}");
        }
    }
}
