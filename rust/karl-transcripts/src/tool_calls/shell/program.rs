//! Program of a simple command, without the programs that only start it.

/// Programs that start another one, with the options that take a value.
const STARTERS: [(&str, &[&str]); 58] = [
    ("sudo", &["-u", "-g"]),
    ("doas", &["-u"]),
    ("time", &["-f", "-o"]),
    ("nice", &["-n"]),
    ("ionice", &["-c", "-n"]),
    ("caffeinate", &["-t"]),
    ("nohup", &[]),
    ("setsid", &[]),
    ("env", &["-u", "-C"]),
    ("cross-env", &[]),
    ("command", &[]),
    ("exec", &[]),
    ("timeout", &["-s", "-k", "--signal", "--kill-after"]),
    ("gtimeout", &["-s", "-k", "--signal", "--kill-after"]),
    ("stdbuf", &[]),
    ("unbuffer", &[]),
    ("xvfb-run", &["-s", "-n", "-e"]),
    ("npx", &["-p", "--package", "-w", "--workspace"]),
    ("bunx", &[]),
    ("pnpx", &[]),
    ("do", &[]),
    ("then", &[]),
    ("else", &[]),
    ("if", &[]),
    ("!", &[]),
    ("pnpm exec", &[]),
    ("pnpm dlx", &[]),
    ("yarn exec", &[]),
    ("yarn dlx", &[]),
    ("npm exec", &["-w", "--workspace"]),
    ("poetry run", &[]),
    ("pipenv run", &[]),
    ("uv run", UV),
    ("uv tool run", UV),
    ("uvx", UV),
    ("pipx run", &["--spec"]),
    ("rye run", &[]),
    ("pdm run", &["-p"]),
    ("hatch run", &["-e", "--env"]),
    ("pixi run", &["-e", "--environment", "--manifest-path"]),
    ("conda run", &["-n", "--name", "-p", "--prefix", "--cwd"]),
    ("mamba run", &["-n", "--name", "-p", "--prefix"]),
    ("micromamba run", &["-n", "--name", "-p", "--prefix"]),
    ("bundle exec", &[]),
    ("mise exec", &[]),
    ("mise x", &[]),
    ("asdf exec", &[]),
    ("direnv exec", &[]),
    ("dotenv", &["-e", "-f"]),
    ("dotenvx run", &["-f"]),
    ("doppler run", &["-p", "-c"]),
    ("op run", &["--env-file"]),
    ("docker compose run", COMPOSE),
    ("docker compose exec", COMPOSE),
    ("docker-compose run", COMPOSE),
    ("docker-compose exec", COMPOSE),
    ("docker exec", COMPOSE),
    ("podman exec", COMPOSE),
];

/// Options of uv that take a value.
const UV: &[&str] = &[
    "--with",
    "--with-requirements",
    "--with-editable",
    "--extra",
    "--group",
    "--only-group",
    "--no-group",
    "--python",
    "-p",
    "--directory",
    "--project",
    "--package",
    "--env-file",
    "--index-url",
    "--from",
];

/// Options of containers that take a value.
const COMPOSE: &[&str] =
    &["-e", "--env", "-u", "--user", "-w", "--workdir", "-v", "--volume", "-p", "--name", "--env-file"];

/// Words that stand between a starter and the program: the name of a container, a folder, a time.
fn names_before(head: &str) -> bool {
    head.starts_with("docker") || head.starts_with("podman") || head == "direnv exec"
}

/// Shells, whose option `-c` has a command line.
const SHELLS: [&str; 9] = ["sh", "bash", "zsh", "dash", "ash", "fish", "pwsh", "powershell", "cmd"];

/// Return the command line that a shell gets as an argument: `bash -lc TEXT`.
pub(crate) fn shell_text<'w>(words: &[&'w str]) -> Option<&'w str> {
    let (shell, rest) = words.split_first()?;
    let name = base(shell).to_ascii_lowercase();
    if !SHELLS.contains(&name.strip_suffix(".exe").unwrap_or(&name)) {
        return None;
    }
    let is_flag = |word: &&str| {
        let word = word.to_ascii_lowercase();
        word == "/c"
            || word == "-command"
            || word.starts_with('-') && !word.starts_with("--") && word.len() < 6 && word.ends_with('c')
    };
    let at = rest.iter().position(is_flag)?;
    let has_script = rest[..at].iter().any(|word| !word.starts_with(['-', '/']) && *word != "Bypass");
    rest.get(at + 1).copied().filter(|_| !has_script)
}

