//! Trajectories with one request: sessions in which a user made it again, forks, and sub-agents of one session.

use std::collections::HashMap;
use std::path::PathBuf;

use super::component::Component;
use super::judged::Session;
use super::outcome::Evidence;
use super::request::Request;

/// Seconds within which a request counts as made again.
const WITHIN: i64 = 24 * 3600;

/// Set `asked_again` of the sessions `at`, and the group of those with one request.
pub(super) fn asked_again(sessions: &mut [Session], at: &[usize]) {
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
            join(sessions, run.iter().map(|(_, at)| *at));
        }
        for &(start, at) in &*times {
            // A fork begins with the lines of its session, at the same time: the user did not ask again.
            let later = times.iter().find(|(time, _)| *time > start && time - start <= WITHIN);
            set(sessions, at, later.map(|(_, later)| *later));
        }
    }
}

fn set(sessions: &mut [Session], at: usize, later: Option<usize>) {
    let (value, why) = match later {
        Some(later) => (1.0, format!("session {} begins with the same request", sessions[later].work.id)),
        None => (0.0, "no session within a day begins with the same request".to_owned()),
    };
    sessions[at].outcome.set(Component::AskedAgain, value, Evidence { why, ..Evidence::default() });
}

/// Set one group for the sub-agents `at` that one trajectory called with one request.
pub(super) fn called_alike(sessions: &mut [Session], at: &[usize]) {
    let mut same: HashMap<(Request, String), Vec<usize>> = HashMap::new();
    for &at in at {
        if let (Some(request), Some(parent)) = (sessions[at].request.clone(), sessions[at].parent.clone()) {
            same.entry((request, parent)).or_default().push(at);
        }
    }
    for members in same.into_values() {
        join(sessions, members.into_iter());
    }
}

/// Set one group for several trajectories: the first's, or its id.
fn join(sessions: &mut [Session], members: impl Iterator<Item = usize> + Clone) {
    if members.clone().nth(1).is_none() {
        return;
    }
    let group = members.clone().find_map(|at| sessions[at].group.clone());
    let first = members.clone().next().map(|at| sessions[at].work.id.clone());
    for at in members {
        sessions[at].group = group.clone().or_else(|| first.clone());
    }
}
