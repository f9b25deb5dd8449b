//! Groups that teach nothing, and what a filter leaves of the others.

use super::{Reason, check_present};
use crate::blocks;
use crate::error::{Error, Result, check_length};
use crate::group::Groups;
use crate::real::Real;

/// The least and the largest present value of a group.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    count: usize,
    min: f64,
    max: f64,
}

impl Ends {
    const EMPTY: Self = Self { count: 0, min: f64::INFINITY, max: f64::NEG_INFINITY };

    fn push(&mut self, value: f64) {
        if !value.is_nan() {
            self.count += 1;
            self.min = self.min.min(value);
            self.max = self.max.max(value);
        }
    }

    /// Whether all are equal; true for one and for none.
    pub(super) fn is_constant(&self) -> bool {
        self.min >= self.max || self.count == 0
    }
}

pub(super) fn ends<R: Real>(values: &[R], groups: &Groups, threads: usize) -> Vec<Ends> {
    groups.fold(threads, Ends::EMPTY, |ends, _, row| ends.push(values[row].widen()))
}

/// Drops groups whose outcomes are all equal (dynamic sampling), and says where shaped rewards hide that.
///
/// ```text
/// keep_i = max_g(outcome) > min_g(outcome),   g the group of i
/// ```
///
/// The group is judged by what it is rewarded *for*, never by the reward after shaping: a group that failed as a whole
/// still differs in its length penalties, and a filter by the deviation of the shaped reward keeps it. With `rewards`
/// such groups are told apart as [`Reason::PhantomGroup`]. Equality is exact, max against min. A group of one is
/// constant. Outcomes that are NaN are missing: left out of their group, and dropped. So are missing rewards, where
/// those are given. Shapes: all `[B]`. Cost: one pass a column, and one over the rows.
/// Reference: Yu et al. 2025, DAPO (arXiv:2503.14476), section 3.2.
///
/// # Errors
/// [`Error::NotFinite`](crate::Error::NotFinite) for an infinite outcome or reward;
/// [`Error::Length`](crate::Error::Length) for columns that differ in rows.
pub fn constant<O: Real, R: Real>(
    outcomes: &[O],
    rewards: Option<&[R]>,
    groups: &Groups,
    threads: usize,
) -> Result<Vec<Reason>> {
    check_length("outcomes", outcomes.len(), groups.rows())?;
    check_present("outcome", outcomes)?;
    let shaped = rewards.unwrap_or_default();
    if rewards.is_some() {
        check_length("rewards", shaped.len(), outcomes.len())?;
        check_present("reward", shaped)?;
    }
    let judged = ends(outcomes, groups, threads);
    let looks = if rewards.is_some() { ends(shaped, groups, threads) } else { Vec::new() };
    let reason = |row: usize| match groups.code(row) {
        None => Reason::MissingGroup,
        _ if outcomes[row].widen().is_nan() => Reason::MissingOutcome,
        _ if shaped.get(row).is_some_and(|reward| reward.widen().is_nan()) => Reason::MissingReward,
        Some(group) if !judged[group].is_constant() => Reason::Kept,
        Some(group) if looks.get(group).is_some_and(|ends| !ends.is_constant()) => Reason::PhantomGroup,
        Some(_) => Reason::ConstantGroup,
    };
    Ok(each(outcomes.len(), threads, reason))
}

/// Keeps groups of which some rollouts are right and some are not.
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
/// [`Error::Length`](crate::Error::Length) for columns that differ in rows.
pub fn mixed(right: &[bool], groups: &Groups, threads: usize) -> Result<Vec<Reason>> {
    check_length("right", right.len(), groups.rows())?;
    let counts = groups.fold(threads, [0_usize; 2], |counts, _, row| counts[usize::from(right[row])] += 1);
    let reason = |row: usize| match groups.code(row).map(|group| counts[group]) {
        None => Reason::MissingGroup,
        Some([0, _]) => Reason::AllRight,
        Some([_, 0]) => Reason::AllWrong,
        Some(_) => Reason::Kept,
    };
    Ok(each(right.len(), threads, reason))
}

/// What a filter left of the groups that could teach.
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
    fn add(&mut self, before: &Ends, after: &Ends, least: usize) {
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

/// Counts the groups that a mask starves: left with fewer than `least` rollouts, or with equal rewards.
///
/// Rollouts without a reward count as none. Shapes: `keep` and rewards `[B]`. Cost: two passes.
///
/// # Errors
/// [`Error::Length`](crate::Error::Length) for columns that differ in rows; [`Error::Positive`] for `least` of 0;
/// [`Error::NotFinite`](crate::Error::NotFinite) for an infinite reward.
pub fn starved<R: Real>(
    keep: &[bool],
    rewards: &[R],
    groups: &Groups,
    least: usize,
    threads: usize,
) -> Result<Starved> {
    check_length("keep", keep.len(), groups.rows())?;
    check_length("rewards", rewards.len(), groups.rows())?;
    check_present("reward", rewards)?;
    if least == 0 {
        return Err(Error::Positive { what: "min_group", value: 0.0 });
    }
    let before = ends(rewards, groups, threads);
    let after = groups.fold(threads, Ends::EMPTY, |ends, _, row| {
        if keep[row] {
            ends.push(rewards[row].widen());
        }
    });
    let mut starved = Starved::default();
    before.iter().zip(&after).for_each(|(before, after)| starved.add(before, after, least));
    Ok(starved)
}

/// The reason of each row.
pub(super) fn each(rows: usize, threads: usize, reason: impl Fn(usize) -> Reason + Sync) -> Vec<Reason> {
    let mut reasons = vec![Reason::Kept; rows];
    blocks::fill(&mut reasons, threads, |first, block| {
        block.iter_mut().zip(first..).for_each(|(given, row)| *given = reason(row));
    });
    reasons
}
