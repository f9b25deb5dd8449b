//! The rules of the pipeline: every row gets one [`Verdict`], so rows read = rows kept + rows dropped by name.
//!
//! Rules run in a fixed order, and a row counts under the first that drops it:
//!
//! ```text
//! missing reward -> missing group -> missing log-weight -> duplicate -> below minimum -> constant group, group of one
//! -> low variance -> (draw) -> over group cap
//! ```
//!
//! Rows have to come in the canonical order of their ids, not in file order: where "the first stays", the
//! order decides, and a draw may not depend on how a log was cut into files.

use std::collections::HashMap;
use std::ops::Range;

use super::variance::{self, TopGroups};
use crate::advantage::engine::constant_groups::ConstantGroups;
use crate::check::{check_finite, check_length};
use crate::error::Result;
use crate::group::Groups;
use crate::numeric::{differ, parallel};

/// Verdict of the rules on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Verdict {
    /// It may be drawn.
    Kept,
    /// It has no reward.
    MissingReward,
    /// It has no group (or no scope) where one is needed.
    MissingGroup,
    /// It has no log-weight where those are given, or one of minus infinity.
    MissingLogWeight,
    /// A kept row of the same group before it has the same content.
    Duplicate,
    /// Its reward is below the minimum.
    BelowMinimum,
    /// All present rewards of its group, two or more, are equal.
    ConstantGroup,
    /// Its group has no other present reward.
    GroupOfOne,
    /// Its group is beyond those that hold the wanted share of the variance of rewards.
    LowVariance,
}

impl Verdict {
    /// All verdicts, in the order of the rules; `Verdict::ALL[v as usize] == v`.
    pub const ALL: [Self; 9] = [
        Self::Kept,
        Self::MissingReward,
        Self::MissingGroup,
        Self::MissingLogWeight,
        Self::Duplicate,
        Self::BelowMinimum,
        Self::ConstantGroup,
        Self::GroupOfOne,
        Self::LowVariance,
    ];

    /// Return the name used in manifests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::MissingReward => "missing_reward",
            Self::MissingGroup => "missing_group",
            Self::MissingLogWeight => "missing_log_weight",
            Self::Duplicate => "duplicate",
            Self::BelowMinimum => "below_minimum",
            Self::ConstantGroup => "constant_group",
            Self::GroupOfOne => "group_of_one",
            Self::LowVariance => "low_variance",
        }
    }
}

/// Count the rows of each verdict, in the order of [`Verdict::ALL`]. The counts add up to the rows.
#[must_use]
pub fn tally(verdicts: &[Verdict], threads: usize) -> [usize; 9] {
    let mut counts = [0; 9];
    let count = |rows: Range<usize>| {
        Verdict::ALL.map(|one| verdicts[rows.clone()].iter().filter(|&&verdict| verdict == one).count())
    };
    for block in parallel::map(verdicts.len(), threads, count) {
        counts.iter_mut().zip(block).for_each(|(count, more)| *count += more);
    }
    counts
}

/// The rules a user can ask for. The default drops nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rules {
    /// Rows with a smaller reward are dropped.
    pub min_reward: Option<f64>,
    /// Rows of groups without any difference in reward are dropped (DAPO), and so are groups of one.
    pub drop_constant_groups: bool,
    /// Rows of groups beyond the fewest that hold this share of the variance of rewards are dropped (RAGEN-2), after the
    /// constant groups, which hold none.
    pub variance_top_p: Option<f64>,
    /// Of rows with one content in one group, the first stays.
    pub dedup: bool,
}

