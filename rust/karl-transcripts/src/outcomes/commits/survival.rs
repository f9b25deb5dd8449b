//! What became of a commit: its lines at a later commit, as `git blame` follows them, and the commits that take it back,
//! by their message or as an inverse patch.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::LazyLock;

use regex::Regex;

use super::comparison::{Comparison, patches_of};
use crate::git::history::{At, History, pull_request};
use crate::git::patch::{FileChange, LineHash, is_generated, unquote};
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
pub(super) fn find_fate(
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

/// Commit that takes another one back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Revert {
    /// Commit.
    pub(super) by: At,
    /// Reason in words.
    pub(super) why: &'static str,
}

/// Reverts of commits, by the number of the commit taken back.
#[derive(Debug, Default)]
pub(super) struct Reverts {
    of: HashMap<At, Vec<Revert>>,
}

impl Reverts {
    /// Find the reverts of commits, and the reverts of those.
    pub(super) fn find(
        repository: &Repository<'_>,
        all: &mut Comparison<'_>,
        commits: &HashSet<At>,
        threads: usize,
    ) -> Result<Self, Refusal> {
        let mut of = by_message(&all.history);
        let alike = same_files(&all.history, commits);
        let missing =
            alike.iter().flatten().copied().filter(|at| !all.patches.contains_key(at)).collect::<Vec<At>>();
        all.patches.extend(patches_of(repository, &all.history, &missing, threads)?);
        for (&by, &at) in
            alike.iter().flat_map(|group| group.iter().flat_map(|by| group.iter().map(move |at| (by, at))))
        {
            if by < at && inverse(all, by, at) {
                of.entry(at).or_default().push(Revert { by, why: "an inverse patch" });
            }
        }
        Ok(Self { of })
    }

    /// Return the commit that took another one back, if nothing took that back in turn.
    pub(super) fn of(&self, history: &History, at: At) -> Option<Revert> {
        let reverts = self.of.get(&at)?.iter().copied();
        // A revert on a branch that was never merged takes nothing back on the trunk.
        let counts = |revert: &Revert| {
            revert.by < at
                && (history.commits[revert.by].landed.is_some() || history.commits[at].landed.is_none())
        };
        reverts.filter(counts).find(|revert| self.of(history, revert.by).is_none())
    }
}

/// Return the commits that change the same files as one of these, grouped by their files.
fn same_files(history: &History, commits: &HashSet<At>) -> Vec<Vec<At>> {
    let mut groups: HashMap<&[u32], Vec<At>> =
        commits.iter().map(|&at| (&*history.commits[at].files, Vec::new())).collect();
    for at in (0..history.commits.len()).filter(|&at| history.is_readable(at)) {
        if let Some(group) = groups.get_mut(&*history.commits[at].files) {
            group.push(at);
        }
    }
    groups.into_values().filter(|group| group.len() > 1).collect()
}

fn inverse(all: &Comparison<'_>, by: At, of: At) -> bool {
    all.patches.get(&by).zip(all.patches.get(&of)).is_some_and(|(by, of)| by.is_inverse_of(of))
}

/// Sentences in messages: of git, and of GitHub's pull requests.
static COMMIT: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"This reverts commit ([0-9a-f]{7,64})").ok());
static REQUEST: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?m)^Reverts (?:\S+)?#(\d+)").ok());

