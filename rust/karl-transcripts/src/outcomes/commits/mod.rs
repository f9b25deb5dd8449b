//! Outcomes from git: which commits a session made, and what became of them.
//!
//! ```text
//! git::history ──► attribute ──► survival   blame at the horizon
//! commits          sessions'     reverts    by message or inverse patch
//! files            lines         merges     pull requests
//! ```
//!
//! Each commit is read once for all sessions.

mod attribute;
mod comparison;
mod survival;

use std::collections::{HashMap, HashSet};
use std::path::Path;

use karl_log::cancel::Watch;
use karl_log::format::Component;
use karl_log::parallel;

use self::attribute::{Attribution, AttributionRule};
use self::comparison::Comparison;
use self::survival::{Fate, Reverts, find_fate};
use super::outcome::{Attributed, Evidence, Outcome};
use crate::git::history::{At, History, PullRequest, merge};
use crate::git::repository::{Refusal, Repository};
use crate::tool_calls::SessionWork;

/// Settings of a comparison.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Time after a commit at which it is judged, in seconds.
    pub after: i64,
    /// Pull requests that `gh` saved.
    pub pull_requests: Vec<PullRequest>,
    /// Number of threads.
    pub threads: usize,
}

/// Days before a commit is judged, unless the user says otherwise.
const DAYS: i64 = 14;
const DAY: i64 = 86_400;

impl Default for Settings {
    fn default() -> Self {
        Self { after: DAYS * DAY, pull_requests: Vec::new(), threads: 1 }
    }
}

/// Compare sessions with a repository, or any folder inside of one; return what it shows of each session.
///
/// # Errors
/// If the repository cannot be read, or `watch` is stopped.
pub fn compare(
    path: &Path,
    sessions: &[&SessionWork],
    settings: &Settings,
    watch: &Watch,
) -> Result<Vec<Outcome>, Refusal> {
    let repository = Repository::open(path, watch)?;
    let threads = settings.threads;
    let first = sessions.iter().filter_map(|session| session.start).min().unwrap_or_default();
    let history = History::read(&repository, first - DAY, threads)?;
    let mut all = Comparison::read(&repository, history, sessions, settings.after, threads)?;
    let attributed = parallel::map((0..sessions.len()).collect(), threads, |session| all.attribute(session));
    let commits: HashSet<At> = attributed.iter().flatten().map(|attribution| attribution.at).collect();
    let reverts = Reverts::find(&repository, &mut all, &commits, threads)?;
    let fates = find_fates(&repository, &all, &commits, threads)?;
    let findings = Findings { all, reverts, fates, requests: &settings.pull_requests };
    Ok(attributed.iter().enumerate().map(|(session, commits)| findings.outcome(session, commits)).collect())
}

/// Find out what became of each commit.
fn find_fates(
    repository: &Repository<'_>,
    all: &Comparison<'_>,
    commits: &HashSet<At>,
    threads: usize,
) -> Result<HashMap<At, Fate>, Refusal> {
    let mut commits: Vec<At> = commits.iter().copied().collect();
    commits.sort_unstable();
    let one = |at: At| find_fate(repository, all, at).map(|fate| fate.map(|fate| (at, fate)));
    let fates: Result<Vec<_>, Refusal> = parallel::map(commits, threads, one).into_iter().collect();
    Ok(fates?.into_iter().flatten().collect())
}

/// What a repository shows of all sessions.
struct Findings<'s> {
    all: Comparison<'s>,
    reverts: Reverts,
    fates: HashMap<At, Fate>,
    requests: &'s [PullRequest],
}

