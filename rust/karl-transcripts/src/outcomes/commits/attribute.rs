//! Attribution of commits to sessions.

use std::collections::{HashMap, HashSet};

use super::comparison::{Comparison, SLACK};
use crate::git::history::{At, session_ids};
use crate::git::patch::{FileChange, LineHash, Patch};
use crate::tool_calls::{NamedCommit, SessionWork};

/// Rule that attributed a commit, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AttributionRule {
    /// A trailer of the commit names the session.
    Trailer,
    /// The output of `git commit` in the session names the commit.
    Output,
    /// The output of `git commit` names a commit with the same patch or subject, which a rebase replaced.
    Rebased,
    /// The commit is of the time of the session, and has lines that it wrote.
    TimeAndFiles,
    /// The commit is later, as after a squash, and has mostly lines of the session, or most of its lines.
    Content,
}

impl AttributionRule {
    /// Return the name in records.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Trailer => "trailer",
            Self::Output => "output",
            Self::Rebased => "rebased",
            Self::TimeAndFiles => "time_and_files",
            Self::Content => "content",
        }
    }
}

/// Commit of a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attribution {
    /// Commit.
    pub(super) at: At,
    /// Rule.
    pub(super) rule: AttributionRule,
    /// Number of its lines that the session wrote.
    pub(super) lines: usize,
}

/// Smallest share of a commit's lines by which it is a session's, within its time.
const SHARE: f64 = 0.1;

/// Smallest share later on, of the commit's lines or of the session's, and the fewest lines for each.
const LATE_SHARE: f64 = 0.5;
const LATE_LINES: usize = 5;
const LATE_LINES_OF_SESSION: usize = 10;

/// Lines of a commit that a session wrote.
#[derive(Clone, Copy, Debug, Default)]
struct Overlap {
    /// Distinctive lines of the session.
    ours: usize,
    /// Distinctive lines of the commit.
    of: usize,
    /// All lines of the session.
    lines: usize,
}

impl Overlap {
    fn share(self) -> f64 {
        if self.of == 0 { 0.0 } else { self.ours as f64 / self.of as f64 }
    }
}

