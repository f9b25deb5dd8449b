//! Commits of a repository since a moment: their parents, times, messages and files, and the trunk.

use std::collections::HashMap;

use karl_log::parallel;

use super::refusal::Refusal;
use super::repository::Repository;

/// Number of a commit in a history; the newest is 0.
pub(crate) type At = usize;

/// One commit.
#[derive(Debug, Default)]
pub(crate) struct Commit {
    /// Hash.
    pub(crate) hash: String,
    /// Hashes of the parents.
    pub(crate) parents: Vec<String>,
    /// Time at which its change was written, in seconds since 1970; a rebase keeps it.
    pub(crate) author_time: i64,
    /// Time at which it was committed, in seconds since 1970.
    pub(crate) time: i64,
    /// Message.
    pub(crate) message: String,
    /// Changed files, as numbers of [`History::paths`]; empty of merges.
    pub(crate) files: Vec<u32>,
    /// Commit of the trunk that brought it there; `None` if it is not there.
    pub(crate) landed: Option<At>,
}

impl Commit {
    /// Return the first line of the message.
    pub(crate) fn subject(&self) -> &str {
        self.message.lines().next().unwrap_or_default()
    }

    /// Return whether it joins branches.
    pub(crate) fn is_merge(&self) -> bool {
        self.parents.len() > 1
    }
}

/// Commits since a moment, children before parents.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Commits.
    pub(crate) commits: Vec<Commit>,
    /// Commits by hash.
    pub(crate) by_hash: HashMap<String, At>,
    /// First parents from the end of the trunk, newest first.
    pub(super) trunk: Vec<At>,
    /// Paths of files, as the repository has them.
    pub(crate) paths: Vec<Vec<u8>>,
    /// Numbers of the paths.
    pub(super) numbers: HashMap<Vec<u8>, u32>,
    /// Time of the newest commit.
    pub(crate) newest: i64,
}

/// Most files that a commit may change to be read; more are an import, not work.
const MOST_FILES: usize = 2000;

/// Commits that one command reads.
const BATCH: usize = 256;

/// Fields of `git log` of one commit, each ended by a zero.
pub(super) const FIELDS: &str = "--format=%H%x00%P%x00%at%x00%ct%x00%B";

impl History {
    /// Read the commits of all branches since a moment.
    pub(crate) fn read(repository: &Repository<'_>, since: i64, threads: usize) -> Result<Self, Refusal> {
        let since = format!("--since=@{}", since.max(0));
        let input = repository.tips.join("\n") + "\n";
        let arguments = ["log", "--stdin", "--topo-order", "-z", &since, FIELDS];
        let output = repository.git.run(&arguments, input.as_bytes())?;
        let mut history = Self { commits: commits(&output), ..Self::default() };
        let hashes = history.commits.iter().enumerate();
        history.by_hash = hashes.map(|(at, commit)| (commit.hash.clone(), at)).collect();
        history.newest = history.commits.iter().map(|commit| commit.time).max().unwrap_or_default();
        history.walk_trunk(&repository.tips[0]);
        history.land();
        history.read_files(repository, threads)?;
        history.read_tracked(repository)?;
        Ok(history)
    }

    /// Add the paths of the files at the end of the trunk, of which no commit may be in the history.
    fn read_tracked(&mut self, repository: &Repository<'_>) -> Result<(), Refusal> {
        let tip = &*repository.tips[0];
        let output = repository.git.run(&["ls-tree", "-r", "-z", "--name-only", "--full-tree", tip], b"")?;
        for path in output.split(|&byte| byte == 0).filter(|path| !path.is_empty()) {
            self.add_path(path);
        }
        Ok(())
    }

