//! Question from the message of a commit.

use std::collections::HashSet;
use std::sync::LazyLock;

use regex::Regex;

use crate::git::Commit;

/// Fewest words of a question: "wip" and "fix tests" ask nothing.
const WORDS: usize = 3;

/// Prefix of a conventional commit, and the number of a pull request behind a subject.
static PREFIX: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let kinds = "build|chore|ci|docs|feat|fix|perf|refactor|style|test";
    Regex::new(&format!(r"\A({kinds})(\([^)\n]*\))?!?:[ \t]*")).ok()
});
static NUMBER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\A([^\n]*?) \(#[0-9]+\)").ok());

/// Line that `git revert` writes.
static REVERTS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"This reverts commit ([0-9a-f]{7,64})").ok());

/// Trailer, and the line with which an agent signs.
static TRAILER: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\A([A-Za-z]+(-[A-Za-z]+)+: |🤖 )|\A\s*\z").ok());

/// Return the hashes of the commits that later ones revert, as their messages have them.
pub(super) fn reverted(commits: &[Commit]) -> HashSet<&str> {
    let hashes = |commit| REVERTS.iter().flat_map(move |pattern| found(pattern, commit));
    commits.iter().flat_map(hashes).collect()
}

fn found<'c>(pattern: &Regex, commit: &'c Commit) -> impl Iterator<Item = &'c str> {
    pattern.captures_iter(&commit.message).filter_map(|found| Some(found.get(1)?.as_str()))
}

/// Return the question of a commit, or the reason why it asks none.
pub(super) fn question(commit: &Commit, reverted: &HashSet<&str>) -> Result<String, &'static str> {
    let message = commit.message.trim();
    let begins = |starts: &[&str]| starts.iter().any(|start| message.starts_with(start));
    let is_reverted = || reverted.iter().any(|hash| commit.hash.starts_with(hash));
    if commit.is_merge() || begins(&["Merge branch ", "Merge pull request ", "Merge remote-tracking "]) {
        return Err("merge");
    }
    if begins(&["Revert \"", "Reapply \""]) || REVERTS.as_ref().is_some_and(|line| line.is_match(message)) {
        return Err("revert");
    }
    if is_reverted() {
        return Err("reverted");
    }
    if begins(&["fixup! ", "squash! ", "amend! "]) {
        return Err("fixup");
    }
    let text = text(message);
    match text.split_whitespace().count() {
        0 => Err("empty_message"),
        count if count < WORDS => Err("short_message"),
        _ => Ok(text),
    }
}

/// Return a message without its prefix, its number and its trailers.
fn text(message: &str) -> String {
    let mut lines: Vec<&str> = message.lines().collect();
    let is_trailer = |line: &&str| TRAILER.as_ref().is_some_and(|pattern| pattern.is_match(line));
    while lines.last().is_some_and(is_trailer) {
        lines.pop();
    }
    let mut text = lines.join("\n");
    for (pattern, kept) in [(&PREFIX, ""), (&NUMBER, "$1")] {
        if let Some(pattern) = pattern.as_ref() {
            text = pattern.replace(&text, kept).into_owned();
        }
    }
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(message: &str) -> Commit {
        Commit { hash: "abcdef0123".to_owned(), message: message.to_owned(), ..Commit::default() }
    }

    #[test]
    fn a_message_is_a_question_or_dropped_by_name() {
        let later = commit("Take it back\n\nThis reverts commit abcdef01.");
        for (message, wanted) in [
            ("fix(till)!: do not add VAT twice (#12)\n", Ok("do not add VAT twice")),
            (
                "Round the total\n\nTo cents.\n\nCo-Authored-By: Bot <b@c>\nSigned-off-by: A",
                Ok("Round the total\n\nTo cents."),
            ),
            ("Note: the old way\n\nsee: that", Ok("Note: the old way\n\nsee: that")),
            ("Merge pull request #3 from a/b", Err("merge")),
            ("Revert \"Round the total\"", Err("revert")),
            (&later.message, Err("revert")),
            ("fixup! Round the total", Err("fixup")),
            ("", Err("empty_message")),
            ("Signed-off-by: A <a@b>", Err("empty_message")),
            ("fix: typo", Err("short_message")),
        ] {
            let found = question(&commit(message), &HashSet::new());
            assert_eq!(found.as_deref(), wanted.as_ref().copied(), "{message}");
        }
        let merge = Commit { parents: vec![String::new(); 2], ..commit("Round the total now") };
        assert_eq!(question(&merge, &HashSet::new()), Err("merge"));
        let commits = [later];
        assert_eq!(question(&commit("Round the total now"), &reverted(&commits)), Err("reverted"));
    }
}
