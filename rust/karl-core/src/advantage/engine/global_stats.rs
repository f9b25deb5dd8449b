//! Statistics of all rows together: weighted moments, by blocks of rows in their order.

use crate::numeric::float::{Real, differ};
use crate::numeric::parallel;
use crate::numeric::sum::Compensated;

/// Moments of all present values of positive weight.
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
