//! Tests, builds and linters that a session ran after its last edit.

use std::path::Path;

use karl_log::format::Component;

use super::outcome::{Evidence, Outcome};
use super::runners::{OutputContext, Reading, Runner, Target, all, read, targets};
use crate::tool_calls::edits::EditedFile;
use crate::tool_calls::processes::{Action, ExecutedCall};
use crate::tool_calls::shell::{CommandLine, SimpleCommand, TreeChange, program, shell_edits, tree_change};

/// Components that come from runs.
pub(super) const CHECKS: [Component; 3] = [Component::Tests, Component::Build, Component::Lint];

/// Last run of each kind: its value, evidence and time.
type Last = [Option<(f64, Evidence, Option<i64>)>; CHECKS.len()];

/// Set the components of the last runs after the last edit; return the time of each.
pub(crate) fn checks(
    calls: &[ExecutedCall<'_>],
    directory: Option<&Path>,
    outcome: &mut Outcome,
) -> [Option<i64>; CHECKS.len()] {
    let mut checks = Checks { directory, last: Last::default(), tree: WorkingTree::default() };
    for ran in calls.iter().filter(|ran| !ran.is_refused()) {
        match &ran.action {
            Action::Edit(edits) if ran.success != Some(false) => checks.edit(edits),
            Action::Shell(line) => checks.shell(line, ran),
            _ => {}
        }
    }
    let mut times = [None; CHECKS.len()];
    for ((component, check), time) in CHECKS.into_iter().zip(checks.last).zip(&mut times) {
        if let Some((value, evidence, moment)) = check {
            outcome.set(component, value, evidence);
            *time = moment;
        }
    }
    times
}

/// Working tree of a session: whether it has the session's edits.
#[derive(Debug, Default)]
struct WorkingTree {
    /// True if the session edited files.
    edited: bool,
    /// True if another branch or a stash took the edits away: a run then is not of the session's work.
    away: bool,
    /// Branch, where a command named it, and the one before.
    branch: Option<String>,
    before: Option<String>,
}

impl WorkingTree {
    fn change(&mut self, change: TreeChange, output: &str) {
        match change {
            TreeChange::Branch(name) => self.go(Some(name)),
            TreeChange::Switch(name) => self.switch(name, output),
            TreeChange::Stash => self.away = self.edited,
            TreeChange::Unstash | TreeChange::Join => self.away = false,
        }
    }

    fn switch(&mut self, name: String, output: &str) {
        // A switch that failed, and one that takes uncommitted changes along, leave the work where it is.
        let begins = |text: &str| output.lines().any(|line| line.starts_with(text));
        if begins("error: ") || begins("fatal: ") {
            return;
        }
        let is_back = name == "-" || self.away && self.before.as_ref().is_none_or(|before| *before == name);
        self.away = self.edited && !is_back && !begins("M\t") && self.branch.as_ref() != Some(&name);
        let name = if name == "-" { self.before.clone() } else { Some(name) };
        self.go(name);
    }

    fn go(&mut self, name: Option<String>) {
        self.before = std::mem::replace(&mut self.branch, name);
    }
}

/// Runs of a session while its calls are read.
struct Checks<'d> {
    directory: Option<&'d Path>,
    last: Last,
    tree: WorkingTree,
}

