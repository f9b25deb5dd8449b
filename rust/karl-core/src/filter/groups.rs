//! Groups that teach nothing, and what a filter leaves of the others.

use super::{MaskReason, each_reason};
use crate::check::{check_length, check_not_infinite};
use crate::error::{Error, Result};
use crate::group::Groups;
use crate::numeric::parallel::{self, ALONE, in_parts};
use crate::numeric::radix::{Buckets, Scratch, with_scratch};
use crate::numeric::{Real, differ};

/// The least and the largest present value of each group.
struct Ranges(Vec<[f64; 2]>);

impl Ranges {
    fn new(groups: usize) -> Self {
        Self(vec![[f64::INFINITY, f64::NEG_INFINITY]; groups])
    }

    /// Take a value in. A comparison with NaN is false, so that it changes nothing.
    #[inline]
    fn push(&mut self, group: usize, value: f64) {
        let [least, largest] = &mut self.0[group];
        *least = if value < *least { value } else { *least };
        *largest = if value > *largest { value } else { *largest };
    }

    fn merge(&mut self, other: &Self) {
        for ([least, largest], &[low, high]) in self.0.iter_mut().zip(&other.0) {
            (*least, *largest) = (least.min(low), largest.max(high));
        }
    }

    fn differing(&self) -> impl Iterator<Item = bool> {
        self.0.iter().map(|&[least, largest]| differ(least, largest))
    }
}

/// Groups of which one table is found in the second-level cache by any row.
const NEAR: usize = 1 << 14;

/// Return whether the present values of each group differ, which does not depend on the order of rows.
pub(super) fn differing<R: Real>(values: &[R], groups: &Groups, threads: usize) -> Vec<bool> {
    let threads = if values.len() < ALONE { 1 } else { threads.max(1) };
    if groups.len() <= NEAR {
        return compare_in_tables(values, groups, threads);
    }
    with_scratch(Scratch::default(), values.len(), |room| compare_in_buckets(values, groups, room, threads))
}

/// Compute by one table per thread, each for a part of the rows, while the tables together are no larger than the
/// column.
fn compare_in_tables<R: Real>(values: &[R], groups: &Groups, threads: usize) -> Vec<bool> {
    let rows = values.len();
    let mut parts = in_parts(rows, threads.min(rows / groups.len().max(1)), |rows| {
        let mut ranges = Ranges::new(groups.len());
        for row in rows {
            if let Some(group) = groups.code(row) {
                ranges.push(group, values[row].widen());
            }
        }
        ranges
    });
    let mut whole = parts.swap_remove(0);
    for part in &parts {
        whole.merge(part);
    }
    whole.differing().collect()
}

/// Compute by ranges of groups.
fn compare_in_buckets<R: Real>(
    values: &[R],
    groups: &Groups,
    room: Scratch<'_>,
    threads: usize,
) -> Vec<bool> {
    let mut bucketed = Buckets::new(values, groups.dense(), room, threads);
    let width = bucketed.width();
    let mut differs = vec![false; groups.len()];
    let mut ranges: Vec<_> = differs.chunks_mut(width).zip(bucketed.buckets()).collect();
    let share = ranges.len().div_ceil(threads).max(1);
    parallel::each(ranges.chunks_mut(share), |ranges| {
        for (differs, buckets) in ranges {
            let mut values = Ranges::new(differs.len());
            for bucket in buckets {
                let members = bucket.groups.iter().zip(&*bucket.values);
                members.for_each(|(&group, &value)| values.push(usize::from(group), value));
            }
            differs.iter_mut().zip(values.differing()).for_each(|(differs, differing)| *differs = differing);
        }
    });
    differs
}

/// Drop groups with equal outcomes (dynamic sampling), and mark those where shaped rewards hide that.
///
/// ```text
/// keep_i = max_g(outcome) - min_g(outcome) > 2^-43 max(|outcome|, 1/8),   g the group of i
/// ```
///
/// A group is judged by its *outcomes*, never by the reward after shaping: the length penalties of a group that
/// failed as a whole still differ, and a filter by the deviation of the shaped reward keeps it. With `rewards`, such
/// groups get [`MaskReason::PhantomGroup`]. Outcomes are equal up to rounding ([`differ`]). A group of one is constant.
/// Outcomes that are NaN are missing: left out of their group, and dropped. So are missing rewards, where those are given.
/// Shapes: all `[B]`. Cost: one pass a column, and one over the rows.
/// Reference: Yu et al. 2025, DAPO (arXiv:2503.14476), section 3.2.
///
/// # Errors
/// [`Error::NotFinite`] for an infinite outcome or reward;
/// [`Error::Length`] for columns that differ in rows.
pub fn constant<O: Real, R: Real>(
    outcomes: &[O],
    rewards: Option<&[R]>,
    groups: &Groups,
    threads: usize,
) -> Result<Vec<MaskReason>> {
    check_length("outcomes", outcomes.len(), groups.rows())?;
    check_not_infinite("outcomes", outcomes)?;
    let shaped = rewards.unwrap_or_default();
    if rewards.is_some() {
        check_length("rewards", shaped.len(), outcomes.len())?;
        check_not_infinite("rewards", shaped)?;
    }
    let looks =
        if rewards.is_some() { differing(shaped, groups, threads) } else { vec![false; groups.len()] };
    let verdict = |(differ, look): (bool, bool)| match (differ, look) {
        (true, _) => MaskReason::Kept,
        (false, true) => MaskReason::PhantomGroup,
        (false, false) => MaskReason::ConstantGroup,
    };
    // A byte a group: a look-up for each row stays in cache.
    let judged = differing(outcomes, groups, threads).into_iter();
    let verdicts: Vec<MaskReason> = judged.zip(looks).map(verdict).collect();
    let reason = |row: usize| match groups.code(row) {
        None => MaskReason::MissingGroup,
        _ if outcomes[row].widen().is_nan() => MaskReason::MissingOutcome,
        _ if shaped.get(row).is_some_and(|reward| reward.widen().is_nan()) => MaskReason::MissingReward,
        Some(group) => verdicts[group],
    };
    Ok(each_reason(outcomes.len(), threads, reason))
}

