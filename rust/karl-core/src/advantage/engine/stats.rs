//! Parts of a score: the statistics of a group and of all rows, the affine map from reward to advantage, and the formula
//! between.
//!
//! A [`Formula`] turns the statistics of a group, and a second sum where it asks for one, into the [`AffineMap`] that
//! maps the reward of each member to its advantage.

use crate::numeric::sum::Compensated;
use crate::numeric::{Real, differ, parallel};

/// The present rewards of a group, seen one after another in row order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupStats {
    /// Number of rewards.
    pub(crate) count: u32,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(in crate::advantage) total: Compensated,
}

impl GroupStats {
    /// Statistics of no rewards.
    pub(in crate::advantage) const EMPTY: Self =
        Self { count: 0, min: f64::INFINITY, max: f64::NEG_INFINITY, total: Compensated::ZERO };

    #[inline]
    pub(crate) fn push(&mut self, reward: f64) {
        if !reward.is_nan() {
            self.count += 1;
            self.min = self.min.min(reward);
            self.max = self.max.max(reward);
            self.total.add(reward);
        }
    }

    /// Return whether all rewards are equal up to rounding; true for one reward and for none.
    #[inline(always)]
    pub(crate) fn is_constant(&self) -> bool {
        !differ(self.min, self.max)
    }

    /// Return their mean. A group of 1e308s overflows to infinity, which [`check`](super::check) then reports.
    #[inline(always)]
    pub(in crate::advantage) fn mean(&self) -> f64 {
        self.total.value() / f64::from(self.count)
    }

    /// Return the number of rewards, as a float.
    #[inline(always)]
    pub(in crate::advantage) fn size(&self) -> f64 {
        f64::from(self.count)
    }

    /// Return the square root of `squares / (count - ddof)`; NaN where there is none, or where it overflows: that
    /// would divide every advantage down to a false 0.
    #[inline(always)]
    pub(in crate::advantage) fn deviation(&self, squares: f64, ddof: u8) -> f64 {
        let freedom = self.size() - f64::from(ddof);
        let variance = if freedom > 0.0 { squares / freedom } else { f64::NAN };
        if variance.is_finite() { variance.sqrt() } else { f64::NAN }
    }
}

/// From a reward to its advantage: `factor * (reward - baseline) / divisor`.
#[derive(Clone, Copy, Debug)]
pub(in crate::advantage) struct AffineMap {
    pub(in crate::advantage) baseline: f64,
    pub(in crate::advantage) factor: f64,
    pub(in crate::advantage) divisor: f64,
}

impl AffineMap {
    /// Return the map of a group with equal rewards: exactly 0, also where they differ by rounding.
    #[inline(always)]
    pub(in crate::advantage) const fn zero(group: &GroupStats) -> Self {
        Self { baseline: group.min, factor: 0.0, divisor: 1.0 }
    }

    /// Return the reward less a baseline.
    #[inline(always)]
    pub(in crate::advantage) const fn less(baseline: f64) -> Self {
        Self { baseline, factor: 1.0, divisor: 1.0 }
    }

    #[inline(always)]
    pub(in crate::advantage) fn at(self, reward: f64) -> f64 {
        self.factor * (reward - self.baseline) / self.divisor
    }

    /// Return whether every member has a finite advantage; the map is monotonic, so that its two ends decide.
    #[inline(always)]
    pub(in crate::advantage) fn fits(self, group: &GroupStats) -> bool {
        (group.count == 0) | (self.at(group.min).is_finite() & self.at(group.max).is_finite())
    }
}

/// Formula of a group score. Each function is marked `#[inline(always)]`, because it is called for one lane at a
/// time.
pub(in crate::advantage) trait Formula: Sync {
    /// True if [`term`](Self::term) is summed over the group before [`line`](Self::line) is called.
    const TERMS: bool = false;

    /// Return the centre for the terms of a group.
    #[inline(always)]
    fn about(&self, group: &GroupStats) -> f64 {
        group.mean()
    }

    /// Return the term of a member in the second sum.
    #[inline(always)]
    fn term(&self, _reward: f64, _about: f64) -> f64 {
        0.0
    }

    /// Return the line of a group.
    fn line(&self, group: &GroupStats, about: f64, terms: f64) -> AffineMap;
}

/// Return the square of the distance from the mean, which is the second sum of all formulas with a deviation.
#[inline(always)]
pub(in crate::advantage) fn square(reward: f64, about: f64) -> f64 {
    (reward - about) * (reward - about)
}

/// Moments of all present values of positive weight, summed by blocks of rows in their order.
#[derive(Clone, Copy, Debug)]
pub(in crate::advantage) struct GlobalStats {
    /// The sum of the weights.
    pub(in crate::advantage) weight: f64,
    pub(in crate::advantage) mean: f64,
    /// The weighted sum of squared distances from the mean.
    squares: f64,
    min: f64,
    max: f64,
}

impl GlobalStats {
    /// Two passes. A value that is NaN or weighs 0 is left out.
    pub(in crate::advantage) fn of<R: Real>(
        values: &[R],
        weight: impl Fn(usize) -> f64 + Sync,
        threads: usize,
    ) -> Self {
        let fold = |term: &(dyn Fn(f64) -> f64 + Sync)| {
            let block = |rows: std::ops::Range<usize>| {
                let mut sums = BlockStats::EMPTY;
                rows.for_each(|row| sums.push(values[row].widen(), weight(row), term));
                sums
            };
            parallel::map(values.len(), threads, block).into_iter().fold(BlockStats::EMPTY, BlockStats::merge)
        };
        let first = fold(&|value| value);
        let mean = first.terms.value() / first.weight.value();
        let second = fold(&|value| (value - mean) * (value - mean));
        let (weight, squares) = (first.weight.value(), second.terms.value());
        Self { weight, mean, squares, min: first.min, max: first.max }
    }

    /// Return whether all values are equal up to rounding; true for one value and for none.
    pub(in crate::advantage) fn is_constant(&self) -> bool {
        self.weight == 0.0 || !differ(self.min, self.max)
    }

    /// `squares / (weight - ddof)`; NaN where there is none, or where it overflows.
    pub(in crate::advantage) fn variance(&self, ddof: u8) -> f64 {
        let freedom = self.weight - f64::from(ddof);
        let variance = if freedom > 0.0 { self.squares / freedom } else { f64::NAN };
        if variance.is_finite() { variance } else { f64::NAN }
    }

    /// Return the square root of the variance.
    pub(in crate::advantage) fn deviation(&self, ddof: u8) -> f64 {
        self.variance(ddof).sqrt()
    }
}

#[derive(Clone, Copy)]
struct BlockStats {
    weight: Compensated,
    terms: Compensated,
    min: f64,
    max: f64,
}

impl BlockStats {
    const EMPTY: Self = Self {
        weight: Compensated::ZERO,
        terms: Compensated::ZERO,
        min: f64::INFINITY,
        max: f64::NEG_INFINITY,
    };

    fn push(&mut self, value: f64, weight: f64, term: &(dyn Fn(f64) -> f64 + Sync)) {
        if weight > 0.0 && !value.is_nan() {
            self.weight.add(weight);
            self.terms.add(weight * term(value));
            self.min = self.min.min(value);
            self.max = self.max.max(value);
        }
    }

    fn merge(mut self, next: Self) -> Self {
        self.weight.add(next.weight.value());
        self.terms.add(next.terms.value());
        Self { min: self.min.min(next.min), max: self.max.max(next.max), ..self }
    }
}