impl Checks<'_> {
    /// Forget the runs before edits that may change their results.
    fn edit(&mut self, edits: &[EditedFile]) {
        if edits.iter().any(|edit| self.matters(&edit.path)) {
            self.last = Last::default();
            self.tree = WorkingTree { edited: true, away: false, ..std::mem::take(&mut self.tree) };
        }
    }

    /// Return whether a file may change what a run says: one of the project that is not prose.
    fn matters(&self, path: &str) -> bool {
        let inside = self.directory.is_some_and(|directory| Path::new(path).starts_with(directory));
        let scratch = !inside && SCRATCH.iter().any(|folder| path.starts_with(folder));
        let of_tools = TOOL_FOLDERS.iter().any(|folder| path.contains(folder)) || path.starts_with(".git/");
        !scratch && !of_tools && !is_prose(path)
    }

    /// Read a command line: its edits void earlier runs, its runs replace them.
    fn shell(&mut self, line: &CommandLine, ran: &ExecutedCall<'_>) {
        let runs: Vec<(usize, Run)> = line
            .steps
            .iter()
            .enumerate()
            .flat_map(|(at, step)| runs(&step.words).map(move |run| (at, run)))
            .collect();
        for (at, step) in line.steps.iter().enumerate() {
            let prints =
                runs.iter().any(|(run, _)| *run == at || *run < at && at <= run + line.pipe(*run).len());
            // What a run writes is its output.
            if !prints {
                self.edit(&shell_edits(step, &ran.result.output));
            }
            if let Some(change) = tree_change(step, &ran.result.output) {
                self.tree.change(change, &ran.result.output);
            }
            for (_, run) in runs.iter().filter(|(place, _)| *place == at) {
                self.run(run, verdict(run, line, at, ran, runs.len() == 1), ran);
            }
        }
    }

    /// Note the verdict of a run.
    fn run(&mut self, run: &Run, verdict: Verdict, ran: &ExecutedCall<'_>) {
        let Some(slot) = CHECKS.iter().position(|check| *check == run.component()) else { return };
        if self.tree.away {
            return;
        }
        match verdict {
            Verdict::Nothing => {}
            Verdict::Unknown => self.last[slot] = None,
            Verdict::Is(value, why) => {
                let (message, call) = (Some(ran.message), Some(ran.id.to_owned()));
                let evidence = Evidence { message, call, why, ..Evidence::default() };
                self.last[slot] = Some((value, evidence, ran.time));
            }
        }
    }
}

/// Folders of files that change no result, unless the project is there.
const SCRATCH: [&str; 6] = ["/tmp/", "/private/tmp/", "/var/tmp/", "/var/folders/", "/dev/", "$TMPDIR"];

/// Folders of the tools themselves.
const TOOL_FOLDERS: [&str; 3] = ["/.claude/", "/.codex/", "/.git/"];

/// Ends of names of prose. A text that a test reads stands in a folder of tests.
const PROSE: [&str; 5] = [".md", ".markdown", ".rst", ".adoc", ".asciidoc"];

/// Names of prose without an end.
const PROSE_NAMES: [&str; 6] = ["README", "CHANGELOG", "LICENSE", "NOTICE", "AUTHORS", "CONTRIBUTING"];

/// Return whether a file is prose, which no run depends on.
fn is_prose(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let lower = name.to_ascii_lowercase();
    let is_test = ["test", "spec", "fixture", "snapshot", "golden"].iter().any(|part| folder.contains(part));
    !is_test && (PROSE.iter().any(|end| lower.ends_with(end)) || PROSE_NAMES.contains(&name))
}

/// Exit statuses that say nothing of the work: a timeout, no such command, a signal.
const OTHER_REASONS: [i64; 6] = [124, 126, 127, 130, 137, 143];

/// Texts in place of the output of a command that has not ended.
const NOT_ENDED: [&str; 5] = [
    "Command running in background",
    "Command timed out",
    "command timed out after",
    "Command was aborted",
    "Command did not complete",
];

