//! Log ratios of the policy to the behaviour policy.

use std::ops::Range;

use super::real_arithmetic::RealArithmetic;
use super::rollouts::Rollouts;
use super::thread_blocks;
use crate::error::Result;
use crate::numeric::simd::{Kernel, wide};

/// Log ratio of several tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    /// The mean of theirs.
    Mean,
    /// Their sum.
    Sum,
}

impl Power {
    /// Return the log ratio of a number of tokens, and how much of it each of them has.
    #[inline(always)]
    pub(super) fn of(self, total: f64, tokens: usize) -> f64 {
        if self == Self::Mean { total / tokens as f64 } else { total }
    }
}

/// Return the log ratio of each token: `logp_t - logp_old_t`, exactly 0 where it is masked.
///
/// Shapes: all `[N]`. Cost: memory speed.
///
/// # Errors
/// [`Error::Length`](crate::Error::Length) without `logp_old`; [`Error::NotFinite`](crate::Error::NotFinite) for a token
/// that counts without a finite one.
pub fn token_log_ratio<T: RealArithmetic>(rollouts: &Rollouts<'_, T>) -> Result<Vec<T>> {
    let old = rollouts.behaviour()?;
    let given = rollouts.logp.iter().zip(old).zip(rollouts.mask);
    let out: Vec<T> =
        given.map(|((&logp, &old), &keep)| if keep { logp - old } else { T::default() }).collect();
    let odd = out.iter().fold(false, |odd, value| odd | !value.is_finite());
    odd.then(|| rollouts.fault()).flatten().map_or(Ok(out), Err)
}

/// Return the log ratio of each rollout, or of each turn where the offsets are those of turns.
///
/// ```text
/// Mean  (1 / T_i) sum_t (logp_t - logp_old_t)        its exp is the geometric mean of the tokens' ratios
/// Sum             sum_t (logp_t - logp_old_t)        its exp is their product
/// ```
///
/// NaN where no token counts. Shapes: result `[B]`. Cost: one read of the columns; f32 is widened before it is subtracted,
/// and sums are f64 in fixed lanes.
///
/// # Errors
/// As [`token_log_ratio`].
pub fn row_log_ratio<T: RealArithmetic>(
    rollouts: &Rollouts<'_, T>,
    power: Power,
    threads: usize,
) -> Result<Vec<f64>> {
    rollouts.behaviour()?;
    let mut out = vec![0.0; rollouts.rows()];
    let one = |rows: Range<usize>, out: &mut [f64]| wide(RowRatios { rollouts, power, rows, out });
    thread_blocks::map(&rollouts.offsets, &mut out, threads, ExactSizeIterator::len, one);
    // The mean of nothing is NaN, and the only one that is no fault.
    let odd = out.iter().enumerate().any(|(row, value)| !value.is_finite() && !rollouts.live(row).is_empty());
    odd.then(|| rollouts.fault()).flatten().map_or(Ok(out), Err)
}

/// The log ratios of some rows.
struct RowRatios<'a, 'b, T> {
    rollouts: &'b Rollouts<'a, T>,
    power: Power,
    rows: Range<usize>,
    out: &'b mut [f64],
}

impl<T: RealArithmetic> Kernel for RowRatios<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (out, row) in self.out.iter_mut().zip(self.rows) {
            let part = self.rollouts.part(self.rollouts.live(row));
            let kept = part.kept();
            *out = if kept == 0 { f64::NAN } else { self.power.of(part.sum_log_ratio(), kept) };
        }
    }
}
