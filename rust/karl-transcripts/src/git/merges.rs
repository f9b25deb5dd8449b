//! Pull requests and merges of commits.

use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;

use super::history::{At, Commit, History};

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
