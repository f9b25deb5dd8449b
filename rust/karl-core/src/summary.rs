//! Rewards at a glance: count, mean, spread and a histogram, of a log or of what was drawn from it.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::numeric::parallel;
use crate::numeric::sum::Compensated;

/// Bins of a histogram.
pub const BINS: usize = 20;

/// Counts in equal bins over a range.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// `BINS + 1` ascending edges. A bin holds its lower edge; the last holds both.
    pub edges: Vec<f64>,
    /// `BINS` counts.
    pub counts: Vec<u64>,
}

/// Statistics of a column of numbers. Without any number, mean, std, min and max are NaN.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Numbers that are not missing.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation, ddof 0.
    pub std: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Histogram over the requested range; numbers outside it are in no bin.
    pub histogram: Histogram,
}

impl Summary {
    /// Summarises `rows` numbers, leaving out NaN, with a histogram over a range: from the smallest to the largest where
    /// none is given, and from 0 to 0 where there is no number.
    ///
    /// Give the [`range`](Self::range) of the whole log for any part of it, so that histograms line up. A range of one
    /// point puts that point into the last bin. Blocks of rows fold in row order. Cost: two passes.
    ///
    /// # Errors
    /// [`Error::NotFinite`] for an infinite value; [`Error::Number`] for a range that is reversed, NaN or beyond f64.
    pub fn of(
        rows: usize,
        threads: usize,
        value: impl Fn(usize) -> f64 + Sync,
        range: Option<(f64, f64)>,
    ) -> Result<Self> {
        let seen = parallel::map(rows, threads, |block| FirstPass::of(block, &value));
        let FirstPass { count, total, min, max, infinite } =
            seen.into_iter().fold(FirstPass::default(), FirstPass::merge);
        if let Some(index) = infinite {
            return Err(Error::NotFinite { what: "value", index, value: value(index) });
        }
        let own = if count == 0 { (0.0, 0.0) } else { (min, max) };
        let (edges, mean) = (edges(range.unwrap_or(own))?, total.value() / count as f64);
        let spread = parallel::map(rows, threads, |block| SecondPass::of(block, &value, mean, &edges));
        let SecondPass { squares, counts } =
            spread.into_iter().fold(SecondPass::default(), SecondPass::merge);
        let std = (squares.value() / count as f64).sqrt();
        Ok(Self { count, mean, std, min, max, histogram: Histogram { edges, counts: counts.to_vec() } })
    }

    /// Return the ends of the histogram.
    #[must_use]
    pub fn range(&self) -> (f64, f64) {
        (self.histogram.edges[0], self.histogram.edges[BINS])
    }
}

/// Statistics of a first pass over numbers.
#[derive(Clone, Copy)]
struct FirstPass {
    count: u64,
    total: Compensated,
    min: f64,
    max: f64,
    /// The first infinite one.
    infinite: Option<usize>,
}

impl Default for FirstPass {
    fn default() -> Self {
        // `f64::min` and `max` give the other operand for a NaN, so NaN is the empty start.
        Self { count: 0, total: Compensated::default(), min: f64::NAN, max: f64::NAN, infinite: None }
    }
}

impl FirstPass {
    fn of(rows: Range<usize>, value: impl Fn(usize) -> f64) -> Self {
        let mut seen = Self::default();
        for row in rows {
            let value = value(row);
            if !value.is_nan() {
                seen.count += 1;
                seen.total.add(value);
                (seen.min, seen.max) = (value.min(seen.min), value.max(seen.max));
                seen.infinite = seen.infinite.or(value.is_infinite().then_some(row));
            }
        }
        seen
    }

    fn merge(mut self, next: Self) -> Self {
        self.count += next.count;
        self.total.merge(next.total);
        (self.min, self.max) = (self.min.min(next.min), self.max.max(next.max));
        self.infinite = self.infinite.or(next.infinite);
        self
    }
}

/// Statistics of a second pass, given the mean and the bins.
#[derive(Clone, Copy, Default)]
struct SecondPass {
    squares: Compensated,
    counts: [u64; BINS],
}

impl SecondPass {
    fn of(rows: Range<usize>, value: impl Fn(usize) -> f64, mean: f64, edges: &[f64]) -> Self {
        let mut spread = Self::default();
        let in_one = BINS as f64 / (edges[BINS] - edges[0]);
        for value in rows.map(value).filter(|value| !value.is_nan()) {
            spread.squares.add((value - mean) * (value - mean));
            if value >= edges[0] && value <= edges[BINS] {
                spread.counts[bin(edges, in_one, value)] += 1;
            }
        }
        spread
    }

    fn merge(mut self, next: Self) -> Self {
        self.squares.merge(next.squares);
        self.counts.iter_mut().zip(next.counts).for_each(|(count, more)| *count += more);
        self
    }
}

/// Return the last bin with a lower edge at or below the value: first guess from the bins per unit, then compare
/// edges.
fn bin(edges: &[f64], in_one: f64, value: f64) -> usize {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates; NaN is 0")]
    let mut bin = (((value - edges[0]) * in_one) as usize).min(BINS - 1);
    while bin > 0 && edges[bin] > value {
        bin -= 1;
    }
    while bin < BINS - 1 && edges[bin + 1] <= value {
        bin += 1;
    }
    bin
}

fn edges((low, high): (f64, f64)) -> Result<Vec<f64>> {
    let width = high - low;
    if !(width >= 0.0 && width.is_finite()) {
        return Err(Error::Number { what: "width of the histogram", value: width });
    }
    let mut edges: Vec<f64> = (0..BINS).map(|bin| low + width * (bin as f64 / BINS as f64)).collect();
    edges.push(high);
    Ok(edges)
}
