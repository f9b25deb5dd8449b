//! Survival of the lines of a commit, by `git blame -w -M -C` at the commit and at its horizon.

use std::collections::{BTreeMap, HashSet};

use super::comparison::Comparison;
use crate::git::blame::{Place, blame};
use crate::git::history::At;
use crate::git::patch::{FileChange, LineHash, is_generated};
use crate::git::repository::{Refusal, Repository};

/// Lines of one commit at its horizon.
#[derive(Debug)]
pub(super) struct Fate {
    /// Last commit of the trunk before the horizon.
    pub(super) horizon: At,
    /// Lines that the commit wrote, by file; true if they still exist.
    pub(super) lines: BTreeMap<u32, Vec<(LineHash, bool)>>,
}

/// Commit whose lines are looked for at its horizon.
struct Search<'c> {
    repository: &'c Repository<'c>,
    all: &'c Comparison<'c>,
    at: At,
    horizon: At,
    files: Vec<(u32, &'c FileChange)>,
    /// Places of the lines that the commit wrote; those that it moved or copied are another's.
    written: HashSet<Place>,
    /// Places of the lines that were found.
    standing: HashSet<Place>,
}

/// Find out which lines of a commit exist at its horizon; `None` if the time has not passed.
pub(super) fn fate(
    repository: &Repository<'_>,
    all: &Comparison<'_>,
    at: At,
) -> Result<Option<Fate>, Refusal> {
    let (Some(horizon), Some(patch)) = (horizon(all, at), all.patches.get(&at)) else { return Ok(None) };
    let is_written = |(file, change): &(&u32, &FileChange)| {
        !is_generated(&all.history.paths[**file as usize]) && !change.added.is_empty()
    };
    let files = patch.files.iter().filter(is_written).map(|(&file, change)| (file, change)).collect();
    let (written, standing) = (HashSet::new(), HashSet::new());
    let mut search = Search { repository, all, at, horizon, files, written, standing };
    search.find_written()?;
    search.look()?;
    let fate = |&(file, change): &(u32, &FileChange)| {
        let lines = change.numbers.iter().zip(&change.added);
        let own = lines.filter(|(number, _)| search.wrote(file, **number));
        (file, own.map(|(&number, &line)| (line, search.stands(file, number))).collect())
    };
    Ok(Some(Fate { horizon, lines: search.files.iter().map(fate).collect() }))
}

/// Return the last commit of the trunk at which a commit is judged: `None` if the time has not passed, or the
/// commit is not on the trunk by then.
fn horizon(all: &Comparison<'_>, at: At) -> Option<At> {
    let commit = &all.history.commits[at];
    let end = commit.time + all.after;
    let horizon = all.history.trunk_at(end)?;
    // On the trunk, a larger number is an older commit.
    let is_there = commit.landed.is_some_and(|landed| landed >= horizon);
    (all.history.newest >= end && is_there).then_some(horizon)
}