impl Rules {
    /// Mark rows under the rules that look at rows alone: duplicate, below minimum, constant group.
    ///
    /// `fingerprints` are needed for `dedup` only. Shapes: all `[B]`. Cost: linear, and one sort for `dedup`.
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length) for columns that differ in rows, or `dedup` without fingerprints;
    /// [`Error::NotFinite`](crate::Error::NotFinite) for a minimum that is not finite; else as
    /// [`variance::top`].
    pub fn mark(
        &self,
        verdicts: &mut [Verdict],
        rewards: &[f64],
        groups: &Groups,
        fingerprints: Option<&[u128]>,
        threads: usize,
    ) -> Result<()> {
        check_length("verdicts", verdicts.len(), rewards.len())?;
        check_length("groups", groups.rows(), rewards.len())?;
        let needed = self.drop_constant_groups || self.variance_top_p.is_some();
        let constancy =
            if needed { ConstantGroups::of(rewards, groups, threads) } else { ConstantGroups::default() };
        self.mark_with(verdicts, rewards, groups, fingerprints, &constancy, threads)
    }

    /// The same where it is known which groups are constant.
    pub(crate) fn mark_with(
        &self,
        verdicts: &mut [Verdict],
        rewards: &[f64],
        groups: &Groups,
        fingerprints: Option<&[u128]>,
        constancy: &ConstantGroups,
        threads: usize,
    ) -> Result<()> {
        if self.dedup {
            duplicate(verdicts, fingerprints.unwrap_or_default(), groups)?;
        }
        if let Some(minimum) = self.min_reward {
            below_minimum(verdicts, rewards, minimum, threads)?;
        }
        if self.drop_constant_groups || self.variance_top_p.is_some() {
            mark_constant(verdicts, groups, constancy, threads);
        }
        if let Some(share) = self.variance_top_p {
            mark_low_variance(verdicts, rewards, groups, share, constancy, threads)?;
        }
        Ok(())
    }
}

/// Mark rows with a reward of NaN.
///
/// # Errors
/// [`Error::Length`](crate::Error::Length) where the columns differ in rows.
pub fn missing_reward(verdicts: &mut [Verdict], rewards: &[f64], threads: usize) -> Result<()> {
    check_length("rewards", rewards.len(), verdicts.len())?;
    mark(verdicts, Verdict::MissingReward, threads, |row| rewards[row].is_nan());
    Ok(())
}

/// Mark rows without a group.
///
/// # Errors
/// [`Error::Length`](crate::Error::Length) where the columns differ in rows.
pub fn missing_group(verdicts: &mut [Verdict], groups: &Groups, threads: usize) -> Result<()> {
    check_length("groups", groups.rows(), verdicts.len())?;
    mark(verdicts, Verdict::MissingGroup, threads, |row| groups.code(row).is_none());
    Ok(())
}

/// Mark rows with a log-weight of NaN or minus infinity.
///
/// # Errors
/// [`Error::Length`](crate::Error::Length) where the columns differ in rows.
pub fn missing_log_weight(verdicts: &mut [Verdict], log_weights: &[f64], threads: usize) -> Result<()> {
    check_length("log_weights", log_weights.len(), verdicts.len())?;
    mark(verdicts, Verdict::MissingLogWeight, threads, |row| {
        log_weights[row].is_nan() || log_weights[row] == f64::NEG_INFINITY
    });
    Ok(())
}

/// Mark each row that has the fingerprint of an earlier kept row of the same group.
///
/// Rows without a group are compared among themselves. A row dropped by an earlier rule is not an original: its
/// copy stays. Cost: one sort of the kept rows.
///
/// # Errors
/// [`Error::Length`](crate::Error::Length) where the columns differ in rows.
pub fn duplicate(verdicts: &mut [Verdict], fingerprints: &[u128], groups: &Groups) -> Result<()> {
    check_length("fingerprints", fingerprints.len(), verdicts.len())?;
    check_length("groups", groups.rows(), verdicts.len())?;
    let of = |row: u32| (groups.code(row as usize), fingerprints[row as usize]);
    let kept = (0..).zip(&*verdicts).filter(|&(_, &verdict)| verdict == Verdict::Kept);
    let mut sorted: Vec<u32> = kept.map(|(row, _)| row).collect();
    sorted.sort_unstable_by_key(|&row| (of(row), row));
    for run in sorted.chunk_by(|&a, &b| of(a) == of(b)) {
        run[1..].iter().for_each(|&row| verdicts[row as usize] = Verdict::Duplicate);
    }
    Ok(())
}