    /// Return the parents that are in the history.
    fn parents(&self, at: At) -> impl Iterator<Item = At> + '_ {
        self.commits[at].parents.iter().filter_map(|parent| self.by_hash.get(parent).copied())
    }

    fn walk_trunk(&mut self, tip: &str) {
        let mut next = self.by_hash.get(tip).copied();
        while let Some(at) = next {
            self.trunk.push(at);
            next = self.commits[at].parents.first().and_then(|parent| self.by_hash.get(parent).copied());
        }
    }

    /// Find the commit of the trunk that brought each commit there: the oldest that has it as an ancestor.
    fn land(&mut self) {
        for landing in self.trunk.clone().into_iter().rev() {
            let mut open = vec![landing];
            while let Some(at) = open.pop() {
                if self.commits[at].landed.is_none() {
                    self.commits[at].landed = Some(landing);
                    open.extend(self.parents(at).collect::<Vec<_>>());
                }
            }
        }
    }

    /// Read which files each commit changed.
    fn read_files(&mut self, repository: &Repository<'_>, threads: usize) -> Result<(), Refusal> {
        let single: Vec<&str> =
            self.commits.iter().filter(|commit| !commit.is_merge()).map(|commit| &*commit.hash).collect();
        let arguments = ["diff-tree", "--stdin", "-r", "-z", "--root", "--no-renames", "--no-abbrev"];
        for output in batches(repository, &arguments, &single, threads, |output| output)? {
            let mut tokens = output.split(|&byte| byte == 0).filter(|token| !token.is_empty());
            let mut current = None;
            while let Some(token) = tokens.next() {
                // A colon opens the facts of a file, and its path follows; anything else is a hash.
                if !token.starts_with(b":") {
                    current =
                        std::str::from_utf8(token).ok().and_then(|hash| self.by_hash.get(hash).copied());
                } else if let (Some(path), Some(at)) = (tokens.next(), current) {
                    let number = self.add_path(path);
                    self.commits[at].files.push(number);
                }
            }
        }
        Ok(())
    }

    /// Return the number of a path, a new one if it has none.
    fn add_path(&mut self, path: &[u8]) -> u32 {
        if let Some(number) = self.number(path) {
            return number;
        }
        let number = u32::try_from(self.paths.len()).unwrap_or(u32::MAX);
        self.paths.push(path.to_vec());
        self.numbers.insert(path.to_vec(), number);
        number
    }

    /// Return the number of a path.
    pub(crate) fn number(&self, path: &[u8]) -> Option<u32> {
        self.numbers.get(path).copied()
    }

    /// Return the commits that change each file.
    pub(crate) fn changes(&self) -> HashMap<u32, Vec<At>> {
        let mut changes: HashMap<u32, Vec<At>> = HashMap::new();
        for (at, commit) in self.commits.iter().enumerate() {
            commit.files.iter().for_each(|&file| changes.entry(file).or_default().push(at));
        }
        changes
    }

    /// Return the commits with this hash or abbreviation, if it is only one.
    pub(crate) fn find(&self, hash: &str) -> Option<At> {
        if let Some(&at) = self.by_hash.get(hash) {
            return Some(at);
        }
        let mut found = (0..self.commits.len()).filter(|&at| self.commits[at].hash.starts_with(hash));
        let first = found.next().filter(|_| hash.len() >= 7);
        first.filter(|_| found.next().is_none())
    }

    /// Return the last first-parent commit at or before a moment.
    pub(crate) fn trunk_at(&self, time: i64) -> Option<At> {
        self.trunk.iter().copied().find(|&at| self.commits[at].time <= time)
    }

    /// Return whether a commit is small enough to be read.
    pub(crate) fn is_readable(&self, at: At) -> bool {
        (1..=MOST_FILES).contains(&self.commits[at].files.len())
    }
}

/// Run a command of git once for every batch of commits, whose hashes it reads; return what `take` makes of
/// the outputs, in order.
pub(crate) fn batches<R: Send>(
    repository: &Repository<'_>,
    arguments: &[&str],
    hashes: &[&str],
    threads: usize,
    take: impl Fn(Vec<u8>) -> R + Sync,
) -> Result<Vec<R>, Refusal> {
    let run =
        |hashes: &[&str]| repository.git.run(arguments, (hashes.join("\n") + "\n").as_bytes()).map(&take);
    parallel::map(hashes.chunks(BATCH).collect(), threads, run).into_iter().collect()
}

/// Parse the output of `git log` with [`FIELDS`].
pub(super) fn commits(output: &[u8]) -> Vec<Commit> {
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let time = |field: &[u8]| std::str::from_utf8(field).ok()?.parse().ok();
    let fields: Vec<&[u8]> = output.split(|&byte| byte == 0).collect();
    let commit = |fields: &[&[u8]]| Commit {
        hash: text(fields[0]),
        parents: text(fields[1]).split(' ').filter(|parent| !parent.is_empty()).map(str::to_owned).collect(),
        author_time: time(fields[2]).unwrap_or_default(),
        time: time(fields[3]).unwrap_or_default(),
        message: text(fields[4]),
        ..Commit::default()
    };
    fields.chunks_exact(5).map(commit).collect()
}
