//! Commits that take others back, by their message or as an inverse patch.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use regex::Regex;

use super::comparison::{Comparison, patches_of};
use crate::git::history::{At, History, pull_request};
use crate::git::repository::{Refusal, Repository};

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
