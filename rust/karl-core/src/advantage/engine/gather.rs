//! The groups of a range of groups, laid end to end from rows in any order: groups of one size stand together, so that
//! they can be scored side by side.
//!
//! A group's rows stay in row order, and no group is folded with another: the place of a group changes no bit.
//!
//! Speed: groups of a bucket take the vector lanes of `equal_size_groups`. Record: `benches/record/kernels.json`, "groups of 8
//! shuffled, 10000000 rows".

use super::contiguous::GroupRun;
use super::equal_size_groups::SIZES;
use super::stats::Formula;
use crate::group::offsets::Offsets;
use crate::numeric::radix::Bucket;
use crate::numeric::simd::wide;

/// Sizes that stand apart: larger groups are scored one by one, and need no neighbour of their size.
const APART: usize = *SIZES.end() + 2;

/// Positions of the groups of a range; reused for one range after another.
pub(in crate::advantage) struct Laid {
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

impl Laid {
    /// Return buffers for ranges of `groups` groups.
    pub(in crate::advantage) fn new(groups: usize) -> Self {
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
    pub(in crate::advantage) fn score<F: Formula>(
        &mut self,
        buckets: &mut [Bucket<'_>],
        formula: &F,
    ) -> bool {
        self.measure(buckets);
        self.sort();
        self.place();
        self.lay(buckets);
        let fine = wide(GroupRun {
            rewards: &self.rewards,
            offsets: Offsets::counted(&self.offsets),
            groups: 0..self.sizes.len(),
            advantages: &mut self.advantages,
            formula,
        });
        self.take_up(buckets);
        fine
    }

    fn measure(&mut self, buckets: &[Bucket<'_>]) {
        self.sizes.fill(0);
        for &group in buckets.iter().flat_map(|bucket| bucket.groups) {
            self.sizes[usize::from(group)] += 1;
        }
    }

    /// Order groups by size, by counting.
    fn sort(&mut self) {
        let size = |size: u32| (size as usize).min(APART - 1);
        let mut next = [0; APART + 1];
        for &found in &self.sizes {
            next[size(found) + 1] += 1;
        }
        for size in 0..APART {
            next[size + 1] += next[size];
        }
        for (group, &found) in self.sizes.iter().enumerate() {
            let next = &mut next[size(found)];
            self.order[*next] = group;
            *next += 1;
        }
    }

    #[allow(clippy::cast_possible_wrap, reason = "a column has fewer than 2^32 rows")]
    fn place(&mut self) {
        let mut end = 0;
        for (at, &group) in self.order.iter().enumerate() {
            self.begins[group] = end;
            end += self.sizes[group] as usize;
            self.offsets[at + 1] = end as i64;
        }
        self.rewards.resize(end, 0.0);
        self.advantages.resize(end, 0.0);
    }

    fn lay(&mut self, buckets: &[Bucket<'_>]) {
        for bucket in buckets {
            for (&group, &reward) in bucket.groups.iter().zip(&*bucket.values) {
                let next = &mut self.begins[usize::from(group)];
                self.rewards[*next] = reward;
                *next += 1;
            }
        }
    }

    /// Copy the advantages back, last first: `begins` now holds the end of each group.
    fn take_up(&mut self, buckets: &mut [Bucket<'_>]) {
        for bucket in buckets.iter_mut().rev() {
            for (&group, reward) in bucket.groups.iter().zip(&mut *bucket.values).rev() {
                let next = &mut self.begins[usize::from(group)];
                *next -= 1;
                *reward = self.advantages[*next];
            }
        }
    }
}