/// Run of a check by one command.
pub(super) enum Run {
    /// Known runner.
    Runner(&'static Runner),
    /// Script or target, named for what it runs.
    Script(String, Target),
}

impl Run {
    pub(super) fn component(&self) -> Component {
        match self {
            Self::Runner(runner) => runner.component,
            Self::Script(_, target) => target.component,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Runner(runner) => runner.name,
            Self::Script(name, _) => name,
        }
    }
}

/// Return the checks that a command runs.
pub(super) fn runs(words: &[String]) -> impl Iterator<Item = Run> {
    let words = program(words);
    let known: Vec<Run> = all().filter(|runner| runner.runs(&words)).map(Run::Runner).collect();
    let named = if known.is_empty() { targets(&words) } else { Vec::new() };
    let name = words.iter().take(3).copied().collect::<Vec<_>>().join(" ");
    known.into_iter().chain(named.into_iter().map(move |target| Run::Script(name.clone(), target)))
}

/// Verdict of a run.
pub(super) enum Verdict {
    /// Value, and why.
    Is(f64, String),
    /// It ran, and the output does not say how.
    Unknown,
    /// It ran no test at all, or never ran.
    Nothing,
}

/// Return the verdict of a run by the command at `at` of a line.
pub(super) fn verdict(
    run: &Run,
    line: &CommandLine,
    at: usize,
    ran: &ExecutedCall<'_>,
    alone: bool,
) -> Verdict {
    let result = &ran.result;
    let begins = |line: &str| NOT_ENDED.iter().any(|text| line.starts_with(text));
    if result.unfinished || result.output.lines().any(begins) {
        return Verdict::Unknown;
    }
    let code = line.echoed_status(at, &result.output).or(result.code);
    // Without the command there was no run.
    if matches!(code, Some(126 | 127)) {
        return Verdict::Nothing;
    }
    match reading(run, &result.output, line.pipe(at), alone) {
        Reading::Passed(summary) => Verdict::Is(1.0, format!("{}: {summary}", run.name())),
        Reading::Failed(summary) => Verdict::Is(0.0, format!("{}: {summary}", run.name())),
        Reading::Empty => Verdict::Nothing,
        Reading::Stopped => Verdict::Unknown,
        Reading::Unknown => by_status(run, line, at, ran, code),
    }
}

/// Return the verdict of the exit status, where nothing hides it.
fn by_status(run: &Run, line: &CommandLine, at: usize, ran: &ExecutedCall<'_>, code: Option<i64>) -> Verdict {
    // A target whose name does not say what it runs counts by the counts of tests alone, and without them it is
    // no run of tests.
    if matches!(run, Run::Script(_, target) if !target.by_status) {
        return Verdict::Nothing;
    }
    let ended = code.is_none_or(|code| !OTHER_REASONS.contains(&code));
    // `cd` into a folder that is not there fails in the place of the run.
    let began = !ran.result.output.contains("cd: ");
    let of_line = || ran.result.success.and_then(|status| line.passed(at, status));
    let echoed = line.echoed_status(at, &ran.result.output).map(|code| code == 0);
    match echoed.or_else(of_line).filter(|_| ended && began) {
        Some(true) => Verdict::Is(1.0, format!("{}: exit status 0", run.name())),
        Some(false) => {
            let status = code.map_or_else(|| "not 0".to_owned(), |code| code.to_string());
            Verdict::Is(0.0, format!("{}: exit status {status}", run.name()))
        }
        None => Verdict::Unknown,
    }
}

/// Return what the output says; of a script, what any runner of its kind reads in it.
fn reading(run: &Run, output: &str, pipe: &[SimpleCommand], alone: bool) -> Reading {
    let lines = output.lines().count();
    let read_by = |runner: &Runner, alone: bool| {
        let filtered = pipe.iter().any(|filter| hides(filter, runner, lines));
        read(runner, output, OutputContext { alone, filtered })
    };
    let component = match run {
        Run::Runner(runner) => return read_by(runner, alone),
        Run::Script(_, target) => target.component,
    };
    // A text of one runner may mean something else in the output of another.
    let found: Vec<Reading> = all()
        .filter(|runner| runner.component == component && !runner.own_output)
        .map(|runner| read_by(runner, false))
        .collect();
    let first = |wanted: fn(&Reading) -> bool| found.iter().find(|reading| wanted(reading)).cloned();
    first(|reading| matches!(reading, Reading::Failed(_)))
        .or_else(|| first(|reading| *reading == Reading::Stopped))
        .or_else(|| first(|reading| matches!(reading, Reading::Passed(_))))
        .unwrap_or(Reading::Unknown)
}

/// Return whether a command behind a pipe may hide a failure; `lines` is the length of what it let through.
fn hides(filter: &SimpleCommand, runner: &Runner, lines: usize) -> bool {
    let words = program(&filter.words);
    match words.first().copied() {
        Some("tee" | "cat" | "less" | "more") => false,
        // Fewer lines than it lets through are all there were.
        Some("tail") => runner.above && limit(&words).is_none_or(|limit| lines >= limit),
        Some("head") => limit(&words).is_none_or(|limit| lines >= limit),
        Some("grep" | "egrep" | "rg") => !keeps_failures(&words, runner),
        _ => true,
    }
}

/// Return the number of lines that `head` or `tail` lets through.
fn limit(words: &[&str]) -> Option<usize> {
    let at = |word: &&str| word.starts_with('-');
    let Some(place) = words.iter().position(at) else { return Some(10) };
    let digits = words[place].trim_start_matches("--lines=").trim_start_matches("-n").trim_start_matches('-');
    let number =
        if words[place] == "-n" || words[place] == "--lines" { words.get(place + 1)? } else { digits };
    number.parse().ok()
}

/// Options of grep by which lines with the pattern may be missing.
const GREP_HIDES: [&str; 6] = ["v", "c", "q", "l", "L", "m"];

/// Return whether a filter keeps every line by which a runner says that something failed.
fn keeps_failures(words: &[&str], runner: &Runner) -> bool {
    let (options, operands): (Vec<&str>, Vec<&str>) =
        words.iter().skip(1).partition(|word| word.starts_with('-') && word.len() > 1);
    let hides = |option: &&str| {
        !option.starts_with("--color")
            && (option.starts_with("--") || GREP_HIDES.iter().any(|letter| option.contains(letter)))
    };
    let [pattern] = operands[..] else { return false };
    if options.iter().any(hides) || runner.failures.is_empty() {
        return false;
    }
    let letter_case = options.iter().any(|option| option.contains('i'));
    let parts: Vec<&str> = pattern
        .split('|')
        .map(|part| part.trim_matches(['(', ')', '^', '\\']))
        .filter(|part| !part.is_empty())
        .collect();
    let keeps = |sign: &&str| {
        parts.iter().any(|part| {
            let is_plain = part.bytes().all(|byte| byte.is_ascii_alphabetic() || b" -_:".contains(&byte));
            let in_sign = sign.contains(part)
                || letter_case && sign.to_ascii_lowercase().contains(&part.to_ascii_lowercase());
            is_plain && in_sign
        })
    };
    runner.failures.iter().all(keeps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool_calls::calls;
    use crate::tool_calls::trajectory::with;
    use serde_json::{Value, json};

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
        let changing = ["sed -i s/a/b/ a.py", "echo x >> a.py", "git checkout a.py", "cat > a.py <<E\nx\nE"];
        for command in changing.into_iter().chain(["git reset --hard HEAD~1", "git cherry-pick 1a2b3c4"]) {
            assert_eq!(tests(&[passed.clone(), (bash(command), "", Some(true))]), None, "{command}");
        }
        // Prose, another branch and work of others are not edits of what was tested.
        let keeping = ["git checkout main && git pull", "git pull --rebase", "git stash", "gh pr checkout 1"];
        for command in
            keeping.into_iter().chain(["echo x >> docs/a.md", "rm .git/x.lock", "git checkout -b a"])
        {
            assert_eq!(tests(&[passed.clone(), (bash(command), "", Some(true))]), Some(1.0), "{command}");
        }
        let readme = json!({"file_path": "/tmp/project/README.md", "content": "x"});
        assert_eq!(tests(&[passed.clone(), (readme, "ok", Some(true))]), Some(1.0));
        let expected = json!({"file_path": "/tmp/project/tests/expected.md", "content": "x"});
        assert_eq!(tests(&[passed.clone(), (expected, "ok", Some(true))]), None);
        // In one command line the order is that of its commands.
        assert_eq!(tests(&[(bash("sed -i s/a/b/ a.py && pytest"), OK, Some(true))]), Some(1.0));
        assert_eq!(tests(&[(bash("pytest && sed -i s/a/b/ a.py"), OK, Some(true))]), None);
    }

    #[test]
    fn a_run_without_the_work_of_the_session_does_not_count() {
        let edited = (json!({"file_path": "a.py", "content": "x"}), "ok", Some(true));
        let (passed, failed) = ((bash("pytest"), OK, Some(true)), (bash("pytest"), BAD, Some(false)));
        let git = |command: &str| (bash(command), "", Some(true));
        for (commands, wanted) in [
            (vec!["git stash"], Some(1.0)),
            (vec!["git stash", "git stash pop"], Some(0.0)),
            (vec!["git checkout main"], Some(1.0)),
            (vec!["git checkout main", "git pull"], Some(1.0)),
            (vec!["git checkout main", "git merge work"], Some(0.0)),
            (vec!["git checkout main", "git checkout -"], Some(0.0)),
            (vec!["git checkout main", "git checkout work"], Some(0.0)),
            (vec!["git checkout -b work", "git checkout main", "git checkout other"], Some(1.0)),
        ] {
            let mut calls = vec![edited.clone(), passed.clone()];
            calls.extend(commands.iter().map(|command| git(command)));
            calls.push(failed.clone());
            assert_eq!(tests(&calls), wanted, "{commands:?}");
        }
        // Before the first edit every branch is the session's.
        assert_eq!(tests(&[git("git checkout main"), passed]), Some(1.0));
        let carried = (bash("git checkout main"), "M\ta.py\nSwitched to branch 'main'", Some(true));
        assert_eq!(tests(&[edited, carried, failed]), Some(0.0));
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