impl Comparison<'_> {
    /// Return the commits of a session, oldest first.
    pub(super) fn attribute(&self, session: usize) -> Vec<Attribution> {
        let mut rules: HashMap<At, AttributionRule> = HashMap::new();
        for (at, rule) in self.named(session).into_iter().chain(self.in_time(session)) {
            rules.entry(at).and_modify(|known| *known = rule.min(*known)).or_insert(rule);
        }
        for at in self.later(session, &rules) {
            rules.insert(at, AttributionRule::Content);
        }
        let with_lines = |(at, rule)| Attribution { at, rule, lines: self.overlap(session, at).lines };
        let mut all: Vec<Attribution> = rules.into_iter().map(with_lines).collect();
        all.sort_unstable_by_key(|attribution| std::cmp::Reverse(attribution.at));
        all
    }

    /// Return the commits that a trailer or an output names.
    fn named(&self, session: usize) -> Vec<(At, AttributionRule)> {
        let session = self.sessions[session];
        let is_ours = |id: &str| id == session.id || session.trailers.iter().any(|known| known == id);
        let commits = self.history.commits.iter().enumerate();
        let by_trailer = commits.filter(|(_, commit)| session_ids(&commit.message).any(is_ours));
        let mut all: Vec<(At, AttributionRule)> =
            by_trailer.map(|(at, _)| (at, AttributionRule::Trailer)).collect();
        for named in &session.named_commits {
            match self.history.find(&named.hash) {
                Some(at) => {
                    all.push((at, AttributionRule::Output));
                    all.extend(self.same_patch(at).map(|twin| (twin, AttributionRule::Rebased)));
                }
                None => {
                    all.extend(self.same_subject(session, named).map(|at| (at, AttributionRule::Rebased)));
                }
            }
        }
        all
    }

    /// Return the commits with the patch of another one.
    fn same_patch(&self, at: At) -> impl Iterator<Item = At> + '_ {
        let patch = self.patches.get(&at).filter(|patch| !patch.is_empty());
        let same = move |(twin, other): (&At, &Patch)| {
            (*twin != at && patch.is_some_and(|patch| patch.is_same_as(other))).then_some(*twin)
        };
        self.patches.iter().filter_map(same)
    }

    /// Return the commit that took the place of one that is gone: of its subject and time.
    fn same_subject(&self, session: &SessionWork, named: &NamedCommit) -> Option<At> {
        let is_same = |at: &At| {
            let commit = &self.history.commits[*at];
            commit.subject() == named.subject && is_within(session, commit.author_time)
        };
        (0..self.history.commits.len()).find(is_same)
    }

    /// Return the commits of the time of a session with lines that it wrote.
    fn in_time(&self, session: usize) -> Vec<(At, AttributionRule)> {
        let work = self.sessions[session];
        let is_ours = |&at: &At| {
            let commit = &self.history.commits[at];
            (is_within(work, commit.author_time) || is_within(work, commit.time))
                && self.overlap(session, at).share() >= SHARE
        };
        self.patches.keys().copied().filter(is_ours).map(|at| (at, AttributionRule::TimeAndFiles)).collect()
    }

    /// Return later commits with what the session wrote, as a squash leaves them, unless the trunk has it in
    /// an earlier commit of the session.
    fn later(&self, session: usize, known: &HashMap<At, AttributionRule>) -> Vec<At> {
        let work = self.sessions[session];
        let Some(end) = work.end else { return Vec::new() };
        let on_trunk = known.keys().copied().filter(|&at| self.history.commits[at].landed.is_some());
        let mut seen: HashSet<LineHash> = on_trunk.flat_map(|at| self.ours(session, at)).collect();
        let wrote = self.lines[session].distinctive();
        let mut late: Vec<At> = self.patches.keys().copied().collect();
        late.sort_unstable_by_key(|&at| std::cmp::Reverse(at));
        late.retain(|at| {
            let commit = &self.history.commits[*at];
            let is_late = commit.time > end && commit.time <= end + self.after;
            if known.contains_key(at) || !is_late || commit.landed.is_none() {
                return false;
            }
            let ours: HashSet<LineHash> = self.ours(session, *at).difference(&seen).copied().collect();
            let of = self.overlap(session, *at).of;
            let is_ours = ours.len() >= LATE_LINES && ours.len() as f64 >= LATE_SHARE * of as f64
                || ours.len() >= LATE_LINES_OF_SESSION && ours.len() as f64 >= LATE_SHARE * wrote as f64;
            if is_ours {
                seen.extend(ours);
            }
            is_ours
        });
        late
    }

    /// Return the distinctive lines of a commit that a session wrote; of one that adds none, those that it removed.
    fn ours(&self, session: usize, at: At) -> HashSet<LineHash> {
        let (lines, by) = (&self.lines[session], self.history.commits[at].time);
        let of = |side: fn(&FileChange) -> &Vec<LineHash>| {
            let files = self.patches.get(&at).into_iter().flat_map(|patch| &patch.files);
            let all =
                files.flat_map(move |(&file, change)| side(change).iter().map(move |&line| (file, line)));
            all.filter(|&(file, line)| self.counts(file, line))
        };
        if of(|change| &change.added).next().is_some() {
            of(|change| &change.added)
                .filter(|&(file, line)| lines.wrote(file, line, by))
                .map(|(_, line)| line)
                .collect()
        } else {
            of(|change| &change.removed)
                .filter(|&(file, line)| lines.took(file, line, by))
                .map(|(_, line)| line)
                .collect()
        }
    }

    /// Count the lines of a commit that a session wrote; of one that adds none, those that it removed.
    fn overlap(&self, session: usize, at: At) -> Overlap {
        let Some(patch) = self.patches.get(&at) else { return Overlap::default() };
        let (lines, by) = (&self.lines[session], self.history.commits[at].time);
        let count = |side: fn(&FileChange) -> &Vec<LineHash>, is_ours: &dyn Fn(u32, LineHash) -> bool| {
            let mut overlap = Overlap::default();
            for (&file, change) in &patch.files {
                for &line in side(change) {
                    let (counts, ours) = (self.counts(file, line), is_ours(file, line));
                    overlap.of += usize::from(counts);
                    overlap.ours += usize::from(counts && ours);
                    overlap.lines += usize::from(ours);
                }
            }
            overlap
        };
        let added = count(|change| &change.added, &|file, line| lines.wrote(file, line, by));
        if added.of > 0 {
            added
        } else {
            count(|change| &change.removed, &|file, line| lines.took(file, line, by))
        }
    }

    /// Return whether a commit within the horizon adds a line that the session wrote, or removes one that it removed.
    pub(super) fn has_a_trace(&self, session: usize) -> bool {
        let lines = &self.lines[session];
        let removes = |at: At| {
            let (patch, by) = (&self.patches[&at], self.history.commits[at].time);
            let mut removed = patch
                .files
                .iter()
                .flat_map(|(&file, change)| change.removed.iter().map(move |&line| (file, line)));
            removed.any(|(file, line)| self.counts(file, line) && lines.took(file, line, by))
        };
        self.patches.keys().any(|&at| !self.ours(session, at).is_empty() || removes(at))
    }
}

/// Return whether a moment is in the span of a session, plus the time for the commit.
fn is_within(session: &SessionWork, time: i64) -> bool {
    session.start.is_some_and(|start| start <= time) && session.end.is_some_and(|end| time <= end + SLACK)
}
