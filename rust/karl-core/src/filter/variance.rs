//! The groups that hold most of the variance of reward.

use super::groups::differing;
use super::{MaskReason, each_reason};
use crate::check::{check_length, check_most, check_not_infinite, check_range};
use crate::error::{Error, Result};
use crate::group::Groups;
use crate::numeric::Real;
use crate::numeric::sum::{Compensated, sum};

/// Number of groups to keep, of those with differing rewards, largest variance first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TopGroups {
    /// The fewest that hold this share of the sum of the variances, in [0, 1]; 1 keeps all that have any.
    Share(f64),
    /// This many.
    Count(usize),
}

/// Keep the groups with the largest variance of rewards.
///
/// ```text
/// v_g = sum_i (r_i - mean_g)^2 / (n_g - ddof),   v_(1) >= v_(2) >= ...
/// share p:  the smallest m with v_(1) + ... + v_(m) >= p * sum_g v_g          count k:  m = k
/// ```
///
/// Groups of equal variance are in order of first appearance. A group of equal rewards has variance exactly 0 and is
/// never kept. Shapes: rewards `[B]`. Cost: three passes, and a sort of the groups.
/// Reference: RAGEN-2 (2026), which filters prompts by the variance of their reward.
///
/// # Errors
/// [`Error::NotFinite`] for an infinite reward, and for a variance beyond f64; [`Error::Range`] for a share outside
/// [0, 1]; [`Error::Most`] for a `ddof` above 1; [`Error::Length`] where rewards and groups differ in rows.
pub fn top<R: Real>(
    rewards: &[R],
    groups: &Groups,
    top: TopGroups,
    ddof: u8,
    threads: usize,
) -> Result<Vec<MaskReason>> {
    check_length("rewards", rewards.len(), groups.rows())?;
    check_not_infinite("rewards", rewards)?;
    check_most("ddof", usize::from(ddof), 1)?;
    let differ = differing(rewards, groups, threads);
    let kept = keep_groups(rewards, groups, &differ, top, ddof, threads)?;
    let verdict = |(differ, kept): (bool, bool)| match (differ, kept) {
        (_, true) => MaskReason::Kept,
        (true, false) => MaskReason::LowVariance,
        (false, false) => MaskReason::ConstantGroup,
    };
    let verdicts: Vec<MaskReason> = differ.into_iter().zip(kept).map(verdict).collect();
    let reason = |row: usize| match groups.code(row) {
        None => MaskReason::MissingGroup,
        _ if rewards[row].widen().is_nan() => MaskReason::MissingReward,
        Some(group) => verdicts[group],
    };
    Ok(each_reason(rewards.len(), threads, reason))
}

/// Return whether each group is kept; `differ` is whether its present rewards differ.
pub(super) fn keep_groups<R: Real>(
    rewards: &[R],
    groups: &Groups,
    differ: &[bool],
    top: TopGroups,
    ddof: u8,
    threads: usize,
) -> Result<Vec<bool>> {
    choose_groups(&variances(rewards, groups, differ, ddof, threads)?, top)
}

/// Return the variance of each group by two compensated passes; exactly 0 where the rewards are equal.
fn variances<R: Real>(
    rewards: &[R],
    groups: &Groups,
    differ: &[bool],
    ddof: u8,
    threads: usize,
) -> Result<Vec<f64>> {
    let totals = groups.fold(threads, (0.0, Compensated::default()), |(count, total), _, row| {
        let reward = rewards[row].widen();
        if !reward.is_nan() {
            *count += 1.0;
            total.add(reward);
        }
    });
    let squares = groups.fold(threads, Compensated::default(), |total, group, row| {
        let deviation = rewards[row].widen() - totals[group].1.value() / totals[group].0;
        if !deviation.is_nan() {
            total.add(deviation * deviation);
        }
    });
    let variance = |group: usize| {
        if differ[group] { squares[group].value() / (totals[group].0 - f64::from(ddof)) } else { 0.0 }
    };
    let variances: Vec<f64> = (0..groups.len()).map(variance).collect();
    match variances.iter().position(|variance| !variance.is_finite()) {
        Some(index) => Err(Error::NotFinite { what: "variance of group", index, value: variances[index] }),
        None => Ok(variances),
    }
}

/// Return for each group whether it is kept.
fn choose_groups(variances: &[f64], top: TopGroups) -> Result<Vec<bool>> {
    let mut order: Vec<usize> = (0..variances.len()).filter(|&group| variances[group] > 0.0).collect();
    order.sort_by(|&a, &b| variances[b].total_cmp(&variances[a]));
    let count = match top {
        TopGroups::Count(count) => count.min(order.len()),
        TopGroups::Share(share) => {
            check_range("p", share, 0.0, 1.0)?;
            prefix(order.iter().map(|&group| variances[group]), share)
        }
    };
    let mut kept = vec![false; variances.len()];
    order[..count].iter().for_each(|&group| kept[group] = true);
    Ok(kept)
}

/// Return the length of the shortest beginning of `sorted` that holds a share of its sum.
fn prefix(sorted: impl ExactSizeIterator<Item = f64> + Clone, share: f64) -> usize {
    if share >= 1.0 {
        return sorted.len(); // the last groups may be too small to change the sum
    }
    let wanted = share * sum(sorted.clone());
    let mut held = Compensated::default();
    sorted
        .take_while(|&variance| {
            let short = held.value() < wanted;
            held.add(variance);
            short
        })
        .count()
}
