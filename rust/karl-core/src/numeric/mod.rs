//! Numerics under every kernel: number types, sums, exponentials, vector loops, threads, bucketing.
//!
//! Numbers are stored as f32 or f64; every sum over them is f64.

pub mod exact;
pub mod exp;
pub mod parallel;
pub(crate) mod radix;
pub mod simd;
pub mod sum;

/// A stored number. Kernels take both and widen in registers, so that f32 halves what is read and costs no digits after.
pub trait Real: Copy + Default + PartialOrd + Send + Sync + 'static {
    /// Return the number as f64, which is exact.
    fn widen(self) -> f64;
    /// Return the nearest number that can be stored.
    fn narrow(value: f64) -> Self;
}

/// Difference of two rewards, relative to the larger, up to which they are equal: 512 units in the last place of f64,
/// where a weighted sum of some components in another order, or with a large one taken off, may end.
const ROUNDING: f64 = 1.0 / (1_u64 << 43) as f64;

/// Size of a reward below which [`ROUNDING`] is relative to this: `0.1 + 0.2 - 0.3` is 0, up to rounding.
const SMALL: f64 = 0.125;

/// Return whether the least and the largest of some rewards differ by more than rounding: the one test of a constant
/// group. False where there are none, for then the least is above the largest.
#[inline(always)]
#[must_use]
pub fn differ(least: f64, largest: f64) -> bool {
    largest - least > ROUNDING * least.abs().max(largest.abs()).max(SMALL)
}

impl Real for f64 {
    #[inline]
    fn widen(self) -> f64 {
        self
    }

    #[inline]
    fn narrow(value: f64) -> Self {
        value
    }
}

impl Real for f32 {
    #[inline]
    fn widen(self) -> f64 {
        f64::from(self)
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "rounding to the nearest is what is asked for")]
    fn narrow(value: f64) -> Self {
        value as Self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rounding_makes_of_one_sum_is_equal() {
        for (least, largest) in [
            (0.3, 0.1 + 0.2),
            (0.0, 0.1 + 0.2 - 0.3),
            (100.0 + 0.1 - 100.0, 0.1),
            (0.7 * 1e100, 0.1 * 7.0 * 1e100),
            (f64::INFINITY, f64::NEG_INFINITY),
        ] {
            assert!(!differ(least, largest), "{least} {largest}");
        }
        for (least, largest) in
            [(0.0, 1e-12), (1e9, 1e9 + 0.01), (-1.0, 1.0), (1.0, 1.0 + 1e-12), (-1e308, 1e308)]
        {
            assert!(differ(least, largest), "{least} {largest}");
        }
    }
}
