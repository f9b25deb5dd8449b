//! Number of constant groups, and their levels of reward.

use crate::advantage::engine::constant_groups::ConstantGroups;
use crate::check::check_length;
use crate::error::Result;
use crate::group::Groups;
use crate::numeric::float::differ;
use crate::numeric::parallel;

/// Number of groups without a difference in reward, and their levels of reward.
///
/// Only groups with two or more present rewards count. A log with most groups at the top is too easy, one with most
/// groups at the bottom too hard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConstantCount {
    /// Groups with two or more present rewards.
    pub groups: usize,
    /// Constant groups at the largest reward of the log.
    pub all_max: usize,
    /// Constant groups at the smallest reward of the log.
    pub all_min: usize,
    /// Constant groups in between; all of them where the log has one reward only, for there top is bottom.
    pub other: usize,
}

impl ConstantCount {
    /// Constant groups, wherever they sit.
    #[must_use]
    pub const fn constant(self) -> usize {
        self.all_max + self.all_min + self.other
    }

    fn add(&mut self, reward: f64, min: f64, max: f64) {
        match reward {
            _ if !differ(min, max) => self.other += 1,
            _ if !differ(reward, max) => self.all_max += 1,
            _ if !differ(min, reward) => self.all_min += 1,
            _ => self.other += 1,
        }
    }
}

/// Count constant groups among those with two or more present rewards. Cost: linear.
///
/// # Errors
/// [`Error::Length`](crate::Error::Length) where the columns differ in rows.
pub fn constant_groups(rewards: &[f64], groups: &Groups, threads: usize) -> Result<ConstantCount> {
    check_length("rewards", rewards.len(), groups.rows())?;
    Ok(count_constant(rewards, &ConstantGroups::of(rewards, groups, threads), threads))
}

/// Return the same where it is known which groups are constant.
pub(crate) fn count_constant(rewards: &[f64], constancy: &ConstantGroups, threads: usize) -> ConstantCount {
    let (min, max) = parallel::map(rewards.len(), threads, |rows| range(&rewards[rows]))
        .into_iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), (low, high)| (min.min(low), max.max(high)));
    let mut count = ConstantCount { groups: constancy.comparable(), ..ConstantCount::default() };
    constancy.rewards().for_each(|reward| count.add(reward, min, max));
    count
}

fn range(rewards: &[f64]) -> (f64, f64) {
    let present = rewards.iter().filter(|reward| !reward.is_nan());
    present.fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), &r| (r.min(min), r.max(max)))
}