/// Return the words of a command without assignments and starters.
pub(super) fn strip_starters(words: &[String]) -> Vec<&str> {
    let mut rest: Vec<&str> = words.iter().map(String::as_str).collect();
    while strip_starter(&mut rest) {}
    rest
}

/// Remove assignments, or a starter with its options; return whether there was one.
fn strip_starter(rest: &mut Vec<&str>) -> bool {
    let assignments = rest.iter().take_while(|word| is_assignment(word)).count();
    rest.drain(..assignments);
    let starter = STARTERS.iter().filter(|(head, _)| begins(rest, head)).max_by_key(|(head, _)| head.len());
    if let Some((head, valued)) = starter {
        skip(rest, head, valued);
    }
    assignments > 0 || starter.is_some()
}

/// Return the words of the program that a command runs: without assignments, starters, interpreters and the
/// folder of the program.
pub(crate) fn program(words: &[String]) -> Vec<&str> {
    let mut rest = strip_starters(words);
    loop {
        while strip_starter(&mut rest) {}
        let Some(first) = rest.first().copied() else { return rest };
        let name = base(first);
        if name == "-m" {
            // `uv run -m pytest` is `python -m pytest`.
            rest.insert(0, "python");
        } else if name == "coverage" && rest.get(1) == Some(&"run") {
            // `coverage run -m pytest` is `python -m pytest`.
            rest.drain(..1);
            rest[0] = "python";
        } else if name.starts_with("python") || name == "py" {
            // `python -m pytest` is pytest, `python tests.py` is the script.
            let Some(module) = rest.iter().position(|word| *word == "-m") else {
                return if rest.contains(&"-c") { rest } else { script(&rest) };
            };
            rest.drain(..=module);
        } else if name == "node" && rest.iter().any(|word| matches!(*word, "--test" | "--run")) {
            return rest;
        } else if matches!(name, "node" | "ruby" | "perl" | "php" | "bash" | "sh" | "zsh" | "tsx" | "ts-node")
        {
            return script(&rest);
        } else {
            rest[0] = name;
            return rest;
        }
    }
}

/// Return the name of a program without its folder.
pub(crate) fn base(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
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
    while let Some(&option) =
        rest.first().filter(|word| word.starts_with('-') && !matches!(**word, "--" | "-m"))
    {
        let count = if valued.contains(&option) { 2 } else { 1 };
        rest.drain(..count.min(rest.len()));
    }
    let is_number = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
    let is_between = head.ends_with("timeout") && rest.first().is_some_and(is_number) || names_before(head);
    if is_between && !rest.is_empty() {
        rest.remove(0);
    }
    if rest.first() == Some(&"--") {
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
    use super::super::CommandLine;
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
            ("docker compose run --rm -e A=1 web pytest -q", "pytest -q"),
            ("docker compose exec -T app bin/rails test", "rails test"),
            ("docker exec -it c1 npm test", "npm test"),
            ("conda run -n env python -m pytest", "pytest"),
            ("uv run --all-extras --group dev -- pytest", "pytest"),
            ("uv run -m pytest a", "pytest a"),
            ("coverage run -m pytest", "pytest"),
            ("python -m coverage run -m pytest", "pytest"),
            ("node --test tests", "node --test tests"),
            ("cross-env CI=1 jest", "jest"),
            ("gtimeout 60 ./gradlew check", "gradlew check"),
            ("pixi run -e dev pytest", "pytest"),
            ("A=1", ""),
            ("", ""),
        ] {
            let line = CommandLine::parse(text);
            let words = line.steps.first().map(|step| step.words.clone()).unwrap_or_default();
            assert_eq!(program(&words).join(" "), wanted, "{text}");
        }
    }
}
