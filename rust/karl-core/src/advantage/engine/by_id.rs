//! Groups by a code a row, in any order.
//!
//! The statistics of a few thousand groups fit the second-level cache. Rows of more groups are bucketed by range of groups, and
//! the groups of a range are laid end to end. A group folds its rows in row order either
//! way, and neither the ranges nor the threads change a bit.

use super::gather::Laid;
use super::stats::{AffineMap, Formula, GroupStats};
use crate::group::Groups;
use crate::numeric::float::Real;
use crate::numeric::parallel;
use crate::numeric::radix::{Bucket, Buckets, Scratch, all_ok, with_scratch};
use crate::numeric::sum::Compensated;

/// Fill in the advantages, and return whether all of them are finite.
pub(in crate::advantage) fn fill<R: Real, F: Formula>(
    rewards: &[R],
    groups: &Groups<'_>,
    formula: &F,
    (advantages, room): (&mut [f64], Scratch<'_>),
    threads: usize,
) -> bool {
    if groups.needs_buckets() {
        return with_scratch(room, rewards.len(), |room| {
            by_bucket(rewards, groups, formula, (advantages, room), threads)
        });
    }
    let spreads = spreads(rewards, groups, threads);
    with_spreads(rewards, groups, &spreads, formula, advantages, threads)
}

/// Return the statistics of each group, of groups that are not bucketed.
pub(in crate::advantage) fn spreads<R: Real>(
    rewards: &[R],
    groups: &Groups<'_>,
    threads: usize,
) -> Vec<GroupStats> {
    groups.fold(threads, GroupStats::EMPTY, |spread, _, row| spread.push(rewards[row].widen()))
}

fn by_bucket<R: Real, F: Formula>(
    rewards: &[R],
    groups: &Groups<'_>,
    formula: &F,
    (advantages, room): (&mut [f64], Scratch<'_>),
    threads: usize,
) -> bool {
    let mut bucketed = Buckets::new(rewards, groups.dense(), room, threads);
    let width = bucketed.width().min(groups.len());
    let mut buckets = bucketed.grouped();
    let score = |laid: &mut Laid, buckets: &mut Vec<Bucket<'_>>| laid.score(buckets, formula);
    let fine = all_ok(&mut buckets, rewards.len(), threads, || Laid::new(width), score);
    bucketed.gather(advantages);
    fine
}

/// Return the same as [`fill`] where the spread of each group is known.
pub(in crate::advantage) fn with_spreads<R: Real, F: Formula>(
    rewards: &[R],
    groups: &Groups<'_>,
    spreads: &[GroupStats],
    formula: &F,
    advantages: &mut [f64],
    threads: usize,
) -> bool {
    let abouts: Vec<f64> = spreads.iter().map(|spread| formula.about(spread)).collect();
    let terms = terms(rewards, groups, &abouts, formula, threads);
    let lines = lines(spreads, &abouts, &terms, formula);
    parallel::fill(advantages, threads, |first, block| {
        for (advantage, row) in block.iter_mut().zip(first..) {
            *advantage = groups.code(row).map_or(f64::NAN, |group| lines[group].at(rewards[row].widen()));
        }
    });
    spreads.iter().zip(lines).all(|(spread, line)| line.fits(spread))
}

/// Return the affine map of each group from reward to advantage; the second sum of a group without terms is 0.
pub(in crate::advantage) fn lines<F: Formula>(
    spreads: &[GroupStats],
    abouts: &[f64],
    terms: &[Compensated],
    formula: &F,
) -> Vec<AffineMap> {
    let line = |(group, spread): (usize, &GroupStats)| {
        formula.line(spread, abouts[group], terms.get(group).map_or(0.0, |terms| terms.value()))
    };
    spreads.iter().enumerate().map(line).collect()
}

fn terms<R: Real, F: Formula>(
    rewards: &[R],
    groups: &Groups<'_>,
    abouts: &[f64],
    formula: &F,
    threads: usize,
) -> Vec<Compensated> {
    if !F::TERMS {
        return Vec::new();
    }
    groups.fold(threads, Compensated::ZERO, |total, group, row| {
        let reward = rewards[row].widen();
        if !reward.is_nan() {
            total.add(formula.term(reward, abouts[group]));
        }
    })
}
