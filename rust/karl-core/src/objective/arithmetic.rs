//! Arithmetic in the type that log-probabilities are stored in, f32 or f64, and sums of such numbers in f64.
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
