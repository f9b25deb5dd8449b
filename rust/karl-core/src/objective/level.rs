//! Over what a ratio is taken.

use std::ops::Range;

use super::chunks;
use super::lane::Lane;
use super::stats::{sum_of_differences, sum_of_kept_differences};
use super::tokens::{Row, Tokens, check_columns, kept};
use crate::error::{Error, Result};
use crate::group::offsets::Offsets;
use crate::numeric::simd::{Kernel, wide};

/// The axis: the ratio that a token counts with.
///
/// ```text
/// Token            exp(d_t)                       d_t = logp_t - logp_old_t
/// Turn             exp(mean of d over the turn)
/// Sequence         exp(mean of d over the sequence)     s_i, the geometric mean (GSPO, SAMPO)
/// SequenceProduct  exp(sum of d over the sequence)      the ratio of the sequences' probabilities
/// SequenceToken    sg(s_i) exp(d_t) / sg(exp(d_t))      the value of s_i, a gradient of each token's own (GSPO-token)
/// ```
///
/// Where the tokens of a sequence share an advantage, `SequenceToken` has the gradient of `Sequence`.
/// Reference: Zheng et al. 2025, GSPO (arXiv:2507.18071).
#[derive(Clone, Copy, Debug)]
pub enum Level<'a> {
    /// Each token has its own.
    Token,
    /// The geometric mean over a turn: where each begins, with a turn's beginning at the beginning of each sequence.
    Turn(Offsets<'a>),
    /// The geometric mean over the sequence.
    Sequence,
    /// The product over the sequence.
    SequenceProduct,
    /// The geometric mean over the sequence as a constant, times the token's own ratio over its value.
    SequenceToken,
}

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
/// [`Error::Length`] where columns differ in length; [`Error::NotFinite`] for an unmasked token without a finite one.
pub fn token_log_ratio<T: Lane>(logp: &[T], logp_old: &[T], mask: Option<&[bool]>) -> Result<Vec<T>> {
    check_columns(logp, logp_old, mask)?;
    let mut out: Vec<T> = logp.iter().zip(logp_old).map(|(&logp, &old)| logp - old).collect();
    for (value, &keep) in out.iter_mut().zip(mask.unwrap_or_default()) {
        *value = if keep { *value } else { T::default() };
    }
    let odd = out.iter().fold(false, |odd, value| odd | !value.is_finite());
    let row = Row { logp, old: logp_old, mask, first: 0 };
    odd.then(|| row.fault()).flatten().map_or(Ok(out), Err)
}

/// Return the log ratio of each sequence, or of each turn where the offsets are those of turns.
///
/// ```text
/// Mean  (1 / T_i) sum_t (logp_t - logp_old_t)        its exp is the geometric mean of the tokens' ratios
/// Sum             sum_t (logp_t - logp_old_t)        its exp is their product
/// ```
///
/// NaN where no token is unmasked. Shapes: tokens `[N]`, result `[B]`. Cost: one read of the columns; f32 is widened
/// before it is subtracted, and sums are f64 in fixed lanes.
///
/// # Errors
/// [`Error::NotFinite`] for an unmasked token without a finite log ratio.
pub fn row_log_ratio<T: Lane>(tokens: &Tokens<'_, T>, power: Power, threads: usize) -> Result<Vec<f64>> {
    let mut out = vec![0.0; tokens.offsets.len()];
    let one = |rows: Range<usize>, out: &mut [f64]| wide(RowRatios { tokens, power, rows, out });
    let results = chunks::map(&tokens.offsets, &mut out, threads, ExactSizeIterator::len, one);
    results.into_iter().collect::<Result<()>>().map(|()| out)
}

/// The log ratios of some rows.
struct RowRatios<'a, T> {
    tokens: &'a Tokens<'a, T>,
    power: Power,
    rows: Range<usize>,
    out: &'a mut [f64],
}

impl<T: Lane> Kernel for RowRatios<'_, T> {
    type Output = Result<()>;

    #[inline(always)]
    fn run(self) -> Result<()> {
        for (out, row) in self.out.iter_mut().zip(self.rows) {
            let (total, count) = sum_log_ratio(&self.tokens.row(self.tokens.offsets.row(row)))?;
            *out = if count == 0 { f64::NAN } else { self.power.of(total, count) };
        }
        Ok(())
    }
}

/// Return the sum of the log ratios of the unmasked tokens of a row, and how many there are.
#[inline(always)]
pub(super) fn sum_log_ratio<T: Lane>(row: &Row<'_, T>) -> Result<(f64, usize)> {
    let (total, count) = match row.mask {
        None => (sum_of_differences(row.logp, row.old), row.logp.len()),
        Some(mask) => (sum_of_kept_differences(row.logp, row.old, mask), kept(mask)),
    };
    if total.is_finite() {
        return Ok((total, count));
    }
    let beyond = Error::NotFinite { what: "log_ratio", index: row.first, value: total };
    Err(row.fault().unwrap_or(beyond))
}
