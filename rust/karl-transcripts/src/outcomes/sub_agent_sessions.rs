//! Sessions with their sub-agents: what a sub-agent edits is work of its session.

use std::collections::HashMap;

use super::checks::CHECKS;
use super::judged_trajectory::JudgedTrajectory;

/// Session of each trajectory: itself, or the one that called it.
pub(super) struct Families(Vec<usize>);

impl Families {
    /// Find the session of every trajectory.
    pub(super) fn of(sessions: &[JudgedTrajectory]) -> Self {
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
    pub(super) fn void_checks(&self, sessions: &mut [JudgedTrajectory]) {
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
