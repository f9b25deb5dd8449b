//! Split (train, valid, test) of each group of drawn rows. It follows from (seed, groups, their rows) alone.

use crate::check::{check_finite, check_not_negative};
use crate::error::{Error, Result};
use crate::rng::{Key, Purpose, uniform};

/// Largest distance of the sum of split fractions from 1: 0.7 + 0.2 + 0.1 is not 1 in floats.
const SLACK: f64 = 1e-9;

/// A group of drawn rows, which falls into one split whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its key for random numbers.
    pub key: Key,
    /// Number of its drawn rows, copies counted.
    pub rows: u64,
}

/// Return the split (0 train, 1 valid, 2 test) of each of some groups with different keys.
///
/// ```text
/// quota_s = fraction_s * rows,    u_g = uniform(seed, key_g, Split)
/// ```
///
/// Valid, and then test of what is left, goes through the groups by rising `u_g` and takes each that brings its rows
/// nearer to its quota. A split that is left with fewer than `fewest` rows, though its quota is that many, takes the
/// smallest groups until it has them, as long as train keeps as many rows as it. All other groups are train's (or test's, or
/// valid's, where train's fraction is 0), which always keeps one.
///
/// A group goes by its own uniform, so that few change sides when a log grows. Shapes: groups `[G]`. Cost: a hash a
/// group and a sort.
///
/// # Errors
/// As [`check_fractions`].
pub fn split(groups: &[Group], fractions: &[f64; 3], seed: u64, fewest: u64) -> Result<Vec<usize>> {
    check_fractions(fractions)?;
    let rest = if fractions[0] > 0.0 { 0 } else { 2 - usize::from(fractions[2] <= 0.0) };
    let mut assignment = Assignment::new(groups, seed, rest);
    let all = assignment.left as f64;
    for split in (1..3).filter(|&split| split != rest && fractions[split] > 0.0) {
        let quota = fractions[split] * all;
        let rows = assignment.fill(split, quota);
        if quota >= fewest as f64 {
            assignment.fill_to_fewest(split, rows, fewest);
        }
    }
    Ok(assignment.splits)
}

/// Groups that are being dealt to splits.
struct Assignment<'a> {
    groups: &'a [Group],
    /// Groups that no split has taken, in the order of their uniforms.
    order: Vec<usize>,
    /// Their rows.
    left: u64,
    splits: Vec<usize>,
}

impl<'a> Assignment<'a> {
    fn new(groups: &'a [Group], seed: u64, rest: usize) -> Self {
        let mut numbered: Vec<(f64, Key, usize)> = groups
            .iter()
            .enumerate()
            .map(|(at, group)| (uniform(seed, group.key, Purpose::Split), group.key, at))
            .collect();
        numbered.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let order = numbered.into_iter().map(|(_, _, at)| at).collect();
        let left = groups.iter().map(|group| group.rows).sum();
        Self { groups, order, left, splits: vec![rest; groups.len()] }
    }

    /// Give a split each group that brings its rows nearer to a quota; its rows.
    fn fill(&mut self, split: usize, quota: f64) -> u64 {
        let mut rows = 0;
        for group in std::mem::take(&mut self.order) {
            let size = self.groups[group].rows;
            let nearer = (size as f64) < 2.0 * (quota - rows as f64);
            if nearer && size < self.left {
                self.assign(group, split);
                rows += size;
            } else {
                self.order.push(group);
            }
        }
        rows
    }

    /// Give a split of so many rows the smallest groups until it has the fewest that it may have.
    fn fill_to_fewest(&mut self, split: usize, mut rows: u64, fewest: u64) {
        while rows < fewest {
            let size = |&at: &usize| self.groups[self.order[at]].rows;
            let Some(at) = (0..self.order.len()).min_by_key(size) else { return };
            let size = size(&at);
            if self.left - size < rows + size {
                return;
            }
            let group = self.order.remove(at);
            self.assign(group, split);
            rows += size;
        }
    }

    fn assign(&mut self, group: usize, split: usize) {
        self.splits[group] = split;
        self.left -= self.groups[group].rows;
    }
}

/// Reject fractions that are not a split: each has to be zero or more, and together they have to be 1.
///
/// # Errors
/// [`Error::NotFinite`], [`Error::Negative`], or [`Error::Total`] for a sum further than 1e-9 from 1.
pub fn check_fractions(fractions: &[f64; 3]) -> Result<()> {
    check_finite("split fraction", fractions)?;
    fractions.iter().try_for_each(|&fraction| check_not_negative("split fraction", fraction))?;
    let got: f64 = fractions.iter().sum();
    if (got - 1.0).abs() <= SLACK { Ok(()) } else { Err(Error::Total { what: "split fractions", got }) }
}