impl Search<'_> {
    fn path(&self, file: u32) -> &[u8] {
        &self.all.history.paths[file as usize]
    }

    fn stands(&self, file: u32, number: usize) -> bool {
        self.standing.contains(&(self.path(file).to_vec(), number))
    }

    fn wrote(&self, file: u32, number: usize) -> bool {
        self.written.contains(&(self.path(file).to_vec(), number))
    }

    /// Find the lines that the commit wrote.
    fn find_written(&mut self) -> Result<(), Refusal> {
        for (file, _) in self.files.clone() {
            let blame = blame(self.repository, &self.all.history, (self.at, self.at), self.path(file))?;
            self.written.extend(blame.into_iter().flatten());
        }
        Ok(())
    }

    /// Look for the lines in their own files, in what these were renamed to, and where they may have been moved.
    fn look(&mut self) -> Result<(), Refusal> {
        let mut elsewhere = HashSet::new();
        let mut is_gone = false;
        for (file, change) in self.files.clone() {
            let path = self.path(file).to_vec();
            if !self.is_changed(file) {
                self.standing.extend(change.numbers.iter().map(|&number| (path.clone(), number)));
            } else if !self.blame(&path)? {
                is_gone = true;
            }
        }
        if is_gone {
            elsewhere.extend(self.renamed()?);
        }
        elsewhere.extend(self.moved().into_iter().map(|file| self.path(file).to_vec()));
        for path in elsewhere {
            self.blame(&path)?;
        }
        Ok(())
    }

    /// Return whether another commit changed a file since, or beside, this one.
    fn is_changed(&self, file: u32) -> bool {
        let commits = &self.all.history.commits;
        let counts = |&&other: &&At| {
            let landed = commits[other].landed.filter(|&landed| landed >= self.horizon);
            other != self.at && landed.is_some_and(|landed| commits[landed].time >= commits[self.at].time)
        };
        self.all.changes.get(&file).is_some_and(|others| others.iter().any(|other| counts(&other)))
    }

    /// Follow the lines of a file at the horizon back to the commit; return whether the file is there.
    fn blame(&mut self, path: &[u8]) -> Result<bool, Refusal> {
        let found = blame(self.repository, &self.all.history, (self.at, self.horizon), path)?;
        let is_there = found.is_some();
        self.standing.extend(found.into_iter().flatten());
        Ok(is_there)
    }

    /// Return the lines that were not found, unless they say nothing of where they are from.
    fn missing(&self) -> HashSet<LineHash> {
        let lines = self.files.iter().flat_map(|&(file, change)| {
            change.numbers.iter().zip(&change.added).map(move |(&number, &line)| (file, number, line))
        });
        let is_missing = |&(file, number, line): &(u32, usize, LineHash)| {
            self.all.counts(file, line) && self.wrote(file, number) && !self.stands(file, number)
        };
        lines.filter(is_missing).map(|(_, _, line)| line).collect()
    }

    /// Return the new paths of renamed files.
    fn renamed(&self) -> Result<Vec<Vec<u8>>, Refusal> {
        let hash = |at: At| &*self.all.history.commits[at].hash;
        let ends = [hash(self.at), hash(self.horizon)];
        let arguments = ["diff-tree", "-r", "-z", "-M", "--diff-filter=R", "--name-status", ends[0], ends[1]];
        let output = self.repository.git.run(&arguments, b"")?;
        let tokens: Vec<&[u8]> = output.split(|&byte| byte == 0).collect();
        let is_ours = |triple: &&[&[u8]]| self.files.iter().any(|&(file, _)| self.path(file) == triple[1]);
        Ok(tokens.chunks_exact(3).filter(is_ours).map(|triple| triple[2].to_vec()).collect())
    }

    /// Return the files that missing lines may have been moved to: a later commit takes them from one of the
    /// files, and adds them there. Blame judges; that no other file can hold them saves a blame of every file.
    fn moved(&self) -> HashSet<u32> {
        let missing = self.missing();
        if missing.is_empty() {
            return HashSet::new();
        }
        let commits = &self.all.history.commits;
        let is_between =
            |at: &At| *at < self.at && commits[*at].landed.is_some_and(|landed| landed >= self.horizon);
        let is_own = |file: u32| self.files.iter().any(|&(known, _)| known == file);
        let mut files = HashSet::new();
        for (_, patch) in self.all.patches.iter().filter(|(at, _)| is_between(at)) {
            let own = patch.files.iter().filter(|&(&file, _)| is_own(file));
            let taken: HashSet<&LineHash> =
                own.flat_map(|(_, change)| &change.removed).filter(|line| missing.contains(line)).collect();
            let gets = |change: &FileChange| change.added.iter().any(|line| taken.contains(line));
            let others = patch.files.iter().filter(|&(&file, change)| !is_own(file) && gets(change));
            files.extend(others.map(|(&file, _)| file));
        }
        files
    }
}
