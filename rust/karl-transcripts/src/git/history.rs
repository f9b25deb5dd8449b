//! Commits of a repository since a moment: their parents, times, messages and files, and the trunk.

use std::collections::HashMap;
use std::path::Path;
use std::sync::LazyLock;

use karl_log::cancel::Watch;
use karl_log::parallel;
use regex::Regex;
use serde::Deserialize;

use super::repository::{Refusal, Repository};

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

/// Commits of a repository's trunk, newest first.
pub(crate) struct CommitLog<'w> {
    repository: Repository<'w>,
    /// Commits.
    pub(crate) commits: Vec<Commit>,
}

impl<'w> CommitLog<'w> {
    /// Read the commits of a repository, which may be bare, or of any folder inside of one.
    pub(crate) fn read(path: &Path, watch: &'w Watch) -> Result<Self, Refusal> {
        let repository = Repository::open(path, watch)?;
        let output = repository.git.run(&["log", "--topo-order", "-z", FIELDS, &repository.tips[0]], b"")?;
        Ok(Self { commits: commits(&output), repository })
    }

    /// Return the number of files that each commit changes.
    pub(crate) fn file_counts(
        &self,
        hashes: &[&str],
        threads: usize,
    ) -> Result<HashMap<String, usize>, Refusal> {
        let arguments = ["diff-tree", "--stdin", "-r", "-z", "--root", "--no-renames", "--no-abbrev"];
        let mut counts = HashMap::new();
        for output in batches(&self.repository, &arguments, hashes, threads, |output| output)? {
            let mut current = String::new();
            let mut tokens = output.split(|&byte| byte == 0).filter(|token| !token.is_empty());
            while let Some(token) = tokens.next() {
                // A colon opens the facts of a file, and its path follows; anything else is a hash.
                if token.starts_with(b":") {
                    *counts.entry(current.clone()).or_default() += usize::from(tokens.next().is_some());
                } else {
                    current = String::from_utf8_lossy(token).into_owned();
                }
            }
        }
        Ok(counts)
    }

    /// Return the diff of each commit against its parent, with three lines of context.
    pub(crate) fn diffs(&self, hashes: &[&str]) -> Result<HashMap<String, Vec<u8>>, Refusal> {
        let arguments = [
            "diff-tree",
            "--stdin",
            "-p",
            "-U3",
            "-M",
            "--root",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
        ];
        let output = self.repository.git.run(&arguments, (hashes.join("\n") + "\n").as_bytes())?;
        let (mut diffs, mut current) = (HashMap::<String, Vec<u8>>::new(), None);
        for line in output.split_inclusive(|&byte| byte == b'\n') {
            // A line of a diff begins with a word or a mark, so that a bare hash opens the next commit.
            if let Some(hash) = hashes.iter().find(|hash| line.strip_suffix(b"\n") == Some(hash.as_bytes())) {
                current = Some(*hash);
            } else if let Some(hash) = current {
                diffs.entry(hash.to_owned()).or_default().extend_from_slice(line);
            }
        }
        Ok(diffs)
    }
}

/// Words in the keys of such trailers: `Entire-Checkpoint`, `Claude-Session`, `Conversation-Id`.
const KEYS: [&str; 3] = ["session", "checkpoint", "conversation"];

/// Fewest characters of an id.
const SHORTEST: usize = 8;

/// Return the ids in the trailers of a message. The last part of an address counts as an id too.
pub(crate) fn session_ids(message: &str) -> impl Iterator<Item = &str> {
    let trailers =
        message.lines().filter_map(|line| line.split_once(": ")).filter(|(key, _)| names_session(key));
    trailers.flat_map(|(_, value)| value.split([' ', ',', '/'])).filter(|id| id.len() >= SHORTEST)
}

fn names_session(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && KEYS.iter().any(|word| key.contains(word))
}

/// Pull request, as `gh pr view --json number,state,mergedAt,mergeCommit,commits,headRefName` writes it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PullRequest {
    /// Number.
    pub number: u64,
    /// `OPEN`, `CLOSED` or `MERGED`.
    pub state: String,
    /// Time of the merge.
    pub merged_at: Option<String>,
    /// Commit that the merge made.
    pub merge_commit: Option<Oid>,
    /// Commits of the branch.
    pub commits: Vec<Oid>,
    /// Name of the branch.
    pub head_ref_name: String,
}

/// Hash of a commit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Oid {
    /// Hash.
    pub oid: String,
}

impl PullRequest {
    /// Parse what `gh` wrote: one pull request, or a list of them.
    ///
    /// # Errors
    /// If the text is of another form.
    pub fn parse(text: &[u8]) -> Result<Vec<Self>, serde_json::Error> {
        match serde_json::from_slice(text) {
            Ok(all) => Ok(all),
            Err(_) => serde_json::from_slice(text).map(|one| vec![one]),
        }
    }

