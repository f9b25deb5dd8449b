//! Arithmetic in the type that log-probabilities are stored in, f32 or f64.
//!
//! Speed: a vector holds twice as many f32. Record: `benches/record/kernels.json`, "policy loss and
//! coefficients, token level, float32".

use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::numeric::exp::{exp, exp_and_less_line, exp_and_less_line_f32, exp_f32};
use crate::numeric::float::Real;

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
