//! Groups of trajectories that are attempts at one task.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use super::judged_trajectory::JudgedTrajectory;

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
    pub(super) fn name(mut self, sessions: &mut [JudgedTrajectory]) {
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
