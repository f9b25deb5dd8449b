//! Groups by a code a row, in any order.
//!
//! The statistics of a few thousand groups fit the second-level cache. Rows of more groups are bucketed by range of groups, and
//! the groups of a range are laid end to end. A group folds its rows in row order either
//! way, and neither the ranges nor the threads change a bit.

use super::contiguous::{GroupRun, SIZES};
use super::stats::{AffineMap, Formula, GroupStats};
use crate::group::Groups;
use crate::group::offsets::Offsets;
use crate::numeric::radix::{Bucket, Buckets, Scratch, all_ok, with_scratch};
use crate::numeric::simd::wide;
use crate::numeric::sum::Compensated;
use crate::numeric::{Real, parallel};

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
    let mut buckets = bucketed.buckets_by_group();
    let score = |groups: &mut LaidGroups, buckets: &mut Vec<Bucket<'_>>| groups.score(buckets, formula);
    let fine = all_ok(&mut buckets, rewards.len(), threads, || LaidGroups::new(width), score);
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

/// Sizes that stand apart: larger groups are scored one by one, and need no neighbour of their size.
const APART: usize = *SIZES.end() + 2;

/// The groups of a range of groups, laid end to end from rows in any order; reused for one range after another. Groups of
/// one size stand together, so that they can be scored side by side.
///
/// A group's rows stay in row order, and no group is folded with another: the place of a group changes no bit.
///
/// Speed: groups of a bucket take the vector lanes of [`contiguous`](super::contiguous). Record:
/// `benches/record/kernels.json`, "groups of 8 shuffled, 10000000 rows".
struct LaidGroups {
    sizes: Vec<u32>,
    /// The groups by size.
    order: Vec<usize>,
    /// First position of each group.
    begins: Vec<usize>,
    /// First position of each group in that order, and the end of the last.
    offsets: Vec<i64>,
    rewards: Vec<f64>,
    advantages: Vec<f64>,
}

impl LaidGroups {
    /// Return buffers for ranges of `groups` groups.
    fn new(groups: usize) -> Self {
        let places = || vec![0; groups];
        Self {
            sizes: vec![0; groups],
            order: places(),
            begins: places(),
            offsets: vec![0; groups + 1],
            rewards: Vec::new(),
            advantages: Vec::new(),
        }
    }

    /// Turn the rewards of a range into advantages, and return whether all of them are finite.
    fn score<F: Formula>(&mut self, buckets: &mut [Bucket<'_>], formula: &F) -> bool {
        self.sizes.fill(0);
        for &group in buckets.iter().flat_map(|bucket| bucket.groups) {
            self.sizes[usize::from(group)] += 1;
        }
        self.sort_by_size();
        self.place_groups();
        self.gather(buckets);
        let fine = wide(GroupRun {
            rewards: &self.rewards,
            offsets: Offsets::from_counts(&self.offsets),
            groups: 0..self.sizes.len(),
            advantages: &mut self.advantages,
            formula,
        });
        self.copy_back(buckets);
        fine
    }

    /// Order groups by size, by counting.
    fn sort_by_size(&mut self) {
        let size = |size: u32| (size as usize).min(APART - 1);
        let mut next = [0; APART + 1];
        for &own in &self.sizes {
            next[size(own) + 1] += 1;
        }
        for size in 0..APART {
            next[size + 1] += next[size];
        }
        for (group, &own) in self.sizes.iter().enumerate() {
            let next = &mut next[size(own)];
            self.order[*next] = group;
            *next += 1;
        }
    }

    #[allow(clippy::cast_possible_wrap, reason = "a column has fewer than 2^32 rows")]
    fn place_groups(&mut self) {
        let mut end = 0;
        for (at, &group) in self.order.iter().enumerate() {
            self.begins[group] = end;
            end += self.sizes[group] as usize;
            self.offsets[at + 1] = end as i64;
        }
        self.rewards.resize(end, 0.0);
        self.advantages.resize(end, 0.0);
    }

    fn gather(&mut self, buckets: &[Bucket<'_>]) {
        for bucket in buckets {
            for (&group, &reward) in bucket.groups.iter().zip(&*bucket.values) {
                let next = &mut self.begins[usize::from(group)];
                self.rewards[*next] = reward;
                *next += 1;
            }
        }
    }

    /// Copy the advantages back, last first: `begins` now holds the end of each group.
    fn copy_back(&mut self, buckets: &mut [Bucket<'_>]) {
        for bucket in buckets.iter_mut().rev() {
            for (&group, reward) in bucket.groups.iter().zip(&mut *bucket.values).rev() {
                let next = &mut self.begins[usize::from(group)];
                *next -= 1;
                *reward = self.advantages[*next];
            }
        }
    }
}
