//! Synthetic questions from the commits of a repository: the message asks, the diff answers.
//!
//! ```text
//! repository ──► commits ──► message ──► question ─┐
//!                of the                            ├──► trajectory, marked synthetic ──► output
//!                trunk   ──► diff    ──► answer ───┘
//! ```
//!
//! Every commit is written or dropped by name. A record has no reward, since its answer was not judged.
//!
//! Reference: Diomandeee/karl, `karl/synthetic_qa.py`, commit 7d5ef32. Its answers are lists of tool calls that
//! were never made, with an invented reward; here an answer is the change itself.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use karl_log::atomic_output::OutputTarget;
use karl_log::cancel::Watch;
use karl_log::error::{Error, Result};
use karl_log::log::Account;
use regex::Regex;
use serde_json::{Value, json};

use crate::convert::run::Output;
use crate::convert::{ConvertSettings, LineCounts, Report, run};
use crate::git::{Commit, CommitLog, Refusal, Why};

/// Commits that one command of git reads.
const BATCH: usize = 64;

/// Most files of a commit that is read; more do not fit into an answer.
const MOST_FILES: usize = 50;

/// Reason to drop a commit that changes no file.
const NO_CHANGE: &str = "no_change";

/// Convert the commits of repositories to one file of trajectories, completely or not at all.
///
/// # Errors
/// [`Error::Layout`] for a repository that cannot be read, and if no commit can be used; those of the output.
pub fn convert_commits(
    repositories: &[PathBuf],
    target: &OutputTarget,
    settings: &ConvertSettings,
    watch: &Watch,
) -> Result<Report> {
    let mut report = Report::default();
    let logs = repositories.iter().map(|path| CommitLog::read(path, watch).map_err(layout_error));
    let logs = logs.collect::<Result<Vec<_>>>()?;
    let mut seen = HashSet::new();
    let mut batches = Vec::new();
    for (path, log) in repositories.iter().zip(&logs) {
        let questions = select_questions(path, log, &mut seen, settings.threads, &mut report.counts)?;
        batches.extend(questions.chunks(BATCH).map(|questions| (path.as_path(), log, questions.to_vec())));
    }
    let output = Output::create(target, settings.protection.clone())?;
    let counts = run(batches.len(), settings.threads, &output, None, |at| {
        watch.advance(0)?;
        let (path, log, questions) = &batches[at];
        rows(path, log, questions, settings.max_line_bytes)
    })?;
    report.counts.add(counts);
    if report.counts.trajectories == 0 {
        let problem = format!("there is no commit that can be used{}", report.dropped());
        return Err(Error::Layout { path: target.shown().to_path_buf(), problem });
    }
    report.written = output.finish()?;
    Ok(report)
}

/// Commit with its question.
type CommitQuestion<'l> = (&'l Commit, String);

/// Return the commits of a repository that ask something; count the others.
fn select_questions<'l>(
    path: &Path,
    log: &'l CommitLog<'_>,
    seen: &mut HashSet<String>,
    threads: usize,
    counts: &mut LineCounts,
) -> Result<Vec<CommitQuestion<'l>>> {
    let account = Account { read: log.commits.len() as u64, ..Account::default() };
    counts.files.push((path.to_path_buf(), GIT, account));
    let reverted = reverted_hashes(&log.commits);
    let mut asked = Vec::new();
    for commit in &log.commits {
        match question(commit, &reverted) {
            _ if !seen.insert(commit.hash.clone()) => counts.duplicates += 1,
            Err(reason) => counts.drop_line(reason),
            Ok(question) => asked.push((commit, question)),
        }
    }
    let hashes: Vec<&str> = asked.iter().map(|(commit, _)| commit.hash.as_str()).collect();
    let file_counts = log.file_counts(&hashes, threads).map_err(layout_error)?;
    asked.retain(|(commit, _)| {
        let count = file_counts.get(&commit.hash).copied().unwrap_or_default();
        let reason = if count == 0 { NO_CHANGE } else { LARGE };
        let is_kept = (1..=MOST_FILES).contains(&count);
        if !is_kept {
            counts.drop_line(reason);
        }
        is_kept
    });
    Ok(asked)
}

