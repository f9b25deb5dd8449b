//! What is summed over a batch beside the coefficients.

use super::clip::Bounds;
use super::lane::Lane;
use crate::real::Real;
use crate::simd::{LANES, fold};

/// Sums over a block of sequences, or over all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Total {
    pub(super) loss: f64,
    pub(super) tokens: u64,
    pub(super) sequences: u64,
    /// Tokens whose ratio is below its range, above it, and above it with a negative advantage.
    pub(super) clipped: Clipped,
    pub(super) ratios: Ratios,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clipped {
    pub(super) low: u64,
    pub(super) high: u64,
    pub(super) bound: u64,
}

impl Clipped {
    /// Counts tokens that share a ratio and the sign of their advantage.
    pub(super) fn add(&mut self, bounds: Bounds, negative: bool, ratio: f64, tokens: u64) {
        if ratio < bounds.floor {
            self.low += tokens;
        } else if ratio > bounds.ceiling {
            *(if negative { &mut self.bound } else { &mut self.high }) += tokens;
        }
    }
}

/// The ratios of tokens, turns or sequences, before any clip: the sum of their distances from 1, and that of the squared
/// distances from their own mean, piece by piece.
///
/// Reference: Chan, Golub and `LeVeque`, Updating formulae and a pairwise algorithm for computing sample variances (1979).
#[derive(Clone, Copy, Debug)]
pub(super) struct Ratios {
    pub(super) count: u64,
    above: f64,
    squares: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Ratios {
    const NONE: Self =
        Self { count: 0, above: 0.0, squares: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY };

    /// Takes in one ratio.
    #[inline(always)]
    pub(super) fn push(&mut self, ratio: f64) {
        self.merge(&Self { count: 1, above: ratio - 1.0, squares: 0.0, min: ratio, max: ratio });
    }

    /// Takes in the ratios of some tokens, of which `kept` count; the ratio of a masked one has to be 1.
    #[inline(always)]
    pub(super) fn extend<T: Lane>(&mut self, ratios: &[T], keep: &[bool], kept: usize) {
        let above = sum(ratios, |ratio| ratio - 1.0);
        let mean = 1.0 + above / kept as f64;
        let squares = sum_of_kept(ratios, keep, |ratio| (ratio - mean) * (ratio - mean));
        let (min, max) = extremes(ratios, keep);
        self.merge(&Self { count: kept as u64, above, squares, min: min.widen(), max: max.widen() });
    }

    /// NaN where there is none.
    pub(super) fn mean(&self) -> f64 {
        1.0 + self.above / self.count as f64
    }

    /// With ddof 0; NaN where there is none.
    pub(super) fn std(&self) -> f64 {
        (self.squares / self.count as f64).sqrt()
    }

    #[inline(always)]
    fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count > 0 {
            let (ours, theirs) = (self.count as f64, other.count as f64);
            let apart = other.above / theirs - self.above / ours;
            self.squares += apart * apart * (ours * theirs / (ours + theirs));
        }
        self.count += other.count;
        self.above += other.above;
        self.squares += other.squares;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

impl Total {
    pub(super) const NOTHING: Self = Self {
        loss: 0.0,
        tokens: 0,
        sequences: 0,
        clipped: Clipped { low: 0, high: 0, bound: 0 },
        ratios: Ratios::NONE,
    };

    pub(super) fn merge(mut self, other: Self) -> Self {
        self.loss += other.loss;
        self.tokens += other.tokens;
        self.sequences += other.sequences;
        self.clipped.low += other.clipped.low;
        self.clipped.high += other.clipped.high;
        self.clipped.bound += other.clipped.bound;
        self.ratios.merge(&other.ratios);
        self
    }
}

/// Numbers that are summed side by side: so many that a loop over them is not unrolled, and becomes vector code.
const SIDE: usize = 64;

/// The sum of what `term` makes of each number.
#[inline(always)]
pub(super) fn sum<T: Real>(values: &[T], term: impl Fn(f64) -> f64) -> f64 {
    let mut lanes = [0.0; SIDE];
    for chunk in values.chunks(SIDE) {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += term(value.widen());
        }
    }
    fold_all(&lanes)
}

/// The same over the places that are kept.
#[inline(always)]
fn sum_of_kept<T: Real>(values: &[T], keep: &[bool], term: impl Fn(f64) -> f64) -> f64 {
    let mut lanes = [0.0; SIDE];
    for (values, keep) in values.chunks(SIDE).zip(keep.chunks(SIDE)) {
        for ((lane, value), &keep) in lanes.iter_mut().zip(values).zip(keep) {
            let term = term(value.widen());
            *lane += if keep { term } else { 0.0 };
        }
    }
    fold_all(&lanes)
}

/// The sum of the differences of two columns, each widened first.
#[inline(always)]
pub(super) fn sum_of_differences<T: Real>(a: &[T], b: &[T]) -> f64 {
    let mut lanes = [0.0; SIDE];
    for (a, b) in a.chunks(SIDE).zip(b.chunks(SIDE)) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += a.widen() - b.widen();
        }
    }
    fold_all(&lanes)
}

/// The same over the places that are kept.
#[inline(always)]
pub(super) fn sum_of_kept_differences<T: Real>(a: &[T], b: &[T], keep: &[bool]) -> f64 {
    let mut lanes = [0.0; SIDE];
    for ((a, b), keep) in a.chunks(SIDE).zip(b.chunks(SIDE)).zip(keep.chunks(SIDE)) {
        for (((lane, a), b), &keep) in lanes.iter_mut().zip(a).zip(b).zip(keep) {
            let difference = a.widen() - b.widen();
            *lane += if keep { difference } else { 0.0 };
        }
    }
    fold_all(&lanes)
}

#[inline(always)]
fn fold_all(lanes: &[f64; SIDE]) -> f64 {
    let mut few = [0.0; LANES];
    for lanes in lanes.as_chunks::<LANES>().0 {
        for (few, lane) in few.iter_mut().zip(lanes) {
            *few += lane;
        }
    }
    fold(few)
}

/// The least and the largest of the numbers that are kept.
#[inline(always)]
fn extremes<T: Lane>(values: &[T], keep: &[bool]) -> (T, T) {
    let (mut min, mut max) = ([T::INFINITY; SIDE], [-T::INFINITY; SIDE]);
    for (values, keep) in values.chunks(SIDE).zip(keep.chunks(SIDE)) {
        for (((min, max), &value), &keep) in min.iter_mut().zip(&mut max).zip(values).zip(keep) {
            *min = if keep & (value < *min) { value } else { *min };
            *max = if keep & (value > *max) { value } else { *max };
        }
    }
    let (mut least, mut most) = ([T::INFINITY; LANES], [-T::INFINITY; LANES]);
    for (min, max) in min.as_chunks::<LANES>().0.iter().zip(max.as_chunks::<LANES>().0) {
        for lane in 0..LANES {
            least[lane] = if min[lane] < least[lane] { min[lane] } else { least[lane] };
            most[lane] = if max[lane] > most[lane] { max[lane] } else { most[lane] };
        }
    }
    let least = least.into_iter().reduce(|a, b| if b < a { b } else { a });
    let most = most.into_iter().reduce(|a, b| if b > a { b } else { a });
    (least.unwrap_or(T::INFINITY), most.unwrap_or(-T::INFINITY))
}
