//! Rewards at a glance: count, mean, spread and a histogram, of a log or of what was drawn from it.

use crate::error::{Error, Result};
use crate::numeric::mean_and_variance;

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

/// What a column of numbers looks like. Without any number, mean, std, min and max are NaN.
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
    /// How they spread over the range asked for; numbers outside it are in no bin.
    pub histogram: Histogram,
}

/// The smallest and the largest number of a column, NaN left out; 0 and 0 where there is none.
#[must_use]
pub fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let present = values.filter(|value| !value.is_nan());
    present.map(|value| (value, value)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or((0.0, 0.0))
}

impl Summary {
    /// Summarises `values`, leaving out NaN, with a histogram from `low` to `high`.
    ///
    /// Give the range of the whole log for any part of it, so that histograms line up. A range of one point
    /// puts that point into the last bin. Folds in the order given. Cost: four passes.
    ///
    /// # Errors
    /// [`Error::NotFinite`] for an infinite value, or a range that is reversed, NaN or beyond f64.
    pub fn of(values: impl Iterator<Item = f64> + Clone, low: f64, high: f64) -> Result<Self> {
        if let Some((index, value)) = values.clone().enumerate().find(|(_, value)| value.is_infinite()) {
            return Err(Error::NotFinite { what: "value", index, value });
        }
        let present = values.filter(|value| !value.is_nan());
        let histogram = Histogram::of(present.clone(), low, high)?;
        let count = present.clone().count() as u64;
        let (mean, variance) = mean_and_variance(present.clone(), 0).unwrap_or((f64::NAN, f64::NAN));
        // `f64::min` and `max` give the other operand for a NaN, so NaN is the empty start.
        let (min, max) =
            present.fold((f64::NAN, f64::NAN), |(min, max), value| (value.min(min), value.max(max)));
        Ok(Self { count, mean, std: variance.sqrt(), min, max, histogram })
    }
}

impl Histogram {
    fn of(values: impl Iterator<Item = f64>, low: f64, high: f64) -> Result<Self> {
        let edges = edges(low, high)?;
        let mut counts = vec![0; BINS];
        for value in values.filter(|&value| value >= low && value <= high) {
            counts[bin(&edges, value)] += 1;
        }
        Ok(Self { edges, counts })
    }
}

/// The last bin whose lower edge is at or below the value: guessed by division, decided by the edges themselves.
fn bin(edges: &[f64], value: f64) -> usize {
    let share = (value - edges[0]) / (edges[BINS] - edges[0]);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates; NaN is 0")]
    let mut bin = ((share * BINS as f64) as usize).min(BINS - 1);
    while bin > 0 && edges[bin] > value {
        bin -= 1;
    }
    while bin < BINS - 1 && edges[bin + 1] <= value {
        bin += 1;
    }
    bin
}

fn edges(low: f64, high: f64) -> Result<Vec<f64>> {
    let width = high - low;
    if !(width >= 0.0 && width.is_finite()) {
        return Err(Error::NotFinite { what: "width of the histogram", index: 0, value: width });
    }
    let mut edges: Vec<f64> = (0..BINS).map(|bin| low + width * (bin as f64 / BINS as f64)).collect();
    edges.push(high);
    Ok(edges)
}
