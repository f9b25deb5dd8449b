//! Sessions beside the commits that may be theirs: the lines that each session wrote, by file of the repository, and the
//! patches of the commits.

use std::collections::{HashMap, HashSet};

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

/// Lines, each with the time of its first edit.
type Lines = HashMap<LineHash, i64>;

/// Lines that one session wrote or removed.
#[derive(Debug, Default)]
pub(super) struct SessionLines {
    /// Written lines, by number of the file.
    written: HashMap<u32, Lines>,
    /// Removed lines, by number of the file.
    removed: HashMap<u32, Lines>,
    /// Deleted files, each with the time of its first deletion.
    deleted: HashMap<u32, i64>,
    /// Written lines of files that are not in the repository under their name; they may have been moved.
    elsewhere: Lines,
}

impl SessionLines {
    /// Return whether the session wrote a line of a file before a moment.
    pub(super) fn wrote(&self, file: u32, line: LineHash, by: i64) -> bool {
        let is_in = |lines: &Lines| lines.get(&line).is_some_and(|&time| time <= by);
        self.written.get(&file).is_some_and(is_in) || is_in(&self.elsewhere)
    }

    /// Return whether the session removed a line of a file before a moment.
    pub(super) fn took(&self, file: u32, line: LineHash, by: i64) -> bool {
        self.deleted.get(&file).is_some_and(|&time| time <= by)
            || self.removed.get(&file).is_some_and(|lines| lines.get(&line).is_some_and(|&time| time <= by))
    }

    /// Return whether the session edited one of the files, or one that may have become one of them.
    pub(super) fn touches(&self, files: &[u32]) -> bool {
        !self.elsewhere.is_empty() || files.iter().any(|file| self.written.contains_key(file))
    }

    /// Return whether the session edited a file of the repository.
    pub(super) fn is_in_repository(&self) -> bool {
        !self.written.is_empty()
    }

    /// Return the number of distinctive lines that the session wrote; those that it removed if it wrote none.
    pub(super) fn distinctive(&self) -> usize {
        let count = |lines: &mut dyn Iterator<Item = &Lines>| {
            let all: HashSet<LineHash> = lines.flat_map(|lines| lines.keys()).copied().collect();
            all.into_iter().filter(|line| line.is_distinctive()).count()
        };
        match count(&mut self.written.values().chain([&self.elsewhere])) {
            0 => count(&mut self.removed.values()),
            written => written,
        }
    }
}

/// Add lines, each with its first time.
fn add(lines: &mut Lines, texts: &[String], time: i64, wanted: impl Fn(LineHash) -> bool) {
    for line in texts.iter().filter_map(|text| LineHash::new(text.as_bytes())).filter(|&line| wanted(line)) {
        lines.entry(line).and_modify(|first| *first = time.min(*first)).or_insert(time);
    }
}

/// Files of a repository, to be found by the paths of tool calls.
#[derive(Debug)]
pub(super) struct RepositoryFiles<'p> {
    paths: &'p [Vec<u8>],
    by_name: HashMap<&'p [u8], Vec<u32>>,
}

impl<'p> RepositoryFiles<'p> {
    /// Index files by their last component.
    pub(super) fn new(paths: &'p [Vec<u8>]) -> Self {
        let mut by_name: HashMap<&[u8], Vec<u32>> = HashMap::new();
        for (number, path) in (0_u32..).zip(paths) {
            by_name.entry(name(path)).or_default().push(number);
        }
        Self { paths, by_name }
    }

    /// Return the file that a path of a tool call means: the longest path that it ends with. The call may be
    /// from another machine or worktree, so that only the end is the same.
    fn find(&self, path: &str) -> Option<u32> {
        let path = path.as_bytes();
        let ends = |number: &&u32| {
            let file = &self.paths[**number as usize];
            path.strip_suffix(&file[..]).is_some_and(|rest| rest.is_empty() || rest.ends_with(b"/"))
        };
        let same_name = self.by_name.get(name(path))?;
        same_name.iter().filter(ends).max_by_key(|&&number| self.paths[number as usize].len()).copied()
    }

    /// Return the files of the folder that a path of a tool call means: the longest that it ends with.
    fn under(&self, path: &str) -> Vec<u32> {
        let is_end = |folder: &[u8]| {
            path.as_bytes().strip_suffix(folder).is_some_and(|rest| rest.is_empty() || rest.ends_with(b"/"))
        };
        let folder = |file: &'p Vec<u8>| {
            let ends = (0..file.len()).rev().filter(|&at| file[at] == b'/');
            ends.map(|at| &file[..at]).find(|folder| is_end(folder))
        };
        let all: Vec<_> =
            (0_u32..).zip(self.paths).filter_map(|(number, file)| Some((number, folder(file)?))).collect();
        let longest = all.iter().map(|(_, folder)| folder.len()).max();
        all.into_iter()
            .filter(|(_, folder)| Some(folder.len()) == longest)
            .map(|(number, _)| number)
            .collect()
    }

    /// Return the lines of a session.
    pub(super) fn lines(&self, session: &SessionWork) -> SessionLines {
        let mut all = SessionLines::default();
        for edit in &session.edits {
            let path = absolute(&edit.path, session);
            let time = edit.time.unwrap_or(i64::MIN);
            match self.find(&path) {
                _ if is_generated(path.as_bytes()) => {}
                found if edit.deletes => {
                    for file in found.map_or_else(|| self.under(&path), |file| vec![file]) {
                        all.written.entry(file).or_default();
                        all.deleted.entry(file).and_modify(|first| *first = time.min(*first)).or_insert(time);
                    }
                }
                Some(file) => {
                    add(all.written.entry(file).or_default(), &edit.added, time, |_| true);
                    add(all.removed.entry(file).or_default(), &edit.removed, time, |_| true);
                }
                None => add(&mut all.elsewhere, &edit.added, time, LineHash::is_distinctive),
            }
        }
        all
    }
}

fn name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// Return the path of an edit from the root, with `/` between its parts, and without `.` and `..`.
fn absolute(path: &str, session: &SessionWork) -> String {
    let mut path = path.replace('\\', "/");
    let is_absolute = path.starts_with('/') || path.as_bytes().get(1) == Some(&b':');
    if let (false, Some(directory)) = (is_absolute, &session.directory) {
        path = format!("{}/{path}", directory.display()).replace('\\', "/");
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "." | "" if !parts.is_empty() => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_other_machines_and_worktrees_find_their_file() {
        let paths: Vec<Vec<u8>> =
            ["a.py", "src/a.py", "src/b/a.py"].map(|path| path.as_bytes().to_vec()).into();
        let files = RepositoryFiles::new(&paths);
        let session = SessionWork { directory: Some("/home/u/repo/src".into()), ..SessionWork::default() };
        let find = |path: &str| files.find(&absolute(path, &session));
        assert_eq!(find("/home/u/repo/.worktrees/1/src/b/a.py"), Some(2));
        assert_eq!(find("b/a.py"), Some(2));
        assert_eq!(find("./b/../a.py"), Some(1));
        assert_eq!(find("C:\\repo\\src\\a.py"), Some(1));
        assert_eq!(find("/home/u/repo/b.py"), None);
        assert_eq!(find("/home/u/ba.py"), None);
        let under = |path: &str| files.under(&absolute(path, &session));
        assert_eq!(under("b"), [2]);
        assert_eq!(under("/home/u/repo/src"), [1, 2]);
        assert!(under("/home/u/other").is_empty());
    }
}
