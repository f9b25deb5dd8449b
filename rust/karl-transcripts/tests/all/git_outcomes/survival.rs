//! Work that is kept, rewritten, reindented, moved or reverted.

use karl_log::format::Component::{Committed, Merged, Reverted, Survived};

use super::{DAY, HOUR, Made, code, rules, session, ten_lines};

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

/// The rule is that of `git blame -w -M -C`, at the commit and at its horizon.
#[test]
fn lines_that_a_commit_moved_or_copied_are_not_its_own() {
    let mut made = Made::new();
    made.write("old.py", &(code("old", 0..30) + &code("rest", 0..30)));
    made.commit("Before");
    made.wait(DAY);
    let moved = code("old", 0..20) + &code("new", 0..10);
    let session = session(&made, &[("new.py", &moved)]);
    made.write("new.py", &moved);
    made.write("old.py", &(code("old", 20..30) + &code("rest", 0..30)));
    made.wait(HOUR);
    let hash = made.commit("Split");
    made.wait(DAY);
    // Half of the own lines go, the other half moves within the file.
    made.write("new.py", &(code("new", 5..10) + &code("old", 0..20)));
    made.commit("Order");
    made.later();
    let outcome = made.outcome(session);
    let blame = made.git(&["blame", "-w", "-M", "-C", "-s", "-l", "HEAD", "--", "new.py"]);
    assert_eq!(blame.lines().filter(|line| line.starts_with(&hash)).count(), 5);
    let whys: Vec<&str> = outcome.evidence.iter().map(|one| &*one.why).collect();
    assert!(whys.contains(&"5 of 10 lines in all"), "{whys:?}");
    assert_eq!(outcome.get(Survived), Some(0.5));
}
