//! Ratios of the policy to the behaviour policy: of a token, of a turn, of a rollout ([`Ratio`]), and their logarithms.

use std::ops::Range;

use super::arithmetic::{RealArithmetic, sum};
use super::batch_statistics::Sums;
use super::rollouts::{PIECE, RolloutPart, Rollouts, first_kept, map_blocks};
use super::turns::Turns;
use crate::error::Result;
use crate::numeric::simd::{Kernel, wide};

/// The axis: the ratio that a token counts with.
///
/// ```text
/// OnPolicy         1                              d_t = logp_t - logp_old_t
/// Token            exp(d_t)
/// Turn             exp(mean of d over the turn)
/// Sequence         exp(mean of d over the rollout)      s_i, the geometric mean (GSPO, SAMPO)
/// SequenceProduct  exp(sum of d over the rollout)       the ratio of the rollouts' probabilities
/// SequenceToken    sg(s_i) exp(d_t) / sg(exp(d_t))      the value of s_i, a gradient of each token's own (GSPO-token)
/// ```
///
/// Where the tokens of a rollout share an advantage, `SequenceToken` has the gradient of `Sequence`.
/// Reference: Zheng et al. 2025, GSPO (arXiv:2507.18071).
#[derive(Clone, Copy, Debug)]
pub enum Ratio<'a> {
    /// 1: the policy is the behaviour policy.
    OnPolicy,
    /// Its own.
    Token,
    /// The geometric mean over a turn.
    Turn(Turns<'a>),
    /// The geometric mean over the rollout.
    Sequence,
    /// The product over the rollout.
    SequenceProduct,
    /// The geometric mean over the rollout as a constant, with the token's own gradient.
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
    map_blocks(&rollouts.offsets, &mut out, threads, ExactSizeIterator::len, one);
    // The mean of nothing is NaN too, and not a fault.
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

/// Scratch memory for a piece of a rollout, which stays in the first-level cache.
pub(super) struct Room<T> {
    pub(super) log_ratios: [T; PIECE],
    pub(super) ratios: [T; PIECE],
    pub(super) advantages: [T; PIECE],
    pub(super) terms: [T; PIECE],
}

impl<T: RealArithmetic> Room<T> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        let zeros = [T::default(); PIECE];
        Self { log_ratios: zeros, ratios: zeros, advantages: zeros, terms: zeros }
    }
}

/// Fill in the ratio of each token of a piece, of which `kept` count, and take in how far it has moved. A masked token
/// has the ratio of the first which is not, and so moves no statistic.
#[inline(always)]
pub(super) fn own_ratios<T: RealArithmetic>(
    piece: &RolloutPart<'_, T>,
    kept: usize,
    sums: &mut Sums,
    room: &mut Room<T>,
) {
    let n = piece.len();
    let Some(old) = piece.old else {
        room.log_ratios[..n].fill(T::default());
        room.ratios[..n].fill(T::ONE);
        return;
    };
    piece.log_ratios(old, &mut room.log_ratios[..n]);
    let Room { log_ratios, ratios, terms, .. } = room;
    let (ratios, terms) = (&mut ratios[..n], &mut terms[..n]);
    // A loop of its own: over more columns the compiler takes no vectors.
    for ((ratio, term), log_ratio) in ratios.iter_mut().zip(terms.iter_mut()).zip(&log_ratios[..n]) {
        (*ratio, *term) = log_ratio.exp_and_excess();
    }
    sums.kl_old += sum(terms);
    if kept < n {
        let neutral = ratios[first_kept(piece.keep).unwrap_or(0)];
        for (ratio, &keep) in ratios.iter_mut().zip(piece.keep) {
            *ratio = if keep { *ratio } else { neutral };
        }
    }
}

/// Take in how far the tokens of a rollout have moved, and their own ratios where `ratios` says so.
#[inline(always)]
pub(super) fn drift<T: RealArithmetic>(
    part: &RolloutPart<'_, T>,
    ratios: bool,
    sums: &mut Sums,
    room: &mut Room<T>,
) {
    if part.old.is_none() {
        return;
    }
    for piece in part.pieces() {
        let (n, kept) = (piece.len(), piece.kept());
        if kept > 0 {
            own_ratios(&piece, kept, sums, room);
            if ratios {
                sums.ratios.extend(&room.ratios[..n], kept);
            }
        }
    }
}

/// A rollout, or the part of it that shares a ratio.
#[derive(Clone, Copy)]
pub(super) struct RatioUnit<'a, T> {
    pub(super) row: usize,
    pub(super) tokens: &'a Range<usize>,
    pub(super) part: RolloutPart<'a, T>,
    pub(super) weight: f64,
    /// True if negative advantages of the rollout count as 0.
    pub(super) masked: bool,
}

/// Return places in a batch as places in a rollout or turn.
pub(super) fn local(all: &Range<usize>, part: &Range<usize>) -> Range<usize> {
    part.start - all.start..part.end - all.start
}
