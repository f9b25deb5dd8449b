//! Commits of the trunk, with the diff of each.

use std::collections::HashMap;
use std::path::Path;

use karl_log::cancel::Watch;

use super::history::{Commit, FIELDS, batches, commits};
use super::refusal::Refusal;
use super::repository::Repository;

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