/// Return the reverts that messages name.
fn by_message(history: &History) -> HashMap<At, Vec<Revert>> {
    let mut requests: HashMap<u64, Vec<At>> = HashMap::new();
    let mut landed: HashMap<At, Vec<At>> = HashMap::new();
    for at in 0..history.commits.len() {
        if let Some(number) = pull_request(history, at) {
            requests.entry(number).or_default().push(at);
        }
        if let Some(merge) = history.commits[at].landed.filter(|&merge| merge != at) {
            landed.entry(merge).or_default().push(at);
        }
    }
    let mut of: HashMap<At, Vec<Revert>> = HashMap::new();
    for (by, commit) in
        history.commits.iter().enumerate().filter(|(_, commit)| commit.message.contains("everts "))
    {
        let texts = |pattern: &'static LazyLock<Option<Regex>>| {
            pattern
                .as_ref()
                .into_iter()
                .flat_map(|pattern| pattern.captures_iter(&commit.message))
                .map(|found| found[1].to_owned())
        };
        for at in texts(&COMMIT).filter_map(|hash| history.find(&hash)) {
            // The revert of a merge takes back what the merge brought.
            let brought = landed.get(&at).into_iter().flatten().copied();
            for at in brought.chain([at]) {
                of.entry(at).or_default().push(Revert { by, why: "its message names the commit" });
            }
        }
        for at in texts(&REQUEST).filter_map(|number| requests.get(&number.parse().ok()?)).flatten() {
            of.entry(*at).or_default().push(Revert { by, why: "its message names the pull request" });
        }
    }
    of
}

/// Place of a line in a commit: path and number.
pub(crate) type Place = (Vec<u8>, usize);

/// Find the lines of a file, as it is in commit `seen`, that commit `origin` wrote; `None` if the file is not there.
/// They are those of `git blame -w -M -C`: white space does not count, and lines are followed over moves and copies
/// within a file and between the files of one commit, both after `origin` and by `origin` itself.
pub(crate) fn blame(
    repository: &Repository<'_>,
    history: &History,
    (origin, seen): (At, At),
    path: &[u8],
) -> Result<Option<Vec<Place>>, Refusal> {
    let (origin, seen) = (&history.commits[origin], &history.commits[seen].hash);
    // Blame stops at the parent: what the commit found there is not its own, whoever wrote it.
    let range = origin.parents.first().map_or_else(|| seen.clone(), |parent| format!("{parent}..{seen}"));
    let mut arguments = ["blame", "-w", "-M", "-C", "--porcelain", "--no-textconv"].map(text).to_vec();
    arguments.extend([text(&range), text("--"), os(path)]);
    match repository.git.run(&arguments, b"") {
        Err(refusal) if refusal.detail.contains("no such path") => Ok(None),
        output => Ok(Some(parse(&output?, &origin.hash))),
    }
}

fn text(text: &str) -> &std::ffi::OsStr {
    std::ffi::OsStr::new(text)
}

#[cfg(unix)]
fn os(path: &[u8]) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(path)
}

#[cfg(not(unix))]
fn os(path: &[u8]) -> &std::ffi::OsStr {
    text(std::str::from_utf8(path).unwrap_or_default())
}

/// Parse the porcelain output: a header of each line, facts of its commit where they are new, and the text
/// behind a tab.
fn parse(output: &[u8], origin: &str) -> Vec<Place> {
    let mut places = Vec::new();
    let mut path = Vec::new();
    let mut number = None;
    for line in output.split(|&byte| byte == b'\n') {
        if line.starts_with(b"\t") {
            places.extend(number.take().map(|number| (path.clone(), number)));
        } else if let Some(rest) = line.strip_prefix(origin.as_bytes()) {
            number = std::str::from_utf8(rest).ok().and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
        } else if let (Some(name), Some(_)) = (line.strip_prefix(b"filename "), number) {
            path = unquote(name);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_one_commit_with_their_places() {
        let (ours, other) = ("1".repeat(40), "2".repeat(40));
        let output = format!(
            "{ours} 3 1 2\nauthor A\nfilename \"a\\nb\"\n\tfirst line\n{ours} 4 2\n\t\n{other} 1 3 1\nfilename c\n\tx\n\
             {ours} 9 4 1\nfilename d\n\tlast line\n"
        );
        let found = parse(output.as_bytes(), &ours);
        assert_eq!(found, [(b"a\nb".to_vec(), 3), (b"a\nb".to_vec(), 4), (b"d".to_vec(), 9)]);
    }
}