/// Return the lines of some commits.
fn rows(
    path: &Path,
    log: &CommitLog<'_>,
    asked: &[CommitQuestion<'_>],
    limit: usize,
) -> Result<(Vec<u8>, LineCounts)> {
    let hashes: Vec<&str> = asked.iter().map(|(commit, _)| commit.hash.as_str()).collect();
    let diffs = log.diffs(&hashes).map_err(layout_error)?;
    let (mut lines, mut counts) = (Vec::new(), LineCounts::default());
    for (commit, question) in asked {
        let diff = diffs.get(&commit.hash).map_or(&[][..], Vec::as_slice);
        let row = answer(diff, &mut counts).map(|answer| row(path, commit, question, &answer));
        match row.and_then(|row| if row.len() > limit { Err("too_long") } else { Ok(row) }) {
            Err(reason) => counts.drop_line(reason),
            Ok(row) => {
                lines.extend_from_slice(row.as_bytes());
                counts.used += 1;
                counts.trajectories += 1;
            }
        }
    }
    counts.messages.extend([("user", counts.used), ("assistant", counts.used)]);
    Ok((lines, counts))
}

fn layout_error(refusal: Refusal) -> Error {
    match refusal.why {
        Why::Interrupted => Error::Interrupted,
        _ => Error::Layout { problem: refusal.problem(), path: refusal.path },
    }
}

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
fn reverted_hashes(commits: &[Commit]) -> HashSet<&str> {
    let hashes = |commit| REVERTS.iter().flat_map(move |pattern| captured_hashes(pattern, commit));
    commits.iter().flat_map(hashes).collect()
}

fn captured_hashes<'c>(pattern: &Regex, commit: &'c Commit) -> impl Iterator<Item = &'c str> {
    pattern.captures_iter(&commit.message).filter_map(|found| Some(found.get(1)?.as_str()))
}

/// Return the question of a commit, or the reason why it asks none.
fn question(commit: &Commit, reverted: &HashSet<&str>) -> std::result::Result<String, &'static str> {
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

/// Reason to drop a commit whose diff is too long for an answer.
const LARGE: &str = "large_change";

/// Lines of an answer, as KARL bounds them.
const LINES: std::ops::RangeInclusive<usize> = 5..=200;

/// Folders and endings of files that a tool writes.
const FOLDERS: [&str; 6] = ["node_modules", "__pycache__", "dist", "build", ".next", "vendor"];
const ENDINGS: [&str; 8] = [
    ".lock",
    "package-lock.json",
    "pnpm-lock.yaml",
    "go.sum",
    ".min.js",
    ".min.css",
    ".tsbuildinfo",
    ".DS_Store",
];

/// Start of the diff of one file.
const FILE: &str = "diff --git ";

/// Return the answer in a diff, or the reason why there is none. Files that a tool writes and files that are no
/// text are left out and counted.
fn answer(diff: &[u8], counts: &mut LineCounts) -> std::result::Result<String, &'static str> {
    let diff = std::str::from_utf8(diff).map_err(|_| "not_utf8")?;
    let (mut answer, mut generated) = (String::new(), false);
    for file in files(diff) {
        if is_generated(file) {
            generated = true;
            counts.note("generated_file");
        } else if !file.contains("\n@@ ") {
            counts.note("file_without_text");
        } else {
            answer.push_str(&without_hashes(file));
        }
    }
    match answer.lines().count() {
        0 if generated => Err("generated"),
        0 => Err("no_text"),
        count if count < *LINES.start() => Err("small_change"),
        count if count > *LINES.end() => Err(LARGE),
        _ => Ok(answer),
    }
}

