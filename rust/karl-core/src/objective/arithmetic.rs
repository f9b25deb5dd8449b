//! Arithmetic in the type that log-probabilities are stored in, f32 or f64.
//!
//! Speed: a vector holds twice as many f32. Record: `benches/record/kernels.json`, "policy loss and
//! coefficients, token level, float32".

use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::numeric::Real;
use crate::numeric::exp::{exp, exp_and_less_line, exp_and_less_line_f32, exp_f32};
use crate::numeric::simd::{SIDE, fold_side};

/// Arithmetic in the type that log-probabilities are stored in.
pub trait RealArithmetic:
    Real + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> + Neg<Output = Self>
{
    /// 1.
    const ONE: Self;

    /// `e^x`, within 1 ulp.
    #[must_use]
    fn exp(self) -> Self;

    /// `e^x`, and `e^x - 1 - x` without the cancellation that the difference has near 0: the estimator k3 of a
    /// divergence.
    #[must_use]
    fn exp_and_excess(self) -> (Self, Self);

    /// Return whether the number is neither infinite nor NaN.
    fn is_finite(self) -> bool;
}

impl RealArithmetic for f64 {
    const ONE: Self = 1.0;

    #[inline(always)]
    fn exp(self) -> Self {
        exp(self)
    }

    #[inline(always)]
    fn exp_and_excess(self) -> (Self, Self) {
        exp_and_less_line(self)
    }

    #[inline(always)]
    fn is_finite(self) -> bool {
        self.abs() < Self::INFINITY
    }
}

impl RealArithmetic for f32 {
    const ONE: Self = 1.0;

    #[inline(always)]
    fn exp(self) -> Self {
        exp_f32(self)
    }

    #[inline(always)]
    fn exp_and_excess(self) -> (Self, Self) {
        exp_and_less_line_f32(self)
    }

    #[inline(always)]
    fn is_finite(self) -> bool {
        self.abs() < Self::INFINITY
    }
}

// Sums over a batch besides the coefficients.

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
    pub(super) const NONE: Self =
        Self { count: 0, above: 0.0, squares: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY };

    /// Take in one ratio, as often as it counts.
    #[inline(always)]
    pub(super) fn push(&mut self, ratio: f64, count: u64) {
        let above = (ratio - 1.0) * count as f64;
        self.merge(&Self { count, above, squares: 0.0, min: ratio, max: ratio });
    }

    /// Take in the ratios of some tokens, of which `kept` count; the others have the ratio of one that does.
    #[inline(always)]
    pub(super) fn extend<T: RealArithmetic>(&mut self, ratios: &[T], kept: usize) {
        let (chunks, rest) = ratios.as_chunks::<FEW>();
        let mut moments = RatioMoments::about(ratios);
        for ratios in chunks {
            moments.add(ratios);
        }
        let mut last = [moments.about; FEW];
        last[..rest.len()].copy_from_slice(rest);
        moments.add(&last);
        self.merge(&moments.fold(kept));
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
    pub(super) fn merge(&mut self, other: &Self) {
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

/// Number of ratios that are summed side by side: four sums to a ratio, few enough that all stay in registers.
const FEW: usize = SIDE / 2;

/// Sums over ratios side by side. They are taken about one of the ratios: where all are equal, their deviation is
/// exactly 0, and where they are near each other, no digit is lost.
struct RatioMoments<T> {
    about: T,
    apart: [f64; FEW],
    squares: [f64; FEW],
    min: [T; FEW],
    max: [T; FEW],
}

impl<T: RealArithmetic> RatioMoments<T> {
    /// No ratio yet, to be taken about the first that is finite.
    #[inline(always)]
    fn about(ratios: &[T]) -> Self {
        let about = ratios.iter().copied().find(|ratio| ratio.is_finite()).unwrap_or(T::ONE);
        Self { about, apart: [0.0; FEW], squares: [0.0; FEW], min: [about; FEW], max: [about; FEW] }
    }

    #[inline(always)]
    fn add(&mut self, ratios: &[T; FEW]) {
        let about = self.about.widen();
        for (lane, &ratio) in ratios.iter().enumerate() {
            let apart = ratio.widen() - about;
            self.apart[lane] += apart;
            self.squares[lane] += apart * apart;
            self.min[lane] = if ratio < self.min[lane] { ratio } else { self.min[lane] };
            self.max[lane] = if ratio > self.max[lane] { ratio } else { self.max[lane] };
        }
    }

    #[inline(always)]
    fn fold(&self, kept: usize) -> Ratios {
        let (apart, count) = (fold_side(&self.apart), kept as f64);
        let squares = fold_side(&self.squares) - apart * (apart / count);
        let (mut min, mut max) = (self.about, self.about);
        for (&low, &high) in self.min.iter().zip(&self.max) {
            min = if low < min { low } else { min };
            max = if high > max { high } else { max };
        }
        Ratios {
            count: kept as u64,
            above: apart + count * (self.about.widen() - 1.0),
            // Rounding may leave less than nothing; a NaN stays one.
            squares: if squares < 0.0 { 0.0 } else { squares },
            min: min.widen(),
            max: max.widen(),
        }
    }
}

/// Return the sum of some numbers.
#[inline(always)]
pub(super) fn sum<T: Real>(values: &[T]) -> f64 {
    let (chunks, rest) = values.as_chunks::<SIDE>();
    let mut lanes = [0.0; SIDE];
    for chunk in chunks {
        for lane in 0..SIDE {
            lanes[lane] += chunk[lane].widen();
        }
    }
    for (lane, value) in lanes.iter_mut().zip(rest) {
        *lane += value.widen();
    }
    fold_side(&lanes)
}

/// Return the sum of the numbers that are kept.
#[inline(always)]
pub(super) fn sum_of_kept<T: Real>(values: &[T], keep: &[bool]) -> f64 {
    let ((chunks, rest), (masks, mask)) = (values.as_chunks::<SIDE>(), keep.as_chunks::<SIDE>());
    let mut lanes = [0.0; SIDE];
    for (chunk, keep) in chunks.iter().zip(masks) {
        for lane in 0..SIDE {
            lanes[lane] += if keep[lane] { chunk[lane].widen() } else { 0.0 };
        }
    }
    for ((lane, value), &keep) in lanes.iter_mut().zip(rest).zip(mask) {
        *lane += if keep { value.widen() } else { 0.0 };
    }
    fold_side(&lanes)
}

/// Return the sum of the differences of two columns where they are kept, each widened first.
#[inline(always)]
pub(super) fn sum_of_kept_differences<T: Real>(a: &[T], b: &[T], keep: &[bool]) -> f64 {
    let ((a, rest), (b, other)) = (a.as_chunks::<SIDE>(), b.as_chunks::<SIDE>());
    let (masks, mask) = keep.as_chunks::<SIDE>();
    let mut lanes = [0.0; SIDE];
    for ((a, b), keep) in a.iter().zip(b).zip(masks) {
        for lane in 0..SIDE {
            let difference = a[lane].widen() - b[lane].widen();
            lanes[lane] += if keep[lane] { difference } else { 0.0 };
        }
    }
    for (((lane, a), b), &keep) in lanes.iter_mut().zip(rest).zip(other).zip(mask) {
        *lane += if keep { a.widen() - b.widen() } else { 0.0 };
    }
    fold_side(&lanes)
}
