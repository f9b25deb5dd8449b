//! What a row needs to know of the other rows of its log: a worse answer for a pair, or where labels change.

use karl_core::numeric::differ;
use karl_core::reward::midrange;
use karl_core::rng::{Purpose, uniform};

use super::SelectionValues;
use super::shape::Shape;
use crate::log::Log;

/// Facts about the rewards of a log, for the shapes that need them.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    /// Rows of each group with a reward, in ascending order of it. Empty unless rows are pairs.
    groups: Vec<Vec<(f64, u32)>>,
    /// Reward above which an answer is wanted; `None` if all are equal, or labels are not needed.
    pub(super) label_above: Option<f64>,
}

impl Comparison {
    /// Compare the rewards of a log as far as a shape needs it.
    pub(super) fn new(log: &Log, values: &SelectionValues<'_>, shape: Shape) -> Self {
        match shape {
            Shape::Preference => Self { groups: by_reward(log, values.rewards), label_above: None },
            Shape::Kto => Self { groups: Vec::new(), label_above: midrange(values.rewards) },
            _ => Self::default(),
        }
    }

    /// Return the row that is rejected in favour of another: one of its group with a lower reward, each with the same
    /// probability; `None` if there is none. It depends on the seed and the records alone.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count is neither negative nor above it"
    )]
    pub(super) fn rejected(&self, log: &Log, seed: u64, rewards: &[f64], row: u32) -> Option<u32> {
        if self.groups.is_empty() {
            return None;
        }
        let code = log.group.codes().get(row as usize).copied()?;
        let group = self.groups.get(code as usize)?;
        let reward = rewards.get(row as usize)?;
        let count = group.partition_point(|&(other, _)| differ(other, *reward));
        let u = uniform(seed, log.keys.get(row as usize), Purpose::Rejected);
        group[..count].get((u * count as f64) as usize).map(|&(_, row)| row)
    }

    /// Return whether an answer is wanted; `None` if that is unknown.
    pub(super) fn label(&self, reward: f64) -> Option<bool> {
        self.label_above.filter(|_| !reward.is_nan()).map(|above| reward > above)
    }
}

/// Return the rows of each group with a reward, in ascending order of it; rows of one reward are in the order of the
/// log, which is that of their ids.
fn by_reward(log: &Log, rewards: &[f64]) -> Vec<Vec<(f64, u32)>> {
    let mut groups = vec![Vec::new(); log.group.names().len()];
    for (row, (&code, &reward)) in (0..).zip(log.group.codes().iter().zip(rewards)) {
        // Rows without a group have a code of their own, behind the others.
        if let Some(group) = groups.get_mut(code as usize).filter(|_| reward.is_finite()) {
            group.push((reward, row));
        }
    }
    for group in &mut groups {
        group.sort_by(|left, right| left.0.total_cmp(&right.0));
    }
    groups
}
