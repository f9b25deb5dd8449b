//! Tests, builds and linters that a session ran after its last edit.

use std::path::Path;

use super::component::Component;
use super::outcome::{Evidence, Outcome};
use super::shell::{CommandLine, shell_edits};
use super::tool_calls::{Action, Ran};
use super::verdict::{Run, RunVerdict, runs, verdict};

/// Components that come from runs.
pub(super) const CHECKS: [Component; 3] = [Component::Tests, Component::Build, Component::Lint];

/// Last run of each kind: its value, evidence and time.
type Last = [Option<(f64, Evidence, Option<i64>)>; CHECKS.len()];

/// Set the components of the last runs after the last edit; return the time of each.
pub(crate) fn checks(
    calls: &[Ran<'_>],
    directory: Option<&Path>,
    outcome: &mut Outcome,
) -> [Option<i64>; CHECKS.len()] {
    let mut last = Last::default();
    for ran in calls.iter().filter(|ran| !ran.is_refused()) {
        match &ran.action {
            Action::Edit(edits)
                if ran.success != Some(false)
                    && edits.iter().any(|edit| !is_scratch(&edit.path, directory)) =>
            {
                last = Last::default();
            }
            Action::Shell(line) => shell(line, ran, directory, &mut last),
            _ => {}
        }
    }
    let mut times = [None; CHECKS.len()];
    for ((component, check), time) in CHECKS.into_iter().zip(last).zip(&mut times) {
        if let Some((value, evidence, moment)) = check {
            outcome.set(component, value, evidence);
            *time = moment;
        }
    }
    times
}

/// Folders of files that change no result, unless the project is there.
const SCRATCH: [&str; 5] = ["/tmp/", "/private/tmp/", "/var/tmp/", "/dev/", "$TMPDIR"];

/// Return whether a file is outside of any project.
fn is_scratch(path: &str, directory: Option<&Path>) -> bool {
    let inside = directory.is_some_and(|directory| Path::new(path).starts_with(directory));
    !inside && (SCRATCH.iter().any(|folder| path.starts_with(folder)) || path.contains("/.claude/"))
}

/// Read a command line: its edits void earlier runs, its runs replace them.
fn shell(line: &CommandLine, ran: &Ran<'_>, directory: Option<&Path>, last: &mut Last) {
    let runs: Vec<(usize, Run)> = line
        .steps
        .iter()
        .enumerate()
        .flat_map(|(at, step)| runs(&step.words).map(move |run| (at, run)))
        .collect();
    let mut runs_left = runs.iter().peekable();
    for (at, step) in line.steps.iter().enumerate() {
        if shell_edits(step).iter().any(|edit| !is_scratch(&edit.path, directory)) {
            *last = Last::default();
        }
        while let Some((_, run)) = runs_left.next_if(|(place, _)| *place == at) {
            let Some(slot) = CHECKS.iter().position(|check| *check == run.component()) else { continue };
            let verdict = verdict(run, line, at, ran, runs.len() == 1);
            match verdict {
                RunVerdict::Nothing => {}
                RunVerdict::Unknown => last[slot] = None,
                RunVerdict::Is(value, why) => {
                    let (message, call) = (Some(ran.message), Some(ran.id.to_owned()));
                    let evidence = Evidence { message, call, why, ..Evidence::default() };
                    last[slot] = Some((value, evidence, ran.time));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tool_calls::calls;
    use super::super::trajectory::with;
    use super::*;

    /// Return `tests`, `build` and `lint` of some calls: the arguments, the output and the success of each.
    fn judged(ran: &[(Value, &str, Option<bool>)]) -> [Option<f64>; 3] {
        let messages = ran.iter().enumerate().flat_map(|(at, (arguments, output, success))| {
            let function = json!({"name": "f", "arguments": arguments.to_string()});
            let id = at.to_string();
            [
                json!({"role": "assistant", "content": "", "tool_calls": [{"id": id, "function": function}]}),
                json!({"role": "tool", "tool_call_id": id, "content": output, "success": success}),
            ]
        });
        let record = json!({"id": "s", "messages": messages.collect::<Vec<_>>()}).to_string();
        let found = with(record.as_bytes(), |trajectory| {
            let mut outcome = Outcome::default();
            checks(&calls(trajectory), Some(Path::new("/tmp/project")), &mut outcome);
            CHECKS.map(|component| outcome.get(component))
        });
        found.unwrap()
    }

    fn tests(ran: &[(Value, &str, Option<bool>)]) -> Option<f64> {
        judged(ran)[0]
    }

    fn bash(command: &str) -> Value {
        json!({"command": command})
    }

    const OK: &str = "2 passed in 0.1s";
    const BAD: &str = "Exit code 1\n1 failed, 1 passed in 0.1s";

    #[test]
    fn only_what_ran_after_the_last_edit_counts() {
        let (edit, run) = (json!({"file_path": "a.py", "content": "x"}), bash("pytest -q"));
        let passed = (run.clone(), OK, Some(true));
        let failed = (run, BAD, Some(false));
        let edited = (edit.clone(), "ok", Some(true));
        assert_eq!(tests(&[edited.clone(), passed.clone()]), Some(1.0));
        assert_eq!(tests(&[passed.clone(), edited.clone()]), None);
        assert_eq!(tests(&[failed.clone(), edited, passed.clone()]), Some(1.0));
        assert_eq!(tests(&[passed.clone(), failed]), Some(0.0));
        // An edit that failed, and one outside of the project, change nothing.
        assert_eq!(tests(&[passed.clone(), (edit, "no such text", Some(false))]), Some(1.0));
        let scratch = json!({"file_path": "/tmp/notes.md", "content": "x"});
        assert_eq!(tests(&[passed.clone(), (scratch, "ok", Some(true))]), Some(1.0));
        let inside = json!({"file_path": "/tmp/project/a.py", "content": "x"});
        assert_eq!(tests(&[passed.clone(), (inside, "ok", Some(true))]), None);
        for command in ["sed -i s/a/b/ a.py", "echo x >> a.py", "git checkout main", "cat > a.py <<E\nx\nE"] {
            assert_eq!(tests(&[passed.clone(), (bash(command), "", Some(true))]), None, "{command}");
        }
        // In one command line the order is that of its commands.
        assert_eq!(tests(&[(bash("sed -i s/a/b/ a.py && pytest"), OK, Some(true))]), Some(1.0));
        assert_eq!(tests(&[(bash("pytest && sed -i s/a/b/ a.py"), OK, Some(true))]), None);
    }

    #[test]
    fn counts_decide_and_the_status_only_where_nothing_hides_it() {
        for (command, output, success, wanted) in [
            ("pytest -q", OK, Some(false), Some(1.0)),
            ("pytest -q | tail -3", BAD, Some(true), Some(0.0)),
            ("pytest -q || true", BAD, Some(true), Some(0.0)),
            ("pytest -qq", "....", Some(true), Some(1.0)),
            ("pytest -qq", "Exit code 1\n..F.", Some(false), Some(0.0)),
            ("pytest -qq | tail -3", "....", Some(true), None),
            ("pytest -qq || true", "....", Some(true), None),
            ("pytest -qq", "....", None, None),
            ("pytest -qq", "Exit code 127\nbash: pytest: command not found", Some(false), None),
            ("pytest -qq", "Exit code 124", Some(false), None),
            ("pytest -qq", "Command timed out after 2m 0.0s", Some(false), None),
            ("cd nowhere && npm test", "Exit code 1\nbash: cd: nowhere: No such file", Some(false), None),
            ("go test ./... | grep ok", "ok  \ta/b\t0.1s", Some(true), None),
            ("go test ./... | tail", "ok  \ta/b\t0.1s", Some(true), Some(1.0)),
            ("cat pytest.log", OK, Some(true), None),
            ("echo '2 passed in 0.1s'", OK, Some(true), None),
            ("npm test", "Tests:       1 failed, 2 total", Some(false), Some(0.0)),
            ("npm test", "done", Some(true), Some(1.0)),
            ("mise run test", "Exit code 1\n[test] ERROR task failed", Some(false), Some(0.0)),
            (".venv/bin/python -m unittest", "Ran 2 tests in 0.0s\n\nOK", Some(true), Some(1.0)),
        ] {
            assert_eq!(tests(&[(bash(command), output, success)]), wanted, "{command}: {output}");
        }
    }

    #[test]
    fn a_run_without_a_verdict_leaves_no_older_one() {
        let passed = (bash("pytest"), OK, Some(true));
        assert_eq!(tests(&[passed.clone(), (bash("pytest -qq | head"), "..", Some(true))]), None);
        // A run of no test, or of nothing, is none.
        assert_eq!(
            tests(&[passed.clone(), (bash("pytest -k x"), "no tests ran in 0.1s", Some(false))]),
            Some(1.0)
        );
        let refused = "The user doesn't want to proceed with this tool use. The tool use was rejected";
        assert_eq!(tests(&[passed, (bash("pytest"), refused, Some(false))]), Some(1.0));
    }

    #[test]
    fn every_kind_has_its_own_verdict() {
        let line = "Exit code 1\nFound 3 errors.\n2 passed in 0.1s\nCompiled";
        let found = judged(&[
            (bash("npm run build"), "done", Some(true)),
            (bash("ruff check . ; pytest"), line, Some(false)),
        ]);
        assert_eq!(found, [Some(1.0), Some(1.0), Some(0.0)]);
        // Which of two failed is not known by the status alone.
        assert_eq!(judged(&[(bash("make lint && make test"), "Exit code 2", Some(false))]), [None; 3]);
        assert_eq!(judged(&[(bash("make lint && make test"), "", Some(true))]), [Some(1.0), None, Some(1.0)]);
    }
}
