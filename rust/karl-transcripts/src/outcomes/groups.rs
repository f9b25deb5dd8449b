//! Groups of trajectories that are attempts at one task: a request made again, forks, one issue, sub-agents.
//!
//! A row is a trajectory with what is known of it while the others are read. What a sub-agent edits is work of its
//! session.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::path::PathBuf;
use std::sync::LazyLock;

use karl_log::columns::PackedPlace;
use karl_log::format::Component;
use regex::Regex;

use super::checks::CHECKS;
use super::next_turn::own_words;
use super::outcome::{Evidence, Outcome};
use crate::tool_calls::SessionWork;

/// Trajectory of a session or sub-agent.
pub(super) struct OutcomeRow {
    pub(super) place: PackedPlace,
    pub(super) digest: u64,
    /// Trajectory that called it.
    pub(super) parent: Option<String>,
    /// First prompt of its user.
    pub(super) request: Option<Request>,
    /// Issue or pull request that this prompt names.
    pub(super) issue: Option<String>,
    /// Commit at which it began, where the tool recorded one.
    pub(super) base_commit: Option<String>,
    /// Group, if it has one, or is found to have one.
    pub(super) group: Option<String>,
    pub(super) work: SessionWork,
    pub(super) outcome: Outcome,
    /// Times of the runs behind `tests`, `build` and `lint`.
    pub(super) checked: [Option<i64>; CHECKS.len()],
}

/// Fewest words of a request that tells sessions apart: "continue" and "hi" do not.
const WORDS: usize = 4;

/// First prompt of a session, without case, marks and spaces.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Request(String);

impl Request {
    /// Return the request in a prompt; `None` if it is too short.
    pub(super) fn of(prompt: &str) -> Option<Self> {
        let words = prompt.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
        let words: Vec<String> = words.map(str::to_lowercase).collect();
        (words.len() >= WORDS).then(|| Self(words.join(" ")))
    }
}

/// Address of an issue or of a pull or merge request, or `owner/name#12`, which is of GitHub; ASCII, since the tables of
/// Unicode are not built in.
static NAMED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let address = r"https?://([\w.-]+(?:/[\w.-]+){2,}?)/(?:-/)?(issues|pull|merge_requests)/(\d+)";
    Regex::new(&format!(r"(?i-u){address}|(?:^|[\s(])([\w.-]+/[\w.-]+)#(\d+)\b")).ok()
});

/// Return the one issue or pull request that a prompt names with its repository; `None` for none or several.
///
/// Issues and pull requests of GitHub share their numbers; merge requests of GitLab have their own.
pub(super) fn issue(prompt: &str) -> Option<String> {
    let own = own_words(prompt);
    let name = |found: regex::Captures<'_>| match (found.get(1), found.get(4)) {
        (Some(repository), _) => {
            let mark = if found[2].eq_ignore_ascii_case("merge_requests") { '!' } else { '#' };
            format!("{}{mark}{}", repository.as_str().to_lowercase(), &found[3])
        }
        (None, repository) => {
            let repository = repository.map_or("", |repository| repository.as_str());
            format!("github.com/{}#{}", repository.to_lowercase(), &found[5])
        }
    };
    let mut names: BTreeSet<String> = NAMED.as_ref()?.captures_iter(&own).map(name).collect();
    if names.len() == 1 { names.pop_first() } else { None }
}

/// Groups as a forest: the parent of each trajectory, or itself. Trajectories that share one with a third are of
/// one group, whatever joined them.
pub(super) struct TrajectoryGroups(Vec<usize>);

impl TrajectoryGroups {
    /// Create a group of its own for each of `count` trajectories.
    pub(super) fn new(count: usize) -> Self {
        Self((0..count).collect())
    }

    /// Join two trajectories.
    pub(super) fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.root(one), self.root(other));
        self.0[one.max(other)] = one.min(other);
    }

    /// Join trajectories with equal keys.
    pub(super) fn join_equal<K: Eq + Hash>(&mut self, keys: impl Iterator<Item = (K, usize)>) {
        let mut first = HashMap::new();
        for (key, at) in keys {
            let with = *first.entry(key).or_insert(at);
            self.join(with, at);
        }
    }

    fn root(&mut self, mut at: usize) -> usize {
        while self.0[at] != at {
            let next = self.0[self.0[at]];
            self.0[at] = next;
            at = next;
        }
        at
    }

    /// Set one group for the trajectories of each: the first's, or its id.
    pub(super) fn name(mut self, sessions: &mut [OutcomeRow]) {
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for at in 0..sessions.len() {
            groups.entry(self.root(at)).or_default().push(at);
        }
        for mut members in groups.into_values().filter(|members| members.len() > 1) {
            members.sort_by_key(|&at| (sessions[at].work.start, at));
            let own = members.iter().find_map(|&at| sessions[at].group.clone());
            let name = own.unwrap_or_else(|| sessions[members[0]].work.id.clone());
            for at in members {
                sessions[at].group = Some(name.clone());
            }
        }
    }
}