impl Findings<'_> {
    fn history(&self) -> &History {
        &self.all.history
    }

    fn evidence(&self, at: At, why: String) -> Evidence {
        Evidence { commit: Some(self.history().commits[at].hash.clone()), why, ..Evidence::default() }
    }

    /// Return the outcome of a session.
    fn outcome(&self, session: usize, commits: &[Attribution]) -> Outcome {
        let mut outcome = Outcome::default();
        let attributed = commits.iter().map(|one| Attributed {
            commit: self.history().commits[one.at].hash.clone(),
            rule: one.rule.name(),
            lines: one.lines as u64,
        });
        outcome.attributed.extend(attributed);
        self.set_committed(session, commits, &mut outcome);
        self.set_merged(commits, &mut outcome);
        self.set_reverted(commits, &mut outcome);
        self.set_survived(session, commits, &mut outcome);
        outcome
    }

    fn set_committed(&self, session: usize, commits: &[Attribution], outcome: &mut Outcome) {
        if let Some(strongest) = commits.iter().min_by_key(|one| one.rule) {
            let why = format!("{}: {} lines of the session", strongest.rule.name(), strongest.lines);
            outcome.set(Component::Committed, 1.0, self.evidence(strongest.at, why));
        } else if self.is_lost(session) {
            let why = "no commit within the time has a line that the session wrote or removed".to_owned();
            outcome.set(Component::Committed, 0.0, Evidence { why, ..Evidence::default() });
        }
    }

    /// Return whether a session edited files of the repository, and its lines are nowhere in the history.
    fn is_lost(&self, session: usize) -> bool {
        let lines = &self.all.lines[session];
        let has_passed = |end: i64| end + self.all.after <= self.history().newest;
        lines.is_in_repository()
            && lines.distinctive() > 0
            && self.all.sessions[session].end.is_some_and(has_passed)
            && !self.all.has_a_trace(session)
    }

    fn set_merged(&self, commits: &[Attribution], outcome: &mut Outcome) {
        let merges =
            commits.iter().filter_map(|one| Some((one.at, merge(self.history(), self.requests, one.at)?)));
        if let Some((at, merge)) = merges.max_by(|(_, one), (_, other)| one.value.total_cmp(&other.value)) {
            outcome.set(Component::Merged, merge.value, self.evidence(at, merge.why));
        }
    }

    fn set_reverted(&self, commits: &[Attribution], outcome: &mut Outcome) {
        let Some(last) = commits.last() else { return };
        let reverts = commits.iter().find_map(|one| self.reverts.of(self.history(), one.at));
        if let Some(revert) = reverts {
            outcome.set(Component::Reverted, 1.0, self.evidence(revert.by, revert.why.to_owned()));
        } else {
            let why = "no later commit takes one of the session back".to_owned();
            outcome.set(Component::Reverted, 0.0, self.evidence(last.at, why));
        }
    }

    fn set_survived(&self, session: usize, commits: &[Attribution], outcome: &mut Outcome) {
        let mut evidence = Vec::new();
        let (mut standing, mut written) = (0, 0);
        for one in commits {
            let Some(fate) = self.fates.get(&one.at) else { continue };
            let (stand, of) = self.count(session, one.at, fate);
            if of > 0 {
                (standing, written) = (standing + stand, written + of);
                let horizon = &self.history().commits[fate.horizon].hash;
                let by = if one.rule == AttributionRule::Content { ", found by content" } else { "" };
                let why = format!("{stand} of {of} lines exist in {horizon}{by}");
                evidence.push(Evidence {
                    component: "survived",
                    value: ratio(stand, of),
                    ..self.evidence(one.at, why)
                });
            }
        }
        if written > 0 {
            let why = format!("{standing} of {written} lines in all");
            outcome.evidence.extend(evidence);
            outcome.set(
                Component::Survived,
                ratio(standing, written),
                Evidence { why, ..Evidence::default() },
            );
        }
    }

    /// Count the lines of a commit that a session wrote, those that exist and all.
    fn count(&self, session: usize, at: At, fate: &Fate) -> (usize, usize) {
        let (lines, by) = (&self.all.lines[session], self.history().commits[at].time);
        let all = fate
            .lines
            .iter()
            .flat_map(|(&file, all)| all.iter().map(move |&(line, stands)| (file, line, stands)));
        let ours = all.filter(|&(file, line, _)| lines.wrote(file, line, by));
        ours.fold((0, 0), |(stand, of), (_, _, stands)| (stand + usize::from(stands), of + 1))
    }
}

fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}
