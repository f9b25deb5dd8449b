//! Sessions beside the commits that may be theirs.

use std::collections::{HashMap, HashSet};

use super::session_lines::{RepositoryFiles, SessionLines};
use crate::git::history::{At, History, batches, session_ids};
use crate::git::patch::{LineHash, Patch, is_generated, parse};
use crate::git::repository::{Refusal, Repository};
use crate::tool_calls::SessionWork;

/// Time after the end of a session in which its work is committed, in seconds.
pub(super) const SLACK: i64 = 3600;

/// Number of commits from which on a line that they all add says nothing.
const COMMON: usize = 10;

/// Sessions beside the commits that may be theirs.
#[derive(Debug)]
pub(super) struct Comparison<'s> {
    /// History.
    pub(super) history: History,
    /// Sessions.
    pub(super) sessions: &'s [&'s SessionWork],
    /// Lines of each session.
    pub(super) lines: Vec<SessionLines>,
    /// Commits that change each file.
    pub(super) changes: HashMap<u32, Vec<At>>,
    /// Patches of the commits that may be theirs.
    pub(super) patches: HashMap<At, Patch>,
    /// Lines that many commits add.
    common: HashSet<LineHash>,
    /// Time after a commit at which it is judged, in seconds.
    pub(super) after: i64,
}

impl<'s> Comparison<'s> {
    /// Read the patches of all commits that may be of a session.
    pub(super) fn read(
        repository: &Repository<'_>,
        history: History,
        sessions: &'s [&'s SessionWork],
        after: i64,
        threads: usize,
    ) -> Result<Self, Refusal> {
        let files = RepositoryFiles::new(&history.paths);
        let lines = sessions.iter().map(|session| files.lines(session)).collect();
        let changes = history.changes();
        let (patches, common) = (HashMap::new(), HashSet::new());
        let mut all = Self { history, sessions, lines, changes, patches, common, after };
        let wanted: Vec<At> = (0..all.history.commits.len()).filter(|&at| all.may_matter(at)).collect();
        all.patches = patches_of(repository, &all.history, &wanted, threads)?;
        all.common = common_lines(&all.patches);
        Ok(all)
    }

    /// Return whether a commit may be of a session, or change what one left.
    fn may_matter(&self, at: At) -> bool {
        let commit = &self.history.commits[at];
        let near = |session: &SessionWork| {
            let (Some(start), Some(end)) = (session.start, session.end) else { return false };
            start <= commit.time && commit.author_time.min(commit.time) <= end + SLACK + 2 * self.after
        };
        let names = |session: &SessionWork| {
            let mut known = session.trailers.iter().chain([&session.id]);
            known.any(|id| session_ids(&commit.message).any(|found| found == id))
        };
        let touched = |(session, lines): (&SessionWork, &SessionLines)| {
            near(session) && lines.touches(&commit.files) || names(session)
        };
        self.history.is_readable(at) && self.sessions.iter().copied().zip(&self.lines).any(touched)
    }

    /// Return whether a line of a file says whose it is.
    pub(super) fn counts(&self, file: u32, line: LineHash) -> bool {
        line.is_distinctive()
            && !self.common.contains(&line)
            && !is_generated(&self.history.paths[file as usize])
    }
}

/// Command that prints patches: without white space, with renames, and with nothing that the user configured.
const ARGUMENTS: [&str; 13] = [
    "diff-tree",
    "--stdin",
    "-r",
    "--root",
    "-p",
    "-U0",
    "-w",
    "-M",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--src-prefix=a/",
    "--dst-prefix=b/",
];

/// Read the patches of commits.
pub(super) fn patches_of(
    repository: &Repository<'_>,
    history: &History,
    commits: &[At],
    threads: usize,
) -> Result<HashMap<At, Patch>, Refusal> {
    let hashes: Vec<&str> = commits.iter().map(|&at| &*history.commits[at].hash).collect();
    let outputs = batches(repository, &ARGUMENTS, &hashes, threads, |output| {
        parse(&output, |path| history.number(path))
    })?;
    let patches = outputs.into_iter().flatten();
    Ok(patches.filter_map(|(hash, patch)| Some((*history.by_hash.get(&hash)?, patch))).collect())
}

/// Return the lines that many commits add.
fn common_lines(patches: &HashMap<At, Patch>) -> HashSet<LineHash> {
    let mut counts: HashMap<LineHash, usize> = HashMap::new();
    for patch in patches.values() {
        let added = patch.files.values().flat_map(|change| &change.added);
        let once: HashSet<LineHash> = added.copied().filter(|line| line.is_distinctive()).collect();
        for line in once {
            *counts.entry(line).or_default() += 1;
        }
    }
    counts.into_iter().filter(|&(_, count)| count > COMMON).map(|(line, _)| line).collect()
}