    /// Return 1 if it was merged, 0 if it was closed without; `None` if it is open.
    fn verdict(&self) -> Option<f64> {
        let is_merged = self.state == "MERGED" || self.merged_at.is_some();
        if is_merged { Some(1.0) } else { (self.state == "CLOSED").then_some(0.0) }
    }

    fn holds(&self, history: &History, at: At) -> bool {
        let hash = &history.commits[at].hash;
        let landed = history.commits[at].landed.map(|landed| &history.commits[landed].hash);
        self.commits.iter().chain(&self.merge_commit).any(|oid| oid.oid == *hash || Some(&oid.oid) == landed)
            || pull_request(history, at) == Some(self.number)
    }
}

/// Merge, or its absence, of a commit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Merge {
    /// 1 if merged, 0 if closed without merging.
    pub(crate) value: f64,
    /// Reason in words.
    pub(crate) why: String,
}

/// Return the merge of a commit: of its pull request as `gh` has it, or the merge commit that brought it to the
/// trunk.
pub(crate) fn merge(history: &History, requests: &[PullRequest], at: At) -> Option<Merge> {
    if let Some(request) = requests.iter().find(|request| request.holds(history, at)) {
        let why = format!("pull request #{} is {}", request.number, request.state.to_lowercase());
        return request.verdict().map(|value| Merge { value, why });
    }
    let landed = history.commits[at].landed?;
    let merge = &history.commits[landed];
    if landed != at && merge.is_merge() && !is_pull(merge) {
        return Some(Merge { value: 1.0, why: format!("merged by {}", merge.hash) });
    }
    let number = pull_request(history, at)?;
    Some(Merge { value: 1.0, why: format!("pull request #{number}, in the subject") })
}

/// Return whether a merge is of a branch with its own remote: what it brings came without a review.
fn is_pull(merge: &Commit) -> bool {
    let subject = merge.subject();
    subject.starts_with("Merge remote-tracking branch")
        || subject.starts_with("Merge branch '") && subject.contains("' of ")
}

/// Subjects of GitHub: a squash names its pull request at the end, a merge at the beginning.
static SQUASH: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\(#(\d+)\)$").ok());
static MERGE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^Merge pull request #(\d+) ").ok());

/// Return the number of the pull request that brought a commit to the trunk.
pub(crate) fn pull_request(history: &History, at: At) -> Option<u64> {
    let number = |pattern: &Option<Regex>, at: At| {
        pattern.as_ref()?.captures(history.commits[at].subject())?[1].parse().ok()
    };
    let landed = history.commits[at].landed?;
    number(&MERGE, landed).or_else(|| number(&SQUASH, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_sessions_in_trailers() {
        let message = "Fix session: handling\n\nSee https://x/1234567890.\n\nEntire-Checkpoint: 0e6b66910244\n\
                       Claude-Session: https://claude.ai/code/session_01ABCdef\nSigned-off-by: Someone 1234567890\n";
        assert_eq!(
            session_ids(message).collect::<Vec<_>>(),
            ["0e6b66910244", "claude.ai", "session_01ABCdef"]
        );
    }

    fn history() -> History {
        let commit = |subject: &str, parents: usize, landed| Commit {
            hash: format!("{subject:0<40}"),
            parents: vec![String::new(); parents],
            message: format!("{subject}\n\nbody"),
            landed: Some(landed),
            ..Commit::default()
        };
        let commits = vec![
            commit("Merge pull request #7 from o/branch", 2, 0),
            commit("work", 1, 0),
            commit("Squash (#8)", 1, 2),
            commit("direct", 1, 3),
            commit("Merge branch 'main' of host", 2, 4),
            commit("pulled", 1, 4),
        ];
        History { commits, ..History::default() }
    }

    #[test]
    fn merges_of_pull_requests_squashes_and_pulls() {
        let history = history();
        let value = |at| merge(&history, &[], at).map(|merge| merge.value);
        assert_eq!([1, 2, 3, 5].map(value), [Some(1.0), Some(1.0), None, None]);
    }

    #[test]
    fn what_gh_saved_comes_first() {
        let history = history();
        let text = br#"[{"number": 7, "state": "CLOSED", "mergedAt": null}, {"number": 9, "state": "OPEN"}]"#;
        let requests = PullRequest::parse(text).unwrap();
        assert_eq!(merge(&history, &requests, 1).map(|merge| merge.value), Some(0.0));
        let one = PullRequest::parse(br#"{"number": 1, "state": "MERGED", "mergeCommit": null}"#).unwrap();
        assert_eq!((one.len(), one[0].verdict()), (1, Some(1.0)));
        assert!(PullRequest::parse(b"5").is_err());
    }
}
