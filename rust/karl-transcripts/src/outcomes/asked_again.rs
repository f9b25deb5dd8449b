//! Attempts at one task: sessions in which a user made a request again, forks, sessions on one issue, sub-agents.

use std::collections::HashMap;
use std::path::PathBuf;

use karl_log::format::Component;

use super::groups::TrajectoryGroups;
use super::judged_trajectory::JudgedTrajectory;
use super::outcome::Evidence;
use super::request::Request;

/// Seconds within which a request counts as made again.
const WITHIN: i64 = 24 * 3600;

/// Set `asked_again` of the sessions `at`, and join those with one request.
pub(super) fn asked_again(sessions: &mut [JudgedTrajectory], at: &[usize], groups: &mut TrajectoryGroups) {
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
            set(sessions, at, later.map(|(_, later)| *later));
        }
    }
}

fn set(sessions: &mut [JudgedTrajectory], at: usize, later: Option<usize>) {
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
    sessions: &[JudgedTrajectory],
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