/// Return the number of rows marked as duplicates that have another reward than the row kept in their place.
///
/// Shapes: all `[B]`. Cost: linear.
///
/// # Errors
/// [`Error::Length`](crate::Error::Length) where the columns differ in rows.
pub fn count_other_rewards(
    verdicts: &[Verdict],
    fingerprints: &[u128],
    groups: &Groups,
    rewards: &[f64],
) -> Result<u64> {
    check_length("fingerprints", fingerprints.len(), verdicts.len())?;
    check_length("groups", groups.rows(), verdicts.len())?;
    check_length("rewards", rewards.len(), verdicts.len())?;
    let of = |row: usize| (groups.code(row), fingerprints[row]);
    let is_copy = |row: &usize| verdicts[*row] == Verdict::Duplicate;
    let is_original = |row: &usize| !is_copy(row) && !rewards[*row].is_nan();
    let mut kept: HashMap<_, f64> = HashMap::new();
    for row in (0..verdicts.len()).filter(is_original) {
        kept.entry(of(row)).or_insert(rewards[row]);
    }
    let differs =
        |row: &usize| kept.get(&of(*row)).is_some_and(|reward| reward.to_bits() != rewards[*row].to_bits());
    Ok((0..verdicts.len()).filter(is_copy).filter(differs).count() as u64)
}

/// Mark rows with a reward less than `minimum`.
///
/// # Errors
/// [`Error::NotFinite`](crate::Error::NotFinite) for a minimum that is not finite;
/// [`Error::Length`](crate::Error::Length) where the columns differ in rows.
pub fn below_minimum(verdicts: &mut [Verdict], rewards: &[f64], minimum: f64, threads: usize) -> Result<()> {
    check_length("rewards", rewards.len(), verdicts.len())?;
    check_finite("min_reward", &[minimum])?;
    mark(verdicts, Verdict::BelowMinimum, threads, |row| rewards[row] < minimum);
    Ok(())
}

/// Mark rows of groups with equal present rewards.
///
/// A group is judged by all its present rewards in the log, including those of rows that other rules dropped. A group
/// of one has advantage 0 and is marked too. A row without a group is not marked. Cost: linear.
///
/// # Errors
/// [`Error::Length`](crate::Error::Length) where the columns differ in rows.
pub fn constant_group(
    verdicts: &mut [Verdict],
    rewards: &[f64],
    groups: &Groups,
    threads: usize,
) -> Result<()> {
    check_length("rewards", rewards.len(), verdicts.len())?;
    check_length("groups", groups.rows(), verdicts.len())?;
    mark_constant(verdicts, groups, &ConstantGroups::of(rewards, groups, threads), threads);
    Ok(())
}

fn mark_constant(verdicts: &mut [Verdict], groups: &Groups, constancy: &ConstantGroups, threads: usize) {
    let constant = |row| groups.code(row).filter(|&group| constancy.is_constant(group));
    mark(verdicts, Verdict::GroupOfOne, threads, |row| {
        constant(row).is_some_and(|group| !constancy.is_comparable(group))
    });
    mark(verdicts, Verdict::ConstantGroup, threads, |row| constant(row).is_some());
}

/// Mark rows of groups beyond the fewest that hold a share of the variance of rewards, with `ddof` 0.
///
/// A group is judged by all its present rewards in the log, as [`constant_group`] does; a row without a group is not
/// marked.
fn mark_low_variance(
    verdicts: &mut [Verdict],
    rewards: &[f64],
    groups: &Groups,
    share: f64,
    constancy: &ConstantGroups,
    threads: usize,
) -> Result<()> {
    let differ: Vec<bool> = (0..groups.len()).map(|group| !constancy.is_constant(group)).collect();
    let kept = variance::keep_groups(rewards, groups, &differ, TopGroups::Share(share), 0, threads)?;
    mark(verdicts, Verdict::LowVariance, threads, |row| groups.code(row).is_some_and(|group| !kept[group]));
    Ok(())
}

/// Set `verdict` on kept rows for which `drops` holds.
fn mark(verdicts: &mut [Verdict], verdict: Verdict, threads: usize, drops: impl Fn(usize) -> bool + Sync) {
    parallel::fill(verdicts, threads, |first, block| {
        for (row, given) in (first..).zip(block) {
            if *given == Verdict::Kept && drops(row) {
                *given = verdict;
            }
        }
    });
}

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