/// Return the diff of each file.
fn files(diff: &str) -> Vec<&str> {
    let inner = diff.match_indices(&format!("\n{FILE}")).map(|(at, _)| at + 1).collect::<Vec<_>>();
    let starts: Vec<usize> = [0].into_iter().chain(inner).collect();
    let ends = starts.iter().skip(1).copied().chain([diff.len()]);
    let parts = starts.iter().zip(ends).map(|(&start, end)| &diff[start..end]);
    parts.filter(|part| part.starts_with(FILE)).collect()
}

/// Return whether a tool writes the file of a diff.
fn is_generated(file: &str) -> bool {
    let header = file.lines().next().unwrap_or_default();
    let path = header.rsplit(" b/").next().unwrap_or_default().trim_end_matches('"');
    let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
    folders.split('/').any(|folder| FOLDERS.contains(&folder))
        || ENDINGS.iter().any(|end| path.ends_with(end))
}

/// Return the diff of a file without the hashes of its contents, which follow from nothing in the question.
fn without_hashes(file: &str) -> String {
    let hunks = file.find("\n@@ ").unwrap_or(file.len());
    let header = file[..hunks].split_inclusive('\n').filter(|line| !line.starts_with("index "));
    header.collect::<String>() + &file[hunks..]
}

/// Name of the format in accounts and records.
const GIT: &str = "git";

/// Return the line of a commit. `synthetic` is 1, so that a run that wants such rows can take it for their reward.
fn row(path: &Path, commit: &Commit, question: &str, answer: &str) -> String {
    let row: Value = json!({
        "karl_fast_trajectory": 1,
        "id": format!("git/{}", commit.hash),
        "group": null,
        "reward": null,
        "synthetic": 1,
        "model": null,
        "policy_version": null,
        "parent": null,
        "session": null,
        "started_at": null,
        "ended_at": null,
        "duration_seconds": null,
        "turns": 1,
        "tool_calls": 0,
        "tokens": {"input": null, "cache_creation": null, "cache_read": null, "output": null},
        "source": {"format": GIT, "files": [path.display().to_string()], "commit": commit.hash, "time": commit.time},
        "messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}],
    });
    row.to_string() + "\n"
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
        assert_eq!(question(&commit("Round the total now"), &reverted_hashes(&commits)), Err("reverted"));
    }

    fn diff(path: &str, added: usize) -> String {
        let lines = "+x\n".repeat(added);
        format!(
            "diff --git a/{path} b/{path}\nindex 1..2 100644\n--- a/{path}\n+++ b/{path}\n@@ -0,0 +1 @@\n{lines}"
        )
    }

    #[test]
    fn an_answer_is_the_text_of_what_people_write() {
        let (wanted, mut counts) =
            (diff("a.py", 1).replace("index 1..2 100644\n", ""), LineCounts::default());
        let binary = "diff --git a/i.png b/i.png\nindex 1..2\nBinary files a/i.png and b/i.png differ\n";
        let all = diff("Cargo.lock", 9) + binary + &diff("a.py", 1) + &diff("web/dist/a.js", 1);
        assert_eq!(answer(all.as_bytes(), &mut counts), Ok(wanted));
        assert_eq!([counts.notes["generated_file"], counts.notes["file_without_text"]], [2, 1]);
    }

    #[test]
    fn a_diff_without_an_answer_is_dropped_by_name() {
        for (text, wanted) in [
            (diff("a.lock", 9), "generated"),
            ("diff --git a/a b/b\nsimilarity index 100%\n".to_owned(), "no_text"),
            (String::new(), "no_text"),
            (diff("a.py", 0), "small_change"),
            (diff("a.py", 200), LARGE),
        ] {
            assert_eq!(answer(text.as_bytes(), &mut LineCounts::default()), Err(wanted), "{text}");
        }
        assert_eq!(answer(b"diff --git \xff", &mut LineCounts::default()), Err("not_utf8"));
    }
}
