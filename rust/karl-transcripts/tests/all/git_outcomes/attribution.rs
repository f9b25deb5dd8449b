//! Commits of a session: by content, by output, by trailer, by time and files.

use karl_log::Watch;
use karl_log::format::Component::{Committed, Merged, Survived};
use karl_transcripts::git::PullRequest;
use karl_transcripts::outcomes::commits::{Settings, compare};
use karl_transcripts::tool_calls::{NamedCommit, SessionWork};

use super::{DAY, HOUR, Made, code, rules, session, ten_lines};

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

/// A commit that only removes lines, or only deletes files, is a session's by what it removed.
#[test]
fn work_that_only_removes_is_attributed() {
    for (path, deletes) in [("a.py", false), ("a.py", true), ("pkg", true)] {
        let mut made = Made::new();
        made.write("a.py", &code("a", 0..10));
        made.write("pkg/b.py", &code("b", 0..10));
        made.commit("Before");
        made.wait(DAY);
        let mut session = session(&made, &[(path, "")]);
        let gone = code("a", 5..10);
        session.edits[0].deletes = deletes;
        if deletes {
            made.git(&["rm", "-rq", path]);
        } else {
            session.edits[0].removed = gone.lines().map(str::to_owned).collect();
            made.write("a.py", &code("a", 0..5));
        }
        made.wait(HOUR);
        let hash = made.commit("Remove");
        made.later();
        let outcome = made.outcome(session);
        assert_eq!(rules(&outcome), [(&*hash, "time_and_files")], "{path}");
        assert_eq!((outcome.get(Committed), outcome.get(Survived)), (Some(1.0), None), "{path}");
    }
}

/// Lines that a session removed, and that nobody committed.
#[test]
fn removals_that_were_never_committed() {
    let mut made = Made::new();
    made.write("a.py", &code("a", 0..10));
    made.commit("Before");
    made.wait(DAY);
    let mut session = session(&made, &[("a.py", "")]);
    session.edits[0].removed = code("a", 5..10).lines().map(str::to_owned).collect();
    made.later();
    assert_eq!(made.outcome(session.clone()).get(Committed), Some(0.0));
    // Among changes of others they are a trace.
    made.time -= 29 * DAY;
    made.write("a.py", &(code("a", 0..5) + &code("other", 0..60)));
    made.commit("Others");
    made.time += 60 * DAY;
    made.write("z.py", "print('z')\n");
    made.commit("Z");
    assert_eq!(made.outcome(session).get(Committed), None);
}
