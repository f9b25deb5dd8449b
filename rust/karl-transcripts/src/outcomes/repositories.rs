//! Repositories that sessions are compared with.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use karl_log::cancel::Watch;
use karl_log::error::{Error, Result};

use super::commits::{Settings, compare};
use super::judged_trajectory::JudgedTrajectory;
use super::report::OutcomesReport;
use super::settings::OutcomesSettings;
use crate::git::{PullRequest, Refusal, Why, shared_directory};
use crate::tool_calls::SessionWork;

/// Compare sessions with the repositories that the user named, or with those of their working directories where
/// these exist; add what they show to the outcomes.
pub(super) fn judge(
    sessions: &mut [JudgedTrajectory],
    settings: &OutcomesSettings,
    report: &mut OutcomesReport,
    watch: &Watch,
) -> Result<()> {
    let everyone: Vec<usize> = (0..sessions.len()).collect();
    let wanted = Settings {
        after: i64::from(settings.after_days) * 86_400,
        pull_requests: pull_requests(&settings.pull_requests)?,
        threads: settings.threads,
    };
    for path in &settings.repositories {
        compare_with(path, &everyone, sessions, &wanted, report, watch)?
            .map_err(|refusal| error(&refusal))?;
    }
    if settings.repositories.is_empty() {
        for (path, members) in by_repository(sessions, report, watch)? {
            if let Err(refusal) = compare_with(&path, &members, sessions, &wanted, report, watch)? {
                count(&refusal, members.len(), report);
            }
        }
    }
    Ok(())
}

/// Read the pull requests that `gh` saved.
fn pull_requests(files: &[PathBuf]) -> Result<Vec<PullRequest>> {
    let mut all = Vec::new();
    for path in files {
        let text = std::fs::read(path).map_err(|source| Error::io("read", path, source))?;
        let wanted = "wanted the output of `gh pr view --json number,state,mergedAt,mergeCommit,commits`";
        let problem = |error: serde_json::Error| Error::Layout {
            path: path.clone(),
            problem: format!("{error}; {wanted}"),
        };
        all.extend(PullRequest::parse(&text).map_err(problem)?);
    }
    Ok(all)
}

/// Group sessions by the repository of their working directory.
fn by_repository(
    sessions: &[JudgedTrajectory],
    report: &mut OutcomesReport,
    watch: &Watch,
) -> Result<BTreeMap<PathBuf, Vec<usize>>> {
    let mut by_directory: BTreeMap<&Path, Vec<usize>> = BTreeMap::new();
    for (at, session) in sessions.iter().enumerate() {
        let directory = session.work.directory.as_deref().filter(|path| path.is_absolute());
        if let Some(directory) = directory.and_then(existing) {
            by_directory.entry(directory).or_default().push(at);
        }
    }
    let mut groups: BTreeMap<PathBuf, Vec<usize>> = BTreeMap::new();
    for (directory, members) in by_directory {
        let direct = within(shared_directory(directory, watch))?;
        let repository = match (direct, main_repository(directory)) {
            (Err(refusal), Some(main)) if refusal.why == Why::NoRepository => {
                within(shared_directory(&main, watch))?
            }
            (direct, _) => direct,
        };
        match repository {
            Ok(repository) => groups.entry(repository).or_default().extend(members),
            Err(refusal) => count(&refusal, members.len(), report),
        }
    }
    Ok(groups)
}

/// Return a folder, or of one that is gone, as a worktree that was removed, the nearest that exists; not the user's
/// own folder, which may be a repository of settings.
fn existing(directory: &Path) -> Option<&Path> {
    if directory.is_dir() {
        return Some(directory);
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let nearest = directory.ancestors().skip(1).find(|folder| folder.is_dir())?;
    let is_users = home.as_deref().is_some_and(|home| home.starts_with(nearest));
    let is_in_repository = || nearest.ancestors().any(|folder| folder.join(".git").exists());
    (!is_users && is_in_repository()).then_some(nearest)
}

/// Return the repository of a worktree that it no longer knows: the file `.git` in it, or above, names its place.
fn main_repository(directory: &Path) -> Option<PathBuf> {
    let file = directory.ancestors().map(|folder| folder.join(".git")).find(|file| file.is_file())?;
    let text = std::fs::read_to_string(&file).ok()?;
    let place = file.parent()?.join(text.strip_prefix("gitdir: ")?.trim_end());
    let main = place.ancestors().find(|folder| folder.ends_with("worktrees"))?.parent()?.to_path_buf();
    main.is_dir().then_some(main)
}

/// Compare sessions with one repository.
fn compare_with(
    path: &Path,
    members: &[usize],
    sessions: &mut [JudgedTrajectory],
    settings: &Settings,
    report: &mut OutcomesReport,
    watch: &Watch,
) -> Result<std::result::Result<(), Refusal>> {
    let works: Vec<&SessionWork> = members.iter().map(|&at| &sessions[at].work).collect();
    let found = match within(compare(path, &works, settings, watch))? {
        Ok(found) => found,
        Err(refusal) => return Ok(Err(refusal)),
    };
    report.repositories += 1;
    for (&at, found) in members.iter().zip(found) {
        sessions[at].outcome.absorb(found);
    }
    Ok(Ok(()))
}

/// Separate cancellation from what is wrong with a repository.
fn within<T>(result: std::result::Result<T, Refusal>) -> Result<std::result::Result<T, Refusal>> {
    match result {
        Err(refusal) if refusal.why == Why::Interrupted => Err(Error::Interrupted),
        other => Ok(other),
    }
}

fn error(refusal: &Refusal) -> Error {
    Error::Layout { path: refusal.path.clone(), problem: refusal.problem() }
}

fn count(refusal: &Refusal, sessions: usize, report: &mut OutcomesReport) {
    *report.without_repository.entry(refusal.why.name()).or_default() += sessions as u64;
}