/// Seconds within which a request counts as made again.
const WITHIN: i64 = 24 * 3600;

/// Set `asked_again` of the sessions `at`, and join those with one request.
pub(super) fn asked_again(sessions: &mut [OutcomeRow], at: &[usize], groups: &mut TrajectoryGroups) {
    let mut same: HashMap<(Request, PathBuf), Vec<(i64, usize)>> = HashMap::new();
    for &at in at {
        let session = &sessions[at];
        let (Some(request), Some(folder), Some(start)) =
            (session.request.clone(), session.work.directory.clone(), session.work.start)
        else {
            continue;
        };
        same.entry((request, folder)).or_default().push((start, at));
    }
    for times in same.values_mut() {
        times.sort_unstable();
        for run in times.chunk_by(|(one, _), (next, _)| next - one <= WITHIN) {
            for &(_, at) in run {
                groups.join(run[0].1, at);
            }
        }
        for &(start, at) in &*times {
            // A fork begins with the lines of its session, at the same time: the user did not ask again.
            let later = times.iter().find(|(time, _)| *time > start && time - start <= WITHIN);
            set_asked_again(sessions, at, later.map(|(_, later)| *later));
        }
    }
}

fn set_asked_again(sessions: &mut [OutcomeRow], at: usize, later: Option<usize>) {
    let (value, why) = match later {
        Some(later) => (1.0, format!("session {} begins with the same request", sessions[later].work.id)),
        None => (0.0, "no session within a day begins with the same request".to_owned()),
    };
    sessions[at].outcome.set(Component::AskedAgain, value, Evidence { why, ..Evidence::default() });
}

/// Join trajectories that are attempts at one task for other reasons: sessions with one request and base commit,
/// whatever time lies between them; sessions that name one issue or pull request; sub-agents that one trajectory
/// called with one request.
pub(super) fn join_attempts(
    sessions: &[OutcomeRow],
    roots: &[usize],
    called: &[usize],
    groups: &mut TrajectoryGroups,
) {
    let request = |at: usize| sessions[at].request.clone();
    groups.join_equal(
        roots.iter().filter_map(|&at| Some(((request(at)?, sessions[at].base_commit.clone()?), at))),
    );
    groups.join_equal(roots.iter().filter_map(|&at| Some((sessions[at].issue.clone()?, at))));
    groups
        .join_equal(called.iter().filter_map(|&at| Some(((request(at)?, sessions[at].parent.clone()?), at))));
}

/// Session of each trajectory: itself, or the one that called it.
pub(super) struct Families(Vec<usize>);

impl Families {
    /// Find the session of every trajectory.
    pub(super) fn of(sessions: &[OutcomeRow]) -> Self {
        let places: HashMap<&str, usize> =
            sessions.iter().enumerate().rev().map(|(at, session)| (session.work.id.as_str(), at)).collect();
        let parent = |at: usize| places.get(sessions[at].parent.as_deref()?).copied();
        let root = |mut at: usize| {
            // At most as many steps as sessions: parents may form a cycle.
            for _ in 0..sessions.len() {
                match parent(at) {
                    Some(next) => at = next,
                    None => break,
                }
            }
            at
        };
        Self((0..sessions.len()).map(root).collect())
    }

    /// Return whether a trajectory is a session of its own.
    pub(super) fn is_root(&self, at: usize) -> bool {
        self.0[at] == at
    }

    /// Forget runs of a session that came before an edit of one of its sub-agents.
    pub(super) fn void_checks(&self, sessions: &mut [OutcomeRow]) {
        for at in (0..sessions.len()).filter(|&at| !self.is_root(at)) {
            let Some(last) = sessions[at].work.edits.iter().map(|edit| edit.time).max() else { continue };
            let root = &mut sessions[self.0[at]];
            for (component, time) in CHECKS.into_iter().zip(root.checked) {
                if last >= time {
                    root.outcome.unset(component);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_with_one_issue_of_a_named_repository_is_of_that_issue() {
        let same =
            ["fix https://github.com/Acme/Shop/issues/12 please", "acme/shop#12: again", "(acme/shop#12)"];
        for prompt in same {
            assert_eq!(issue(prompt).as_deref(), Some("github.com/acme/shop#12"), "{prompt}");
        }
        let merge = "see https://git.acme.io/web/team/shop/-/merge_requests/3/diffs";
        assert_eq!(issue(merge).as_deref(), Some("git.acme.io/web/team/shop!3"));
        let none = [
            "fix #12",
            "acme/shop#1 and acme/shop#2",
            "as in ```\nacme/shop#12\n```",
            "https://x.io/a/issues/1",
        ];
        for prompt in none {
            assert_eq!(issue(prompt), None, "{prompt}");
        }
    }
}