/// Keep groups of which some rollouts are right and some are not.
///
/// ```text
/// keep_i = 0 < #right_g < G_g
/// ```
///
/// [`constant`] over outcomes of 0 and 1, with a name for either end. A group of one is all right or all wrong.
/// Shapes: all `[B]`. Cost: two passes.
/// Reference: SAMPO (arXiv:2602.21534), the constraint of eq. 8; DAPO (arXiv:2503.14476), eq. 11.
///
/// # Errors
/// [`Error::Length`] for columns that differ in rows.
pub fn mixed(right: &[bool], groups: &Groups, threads: usize) -> Result<Vec<MaskReason>> {
    check_length("right", right.len(), groups.rows())?;
    let counts = groups.fold(threads, [0_usize; 2], |counts, _, row| counts[usize::from(right[row])] += 1);
    let reason = |row: usize| match groups.code(row).map(|group| counts[group]) {
        None => MaskReason::MissingGroup,
        Some([0, _]) => MaskReason::AllRight,
        Some([_, 0]) => MaskReason::AllWrong,
        Some(_) => MaskReason::Kept,
    };
    Ok(each_reason(right.len(), threads, reason))
}

/// Effect of a filter on the groups with a training signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Starved {
    /// Groups that had enough rollouts, and a difference in reward, before the filter.
    pub groups: usize,
    /// Those of them with too few rollouts after it.
    pub short: usize,
    /// Those with enough rollouts after it, and all rewards equal.
    pub constant: usize,
}

impl Starved {
    fn add(&mut self, before: &ValueRange, after: &ValueRange, least: usize) {
        if before.count < least || before.is_constant() {
            return;
        }
        self.groups += 1;
        if after.count < least {
            self.short += 1;
        } else if after.is_constant() {
            self.constant += 1;
        }
    }
}

/// Number of present values of a group, the least and the largest.
#[derive(Clone, Copy)]
struct ValueRange {
    count: usize,
    min: f64,
    max: f64,
}

impl ValueRange {
    const EMPTY: Self = Self { count: 0, min: f64::INFINITY, max: f64::NEG_INFINITY };

    fn push(&mut self, value: f64) {
        self.count += usize::from(!value.is_nan());
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Return whether all values are equal up to rounding; true for one value and for none.
    fn is_constant(&self) -> bool {
        !differ(self.min, self.max)
    }
}

/// Count the groups that a mask starves: left with fewer than `least` rollouts, or with equal rewards.
///
/// Rollouts without a reward count as none. Shapes: `keep` and rewards `[B]`. Cost: two passes.
///
/// # Errors
/// [`Error::Length`] for columns that differ in rows; [`Error::Positive`] for `least` of 0;
/// [`Error::NotFinite`] for an infinite reward.
pub fn starved<R: Real>(
    keep: &[bool],
    rewards: &[R],
    groups: &Groups,
    least: usize,
    threads: usize,
) -> Result<Starved> {
    check_length("keep", keep.len(), groups.rows())?;
    check_length("rewards", rewards.len(), groups.rows())?;
    check_not_infinite("rewards", rewards)?;
    if least == 0 {
        return Err(Error::Positive { what: "min_group", value: 0.0 });
    }
    let extents = |mask: &(dyn Fn(usize) -> bool + Sync)| {
        groups.fold(threads, ValueRange::EMPTY, |extent, _, row| {
            if mask(row) {
                extent.push(rewards[row].widen());
            }
        })
    };
    let (before, after) = (extents(&|_| true), extents(&|row| keep[row]));
    let mut starved = Starved::default();
    before.iter().zip(&after).for_each(|(before, after)| starved.add(before, after, least));
    Ok(starved)
}
