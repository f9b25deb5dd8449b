//! Outcomes from repositories with known fates, and from hostile ones.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use karl_log::Watch;
use karl_log::outcomes::component::Component::{Committed, Merged, Reverted, Survived};
use karl_log::outcomes::git::{PullRequest, Refusal, Settings, Why, compare};
use karl_log::outcomes::outcome::Outcome;
use karl_log::outcomes::session::{FileEdit, NamedCommit, SessionWork};
use tempfile::TempDir;

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
const START: i64 = 1_700_000_000;

/// Repository of a test, with a clock of its own.
struct Made {
    folder: TempDir,
    time: i64,
}

impl Made {
    fn new() -> Self {
        Self::with(&["init", "-q", "-b", "main"])
    }

    fn with(init: &[&str]) -> Self {
        let made = Self { folder: tempfile::tempdir().unwrap(), time: START - DAY };
        made.git(init);
        made.write("base.py", "import base\n");
        made.commit("Base");
        made
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn git(&self, arguments: &[&str]) -> String {
        let date = format!("@{} +0000", self.time);
        let mut command = Command::new("git");
        command.current_dir(self.path()).args(["-c", "commit.gpgSign=false"]).args(arguments);
        command.envs([
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_EDITOR", "true"),
        ]);
        for role in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{role}_NAME"), "A").env(format!("GIT_{role}_EMAIL"), "a@b");
            command.env(format!("GIT_{role}_DATE"), &date);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn commit(&self, message: &str) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    fn wait(&mut self, seconds: i64) {
        self.time += seconds;
    }

    /// Let the horizon of everything so far pass.
    fn later(&mut self) {
        self.wait(30 * DAY);
        self.write("later.py", "print('much later')\n");
        self.commit("Later");
    }

    fn compare(&self, sessions: &[SessionWork]) -> Vec<Outcome> {
        compare(self.path(), &sessions.iter().collect::<Vec<_>>(), &Settings::default(), &Watch::new())
            .unwrap()
    }

    fn outcome(&self, session: SessionWork) -> Outcome {
        self.compare(&[session]).remove(0)
    }
}

/// Return lines of code with numbers in them.
fn code(name: &str, numbers: std::ops::Range<usize>) -> String {
    let lines: Vec<String> =
        numbers.map(|number| format!("value_{name}_{number} = compute({number})")).collect();
    lines.join("\n") + "\n"
}

/// Return a session of an hour that writes files.
fn session(made: &Made, files: &[(&str, &str)]) -> SessionWork {
    let edit = |&(path, text): &(&str, &str)| FileEdit {
        path: format!("/elsewhere/repo/{path}"),
        added: text.lines().map(str::to_owned).collect(),
        time: Some(made.time),
        ..FileEdit::default()
    };
    SessionWork {
        id: "session-0001".to_owned(),
        directory: Some(PathBuf::from("/elsewhere/repo")),
        start: Some(made.time),
        end: Some(made.time + HOUR),
        edits: files.iter().map(edit).collect(),
        ..SessionWork::default()
    }
}

/// Let a session write `a.py` with ten lines and commit it.
fn ten_lines(made: &mut Made) -> (SessionWork, String) {
    made.wait(DAY);
    let text = code("a", 0..10);
    let session = session(made, &[("a.py", &text)]);
    made.write("a.py", &text);
    made.wait(HOUR);
    let hash = made.commit("Work");
    (session, hash)
}

fn rules(outcome: &Outcome) -> Vec<(&str, &str)> {
    outcome.attributed.iter().map(|one| (&*one.commit, one.rule)).collect()
}

#[test]
fn work_that_was_kept() {
    let mut made = Made::new();
    let (session, hash) = ten_lines(&mut made);
    assert_eq!(made.outcome(session.clone()).get(Survived), None, "the horizon has not passed");
    made.later();
    let outcome = made.outcome(session);
    assert_eq!(rules(&outcome), [(&*hash, "time_and_files")]);
    assert_eq!(outcome.attributed[0].lines, 10);
    assert_eq!(
        [Committed, Survived, Reverted, Merged].map(|one| outcome.get(one)),
        [Some(1.0), Some(1.0), Some(0.0), None]
    );
}

#[test]
fn work_that_was_rewritten_after_a_week_or_after_the_horizon() {
    for (days, survived) in [(7, 0.7), (20, 1.0)] {
        let mut made = Made::new();
        let (session, _) = ten_lines(&mut made);
        made.wait(days * DAY);
        made.write("a.py", &(code("other", 0..3) + &code("a", 3..10)));
        made.commit("Rewrite");
        made.later();
        assert_eq!(made.outcome(session).get(Survived), Some(survived), "after {days} days");
    }
}

#[test]
fn reindented_lines_survive() {
    let mut made = Made::new();
    let (session, _) = ten_lines(&mut made);
    made.wait(DAY);
    let indented = code("a", 0..10).replace("value_", "    value_");
    made.write("a.py", &format!("if True:\n{indented}"));
    made.commit("Indent");
    made.later();
    assert_eq!(made.outcome(session).get(Survived), Some(1.0));
}

#[test]
fn work_that_was_reverted_and_work_that_was_reapplied() {
    let mut made = Made::new();
    let (session, hash) = ten_lines(&mut made);
    made.wait(DAY);
    made.git(&["revert", "--no-edit", &hash]);
    let revert = made.git(&["rev-parse", "HEAD"]);
    let outcome = made.outcome(session.clone());
    assert_eq!(outcome.get(Reverted), Some(1.0));
    assert!(
        outcome
            .evidence
            .iter()
            .any(|one| one.component == "reverted" && one.commit.as_deref() == Some(&*revert))
    );
    made.wait(HOUR);
    made.git(&["revert", "--no-edit", &revert]);
    assert_eq!(made.outcome(session.clone()).get(Reverted), Some(0.0), "a reapply undoes it");
    made.later();
    assert_eq!(made.outcome(session).get(Reverted), Some(0.0));
}

#[test]
fn an_inverse_patch_is_a_revert_without_words_and_a_second_one_a_reapply() {
    let mut made = Made::new();
    let (session, _) = ten_lines(&mut made);
    made.wait(DAY);
    made.git(&["rm", "-q", "a.py"]);
    made.commit("Clean up");
    assert_eq!(made.outcome(session.clone()).get(Reverted), Some(1.0));
    made.wait(HOUR);
    made.write("a.py", &code("a", 0..10));
    made.commit("Again");
    assert_eq!(made.outcome(session).get(Reverted), Some(0.0));
}

#[test]
fn the_revert_of_a_pull_request_names_its_number() {
    for (work, revert) in [("Work (#12)", "Undo\n\nReverts o/r#12"), ("Work (#12)", "Undo\n\nReverts #12")] {
        let mut made = Made::new();
        made.wait(DAY);
        let session = session(&made, &[("a.py", &code("a", 0..10))]);
        made.write("a.py", &code("a", 0..10));
        made.commit(work);
        made.wait(DAY);
        // More than the inverse, so that the message alone tells.
        made.write("a.py", "nothing = 1\n");
        made.commit(revert);
        let outcome = made.outcome(session);
        assert_eq!((outcome.get(Reverted), outcome.get(Merged)), (Some(1.0), Some(1.0)), "{revert}");
    }
}

/// Let a session commit twice on a branch; return it and the hashes.
fn on_a_branch(made: &mut Made) -> (SessionWork, Vec<String>) {
    made.wait(DAY);
    made.git(&["checkout", "-q", "-b", "feature"]);
    let mut session = session(made, &[("a.py", &code("a", 0..10)), ("b.py", &code("b", 0..10))]);
    let mut hashes = Vec::new();
    for name in ["a", "b"] {
        made.write(&format!("{name}.py"), &code(name, 0..10));
        made.wait(HOUR / 4);
        let subject = format!("Add {name}");
        let hash = made.commit(&subject);
        session.named_commits.push(NamedCommit { hash: hash[..8].to_owned(), subject, call: String::new() });
        hashes.push(hash);
    }
    made.git(&["checkout", "-q", "main"]);
    (session, hashes)
}

#[test]
fn work_that_was_squashed_is_found_by_content() {
    let mut made = Made::new();
    let (session, _) = on_a_branch(&mut made);
    made.wait(2 * DAY);
    made.git(&["merge", "-q", "--squash", "feature"]);
    let squash = made.commit("Feature (#5)");
    made.git(&["branch", "-q", "-D", "feature"]);
    made.later();
    let outcome = made.outcome(session);
    assert_eq!(rules(&outcome), [(&*squash, "content")]);
    assert_eq!([Committed, Survived, Merged].map(|one| outcome.get(one)), [Some(1.0); 3]);
    assert!(outcome.evidence.iter().any(|one| one.why.contains("found by content")));
}

#[test]
fn work_that_was_rebased_has_other_hashes() {
    let mut made = Made::new();
    let (session, hashes) = on_a_branch(&mut made);
    made.wait(DAY);
    made.write("base.py", "import base\nimport more\n");
    made.commit("Meanwhile");
    made.git(&["checkout", "-q", "feature"]);
    made.git(&["rebase", "-q", "main"]);
    made.git(&["checkout", "-q", "main"]);
    made.git(&["merge", "-q", "--ff-only", "feature"]);
    made.later();
    let outcome = made.outcome(session);
    assert_eq!(outcome.attributed.len(), 2);
    assert!(outcome.attributed.iter().all(|one| one.rule == "rebased" && !hashes.contains(&one.commit)));
    assert_eq!(outcome.get(Survived), Some(1.0));
}

#[test]
fn a_merged_branch_has_the_output_as_its_rule() {
    let mut made = Made::new();
    let (session, hashes) = on_a_branch(&mut made);
    made.wait(DAY);
    made.git(&["merge", "-q", "--no-ff", "-m", "Merge pull request #3 from o/feature", "feature"]);
    made.later();
    let outcome = made.outcome(session.clone());
    assert_eq!(rules(&outcome), [(&*hashes[0], "output"), (&*hashes[1], "output")]);
    assert_eq!((outcome.get(Merged), outcome.get(Survived)), (Some(1.0), Some(1.0)));
    let pull_requests = PullRequest::parse(br#"{"number": 3, "state": "CLOSED"}"#).unwrap();
    let settings = Settings { pull_requests, ..Settings::default() };
    let outcome = compare(made.path(), &[&session], &settings, &Watch::new()).unwrap().remove(0);
    assert_eq!(outcome.get(Merged), Some(0.0), "what gh saved comes first");
}

#[test]
fn work_that_was_moved_to_other_files() {
    for whole in [true, false] {
        let mut made = Made::new();
        let (session, _) = ten_lines(&mut made);
        made.wait(DAY);
        made.git(&["rm", "-q", "a.py"]);
        if whole {
            made.write("pkg/renamed.py", &code("a", 0..10));
        } else {
            made.write("x.py", &(code("x", 0..40) + &code("a", 0..5)));
            made.write("y.py", &(code("y", 0..40) + &code("a", 5..10)));
        }
        made.commit("Move");
        made.later();
        assert_eq!(made.outcome(session).get(Survived), Some(1.0), "renamed: {whole}");
    }
}

#[test]
fn a_file_moved_before_its_commit_is_found_by_its_lines() {
    let mut made = Made::new();
    made.wait(DAY);
    let session = session(&made, &[("draft.py", &code("a", 0..10))]);
    made.write("src/final.py", &code("a", 0..10));
    let hash = made.commit("Work");
    assert_eq!(rules(&made.outcome(session)), [(&*hash, "time_and_files")]);
}

#[test]
fn work_that_was_never_committed() {
    let mut made = Made::new();
    made.wait(DAY);
    let lost = session(&made, &[("base.py", &code("lost", 0..10))]);
    let outside = session(&made, &[("unknown.py", &code("lost", 0..10))]);
    made.write("other.py", &code("human", 0..10));
    made.commit("Of a human");
    assert_eq!(made.outcome(lost.clone()).get(Committed), None, "it may still be committed");
    made.later();
    let outcomes = made.compare(&[lost, outside]);
    assert_eq!((outcomes[0].get(Committed), outcomes[1].get(Committed)), (Some(0.0), None));
    assert!(outcomes.iter().all(|outcome| outcome.attributed.is_empty() && outcome.get(Survived).is_none()));
}

#[test]
fn work_committed_by_hand_with_changes_counts_the_lines_of_the_session_alone() {
    let mut made = Made::new();
    made.wait(DAY);
    let session = session(&made, &[("a.py", &code("a", 0..10))]);
    made.write("a.py", &(code("a", 0..8) + &code("human", 0..4)));
    made.wait(HOUR);
    let hash = made.commit("By hand");
    made.wait(DAY);
    made.write("a.py", &(code("a", 0..4) + &code("human", 0..4)));
    made.commit("Fewer");
    made.later();
    let outcome = made.outcome(session);
    assert_eq!(rules(&outcome), [(&*hash, "time_and_files")]);
    assert_eq!((outcome.attributed[0].lines, outcome.get(Survived)), (8, Some(0.5)));
}

#[test]
fn two_sessions_share_a_commit_by_lines() {
    let mut made = Made::new();
    made.wait(DAY);
    let sessions =
        [("a.py", 0..10), ("b.py", 10..40)].map(|(path, range)| session(&made, &[(path, &code("s", range))]));
    made.write("a.py", &code("s", 0..10));
    made.write("b.py", &code("s", 10..40));
    let hash = made.commit("Both");
    made.wait(DAY);
    made.write("b.py", &code("s", 10..25));
    made.commit("Half");
    made.later();
    let outcomes = made.compare(&sessions);
    assert!(outcomes.iter().all(|outcome| rules(outcome) == [(&*hash, "time_and_files")]));
    assert_eq!([0, 1].map(|at: usize| outcomes[at].attributed[0].lines), [10, 30]);
    assert_eq!([0, 1].map(|at: usize| outcomes[at].get(Survived)), [Some(1.0), Some(0.5)]);
}

#[test]
fn commits_of_others_in_the_same_time_and_files_are_not_attributed() {
    let mut made = Made::new();
    made.wait(DAY);
    let session = session(&made, &[("base.py", &code("agent", 0..10))]);
    made.write("base.py", &code("human", 0..10));
    made.commit("Of a human");
    assert!(made.outcome(session).attributed.is_empty());
}

#[test]
fn lines_written_after_a_commit_are_not_in_it() {
    let mut made = Made::new();
    made.wait(DAY);
    let mut session = session(&made, &[("a.py", &code("a", 0..10))]);
    made.write("a.py", &code("a", 0..10));
    made.commit("Of a human");
    session.edits[0].time = Some(made.time + HOUR / 2);
    assert!(made.outcome(session).attributed.is_empty());
}

#[test]
fn a_trailer_names_the_session() {
    let mut made = Made::new();
    let mut session = ten_lines(&mut made).0;
    session.edits.clear();
    session.trailers = vec!["0e6b66910244".to_owned()];
    made.wait(9 * DAY);
    made.write("c.py", "c = 1\n");
    let hash = made.commit("Other\n\nEntire-Checkpoint: 0e6b66910244");
    assert_eq!(rules(&made.outcome(session)), [(&*hash, "trailer")]);
}

#[test]
fn lock_files_say_nothing() {
    let mut made = Made::new();
    made.wait(DAY);
    let (lock, text) = (code("lock", 0..100), code("a", 0..10));
    let session = session(&made, &[("uv.lock", &lock), ("a.py", &text)]);
    made.write("uv.lock", &lock);
    made.write("a.py", &text);
    made.commit("Work");
    made.wait(DAY);
    made.git(&["rm", "-q", "uv.lock"]);
    made.commit("No lock");
    made.later();
    assert_eq!(made.outcome(session).get(Survived), Some(1.0));
}

#[test]
fn a_bare_clone_a_worktree_a_subfolder_and_sha256_are_read_alike() {
    let mut made = Made::new();
    let (session, _) = ten_lines(&mut made);
    made.write("src/inner/x.py", "x = 1\n");
    made.later();
    let beside = tempfile::tempdir().unwrap();
    let (bare, tree) = (beside.path().join("bare\n.git"), beside.path().join("tree"));
    made.git(&["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    made.git(&["worktree", "add", "-q", tree.to_str().unwrap()]);
    for path in [made.path(), &bare, &tree, &made.path().join("src/inner")] {
        let outcome = compare(path, &[&session], &Settings::default(), &Watch::new()).unwrap().remove(0);
        assert_eq!(outcome.get(Survived), Some(1.0), "{}", path.display());
    }
    let mut made = Made::with(&["init", "-q", "-b", "main", "--object-format=sha256"]);
    let (session, hash) = ten_lines(&mut made);
    made.later();
    let outcome = made.outcome(session);
    assert_eq!(
        (hash.len(), rules(&outcome), outcome.get(Survived)),
        (64, vec![(&*hash, "time_and_files")], Some(1.0))
    );
}

#[test]
fn file_names_with_line_breaks_and_escapes() {
    let name = "dir\n/a \u{1b}[31m\t\"é\\.py";
    let mut made = Made::new();
    made.wait(DAY);
    let mut session = session(&made, &[]);
    session.edits.push(FileEdit {
        path: format!("/repo/{name}").replace('\\', "\\"),
        added: code("a", 0..10).lines().map(str::to_owned).collect(),
        ..FileEdit::default()
    });
    made.write(name, &code("a", 0..10));
    let hash = made.commit("Odd");
    made.later();
    let outcome = made.outcome(session);
    assert_eq!(rules(&outcome), [(&*hash, "time_and_files")]);
    assert_eq!(outcome.get(Survived), Some(1.0));
}

fn refusal(path: &Path) -> Refusal {
    compare(path, &[&SessionWork::default()], &Settings::default(), &Watch::new()).unwrap_err()
}

#[test]
fn what_is_no_whole_repository_is_refused_with_a_name_and_a_hint() {
    let mut made = Made::new();
    ten_lines(&mut made);
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let url = format!("file://{}", made.path().display());
    made.git(&["clone", "-q", "--depth", "1", &url, at("shallow").to_str().unwrap()]);
    made.git(&["init", "-q", at("empty").to_str().unwrap()]);
    fs::create_dir(at("plain")).unwrap();
    made.git(&["clone", "-q", "--bare", &url, at("damaged").to_str().unwrap()]);
    let objects = at("damaged").join("objects");
    fs::remove_dir_all(&objects).unwrap();
    fs::create_dir_all(objects.join("pack")).unwrap();
    let mut cases = vec![
        ("shallow", Why::Shallow, "git fetch --unshallow"),
        ("empty", Why::NoCommits, "no commits"),
        ("plain", Why::NoRepository, "not in a git repository"),
        ("missing", Why::NoFolder, "check the path"),
        ("damaged", Why::MissingObject, "clone it in full"),
    ];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(at("loop"), at("loop")).unwrap();
        cases.push(("loop", Why::NoFolder, "check the path"));
    }
    for (name, why, hint) in cases {
        let refusal = refusal(&at(name));
        assert_eq!(refusal.why, why, "{name}: {refusal}");
        assert!(refusal.to_string().contains(hint) && refusal.to_string().contains(name), "{refusal}");
    }
}

#[test]
fn links_in_circles_and_submodules_are_only_objects() {
    #[cfg(unix)]
    {
        let mut made = Made::new();
        std::os::unix::fs::symlink("loop", made.path().join("loop")).unwrap();
        std::os::unix::fs::symlink("..", made.path().join("up")).unwrap();
        let commit = made.git(&["rev-parse", "HEAD"]);
        made.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{commit},sub")]);
        let (session, _) = ten_lines(&mut made);
        made.later();
        assert_eq!(made.outcome(session).get(Survived), Some(1.0));
    }
}

/// Let every setting of a repository that names a command create a file.
#[test]
#[cfg(unix)]
fn nothing_of_the_repository_is_executed() {
    use std::os::unix::fs::PermissionsExt;

    let mut made = Made::new();
    made.write(".gitattributes", "* diff=evil filter=evil merge=evil\n");
    let (session, hash) = ten_lines(&mut made);
    made.wait(DAY);
    made.git(&["revert", "--no-edit", &hash]);
    made.later();
    let trace = made.path().join("executed");
    let script = made.path().join("evil.sh");
    fs::write(&script, format!("#!/bin/sh\necho \"$0 $@\" >> '{}'\ncat\n", trace.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let evil = script.to_str().unwrap();
    for hook in
        ["post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc", "fsmonitor-watchman"]
    {
        fs::copy(&script, made.path().join(".git/hooks").join(hook)).unwrap();
    }
    for key in [
        "core.fsmonitor",
        "core.pager",
        "pager.log",
        "pager.blame",
        "core.sshCommand",
        "core.gitProxy",
        "core.editor",
        "core.askPass",
        "diff.external",
        "diff.evil.textconv",
        "diff.evil.command",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "merge.evil.driver",
        "gpg.program",
        "credential.helper",
        "uploadpack.packObjectsHook",
        "core.alternateRefsCommand",
        "alias.log",
        "alias.blame",
        "remote.origin.uploadpack",
    ] {
        made.git(&["config", key, if key.starts_with("alias") { "!evil.sh" } else { evil }]);
    }
    for (key, value) in [
        ("log.showSignature", "true"),
        ("remote.origin.url", &*format!("ext::{evil}")),
        ("protocol.ext.allow", "always"),
        ("remote.origin.promisor", "true"),
        ("core.hooksPath", ".git/hooks"),
        ("blame.ignoreRevsFile", "/dev/zero"),
        ("diff.orderFile", "/dev/zero"),
        ("filter.evil.required", "true"),
    ] {
        made.git(&["config", key, value]);
    }
    let _ = fs::remove_file(&trace);
    let outcome = made.outcome(session);
    assert_eq!((outcome.get(Reverted), outcome.get(Survived)), (Some(1.0), Some(0.0)));
    assert!(!trace.exists(), "{}", fs::read_to_string(&trace).unwrap());
    // The same settings do run commands where git is called without care.
    let _ = Command::new("git")
        .current_dir(made.path())
        .args(["log", "-p", "--ext-diff", "-O/dev/null"])
        .output()
        .unwrap();
    assert!(trace.exists());
}

#[test]
fn a_partial_clone_fetches_nothing() {
    let mut made = Made::new();
    let (session, _) = ten_lines(&mut made);
    made.later();
    made.git(&["config", "uploadpack.allowFilter", "true"]);
    let folder = tempfile::tempdir().unwrap();
    let partial = folder.path().join("partial");
    let url = format!("file://{}", made.path().display());
    made.git(&["clone", "-q", "--bare", "--filter=blob:none", &url, partial.to_str().unwrap()]);
    let packs = || fs::read_dir(partial.join("objects/pack")).unwrap().count();
    let before = packs();
    let refusal = compare(&partial, &[&session], &Settings::default(), &Watch::new()).unwrap_err();
    assert_eq!((refusal.why, packs()), (Why::MissingObject, before), "{refusal}");
}
