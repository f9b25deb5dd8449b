//! Requests that a user made again in a new session.

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
        for at in 0..times.len() {
            let (start, session) = times[at];
            let next = times.get(at + 1).filter(|(next, _)| next - start <= WITHIN);
            let (value, why) = match next {
                Some(&(_, next)) => {
                    (1.0, format!("session {} begins with the same request", sessions[next].work.id))
                }
                None => (0.0, "no session within a day begins with the same request".to_owned()),
            };
            sessions[session].outcome.set(
                Component::AskedAgain,
                value,
                Evidence { why, ..Evidence::default() },
            );
            if let Some(&(_, next)) = next {
                let first =
                    sessions[session].group.clone().unwrap_or_else(|| sessions[session].work.id.clone());
                sessions[next].group = Some(first.clone());
                sessions[session].group = Some(first);
            }
        }
    }
}
