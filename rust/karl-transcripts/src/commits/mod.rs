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

mod answer;
mod question;
mod row;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use karl_log::atomic_output::OutputTarget;
use karl_log::cancel::Watch;
use karl_log::error::{Error, Result};
use karl_log::log::Account;

use self::answer::answer;
use self::question::{question, reverted};
use self::row::{GIT, row};
use crate::convert::output::Output;
use crate::convert::{ConvertSettings, Made, Report, run};
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
    let logs = repositories.iter().map(|path| CommitLog::read(path, watch).map_err(refused));
    let logs = logs.collect::<Result<Vec<_>>>()?;
    let mut seen = HashSet::new();
    let mut batches = Vec::new();
    for (path, log) in repositories.iter().zip(&logs) {
        let asked = asked(path, log, &mut seen, settings.threads, &mut report.made)?;
        batches.extend(asked.chunks(BATCH).map(|asked| (path.as_path(), log, asked.to_vec())));
    }
    let output = Output::create(target, settings.protection.clone())?;
    let made = run(batches.len(), settings.threads, &output, None, |at| {
        watch.advance(0)?;
        let (path, log, asked) = &batches[at];
        rows(path, log, asked, settings.max_line_bytes)
    })?;
    report.made.add(made);
    if report.made.trajectories == 0 {
        let problem = format!("there is no commit that can be used{}", report.dropped());
        return Err(Error::Layout { path: target.shown().to_path_buf(), problem });
    }
    report.written = output.finish()?;
    Ok(report)
}

/// Commit with its question.
type Asked<'l> = (&'l Commit, String);

/// Return the commits of a repository that ask something; count the others.
fn asked<'l>(
    path: &Path,
    log: &'l CommitLog<'_>,
    seen: &mut HashSet<String>,
    threads: usize,
    made: &mut Made,
) -> Result<Vec<Asked<'l>>> {
    let account = Account { read: log.commits.len() as u64, ..Account::default() };
    made.files.push((path.to_path_buf(), GIT, account));
    let reverted = reverted(&log.commits);
    let mut asked = Vec::new();
    for commit in &log.commits {
        match question(commit, &reverted) {
            _ if !seen.insert(commit.hash.clone()) => made.duplicates += 1,
            Err(reason) => made.drop_line(reason),
            Ok(question) => asked.push((commit, question)),
        }
    }
    let hashes: Vec<&str> = asked.iter().map(|(commit, _)| commit.hash.as_str()).collect();
    let counts = log.file_counts(&hashes, threads).map_err(refused)?;
    asked.retain(|(commit, _)| {
        let count = counts.get(&commit.hash).copied().unwrap_or_default();
        let reason = if count == 0 { NO_CHANGE } else { answer::LARGE };
        let is_kept = (1..=MOST_FILES).contains(&count);
        if !is_kept {
            made.drop_line(reason);
        }
        is_kept
    });
    Ok(asked)
}

/// Return the lines of some commits.
fn rows(path: &Path, log: &CommitLog<'_>, asked: &[Asked<'_>], limit: usize) -> Result<(Vec<u8>, Made)> {
    let hashes: Vec<&str> = asked.iter().map(|(commit, _)| commit.hash.as_str()).collect();
    let diffs = log.diffs(&hashes).map_err(refused)?;
    let (mut lines, mut made) = (Vec::new(), Made::default());
    for (commit, question) in asked {
        let diff = diffs.get(&commit.hash).map_or(&[][..], Vec::as_slice);
        let row = answer(diff, &mut made).map(|answer| row(path, commit, question, &answer));
        match row.and_then(|row| if row.len() > limit { Err("too_long") } else { Ok(row) }) {
            Err(reason) => made.drop_line(reason),
            Ok(row) => {
                lines.extend_from_slice(row.as_bytes());
                made.used += 1;
                made.trajectories += 1;
            }
        }
    }
    made.messages.extend([("user", made.used), ("assistant", made.used)]);
    Ok((lines, made))
}

fn refused(refusal: Refusal) -> Error {
    match refusal.why {
        Why::Interrupted => Error::Interrupted,
        _ => Error::Layout { problem: refusal.problem(), path: refusal.path },
    }
}
