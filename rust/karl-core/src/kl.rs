//! The divergence of a policy from its reference: estimated from the tokens that were drawn, or exact over a vocabulary.
//!
//! ```text
//! d = logp - logp_ref,    on tokens of the policy;    r = exp(logp - logp_old) where another policy drew them
//! ```
//!
//! | | value | d/dlogp as a loss | mean of that gradient, on policy |
//! |---|---|---|---|
//! | `K1` | `d` | `1` | zero: no penalty at all |
//! | `K2` | `d^2 / 2` | `d` | that of the reverse KL(policy, reference) |
//! | `K3` | `exp(-d) + d - 1` | `1 - exp(-d)` | that of the forward KL(reference, policy): unbounded where the policy is far below |
//! | `K1` in the reward | `d`, detached | `d` | that of the reverse KL |
//!
//! A masked token is not looked at, whatever it holds: its estimate and its gradient are exactly 0.
//! Off policy each is multiplied by r. Where r is a constant, so is its gradient; where the gradient goes through r, that of
//! `r K3` is `r d`: the reverse KL exactly, in value and in gradient.
//! Reference: Schulman 2020, "Approximating KL divergence"; the table is proved by enumeration in the tests.

use crate::check::{
    check_finite, check_finite_where, check_length, check_logs, check_not_infinite, check_positive,
    check_range,
};
use crate::error::{Error, Result};
use crate::group::offsets::Offsets;
use crate::logsumexp::{ROOM, log_sum_exp};
use crate::numeric::exp::{exp, exp_less_line};
use crate::numeric::simd::{self, Kernel, wide};
use crate::numeric::sum::Compensated;
use crate::numeric::{Real, parallel};

/// An estimator of the divergence from one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimator {
    /// The log-ratio: unbiased, of either sign.
    K1,
    /// Half its square: biased, never negative.
    K2,
    /// Unbiased and never negative.
    K3,
}

/// Role of the importance ratio in the gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// It is a constant that multiplies the loss.
    Detached,
    /// It is differentiated with the loss.
    Ratio,
}

/// The log-probabilities of the tokens that were drawn.
#[derive(Clone, Copy, Debug)]
pub struct KlTokens<'a, T> {
    /// Under the policy. `[T]`
    pub logp: &'a [T],
    /// Under the reference. `[T]`
    pub logp_ref: &'a [T],
    /// Under the policy that drew them, where that is another. `[T]`
    pub logp_old: Option<&'a [T]>,
    /// Mask of the tokens that count: all without one. `[T]`
    pub mask: Option<&'a [bool]>,
}

impl<T: Real> KlTokens<'_, T> {
    fn check(&self) -> Result<()> {
        check_length("logp_ref", self.logp_ref.len(), self.logp.len())?;
        check_length("mask", self.mask.map_or(self.logp.len(), <[bool]>::len), self.logp.len())?;
        check_finite_where("logp", self.logp, self.mask)?;
        check_finite_where("logp_ref", self.logp_ref, self.mask)?;
        let Some(old) = self.logp_old else { return Ok(()) };
        check_length("logp_old", old.len(), self.logp.len())?;
        check_finite_where("logp_old", old, self.mask)
    }

    fn keeps(&self, token: usize) -> bool {
        self.mask.is_none_or(|mask| mask[token])
    }

    /// `one` of the log-ratio to the reference, times the importance ratio; exactly 0 where a token is masked.
    fn map(self, one: impl Fn(f64) -> f64 + Copy + Sync, threads: usize) -> Vec<T> {
        let mut column = vec![T::default(); self.logp.len()];
        parallel::fill(&mut column, threads, |first, block| {
            let mask = self.mask.map(|mask| &mask[first..first + block.len()]);
            wide(Map { tokens: self, first, block: &mut *block, one });
            for (value, &keep) in block.iter_mut().zip(mask.unwrap_or_default()) {
                *value = if keep { *value } else { T::default() };
            }
        });
        column
    }
}

struct Map<'a, T, F> {
    tokens: KlTokens<'a, T>,
    first: usize,
    block: &'a mut [T],
    one: F,
}

impl<T: Real, F: Fn(f64) -> f64> Kernel for Map<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let rows = self.first..self.first + self.block.len();
        let (logp, logp_ref) = (&self.tokens.logp[rows.clone()], &self.tokens.logp_ref[rows.clone()]);
        let Some(old) = self.tokens.logp_old else {
            for place in 0..self.block.len() {
                self.block[place] = T::narrow((self.one)(logp[place].widen() - logp_ref[place].widen()));
            }
            return;
        };
        let old = &old[rows];
        for place in 0..self.block.len() {
            let ratio = exp(logp[place].widen() - old[place].widen());
            let value = (self.one)(logp[place].widen() - logp_ref[place].widen());
            self.block[place] = T::narrow(ratio * value);
        }
    }
}

/// Return the estimate of each token, times its importance ratio where another policy drew it.
///
/// Shapes: `[T]`. Cost: one pass; for `K3`, and for each ratio, one exponential a token.
///
/// # Errors
/// [`Error::Length`] where arguments differ in tokens;
/// [`Error::NotFinite`] for a log-probability that is not finite, or an
/// estimate beyond what its type holds: nothing is clamped.
pub fn estimate<T: Real>(tokens: KlTokens<'_, T>, estimator: Estimator, threads: usize) -> Result<Vec<T>> {
    tokens.check()?;
    let estimates = match estimator {
        Estimator::K1 => tokens.map(k1, threads),
        Estimator::K2 => tokens.map(k2, threads),
        Estimator::K3 => tokens.map(k3, threads),
    };
    check_finite("estimate", &estimates).map(|()| estimates)
}

/// Return the derivative by `logp` of each token's estimate as a loss: what a gradient step multiplies `grad logp`
/// by.
///
/// ```text
/// detached   r k'(d)              K1: r    K2: r d             K3: r (1 - exp(-d))
/// ratio      r (k(d) + k'(d))     K1: r (d + 1)    K2: r (d^2 / 2 + d)    K3: r d
/// ```
///
/// Without `logp_old` r is 1, which a ratio of the policy to itself is too: its gradient is not 0.
/// Shapes and cost as [`estimate`].
///
/// # Errors
/// As [`estimate`].
pub fn gradient<T: Real>(
    tokens: KlTokens<'_, T>,
    estimator: Estimator,
    through: Through,
    threads: usize,
) -> Result<Vec<T>> {
    tokens.check()?;
    let slopes = match (estimator, through) {
        (Estimator::K1, Through::Detached) => tokens.map(|_| 1.0, threads),
        (Estimator::K1, Through::Ratio) => tokens.map(|d| d + 1.0, threads),
        (Estimator::K3, Through::Detached) => tokens.map(|d| d - k3(d), threads),
        (Estimator::K2, Through::Ratio) => tokens.map(|d| k2(d) + d, threads),
        (Estimator::K2, Through::Detached) | (Estimator::K3, Through::Ratio) => tokens.map(k1, threads),
    };
    check_finite("gradient", &slopes).map(|()| slopes)
}

/// Subtract the K1 of each rollout from its reward; the score-function gradient of this penalty is that of the
/// reverse KL.
///
/// ```text
/// r_i - kl_coef * sum over its unmasked tokens of (logp - logp_ref)
/// ```
///
/// Shapes: rewards `[B]`, tokens `[offsets.values()]`, result `[B]`. A missing reward stays missing. Cost: one pass.
///
/// # Errors
/// As [`estimate`]; [`Error::NotFinite`] for an infinite reward;
/// [`Error::Range`] for a coefficient that is negative or not finite.
pub fn in_reward<T: Real, R: Real>(
    rewards: &[R],
    tokens: KlTokens<'_, T>,
    offsets: &Offsets<'_>,
    kl_coef: f64,
    threads: usize,
) -> Result<Vec<f64>> {
    check_length("rewards", rewards.len(), offsets.len())?;
    check_length("logp", tokens.logp.len(), offsets.values())?;
    check_range("kl_coef", kl_coef, 0.0, f64::MAX)?;
    check_not_infinite("rewards", rewards)?;
    tokens.check()?;
    let mut penalised = vec![0.0; rewards.len()];
    parallel::fill(&mut penalised, threads, |first, block| {
        for (value, row) in block.iter_mut().zip(first..) {
            let mut total = Compensated::default();
            for token in offsets.row(row).filter(|&token| tokens.keeps(token)) {
                total.add(tokens.logp[token].widen() - tokens.logp_ref[token].widen());
            }
            *value = rewards[row].widen() - kl_coef * total.value();
        }
    });
    Ok(penalised)
}

#[inline(always)]
fn k1(d: f64) -> f64 {
    d
}

#[inline(always)]
fn k2(d: f64) -> f64 {
    0.5 * d * d
}

#[inline(always)]
fn k3(d: f64) -> f64 {
    exp_less_line(-d)
}

/// Direction of the divergence: the distribution that the mean is under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// KL(policy || reference): the mean under the policy; it avoids what the reference does not do.
    Reverse,
    /// KL(reference || policy): the mean under the reference; it covers all that the reference does.
    Forward,
}

/// Return the exact divergence between two distributions over a vocabulary, for each row, in nats.
///
/// ```text
/// reverse  sum_v p_v (log p_v - log q_v)      forward  sum_v q_v (log q_v - log p_v)
/// p = softmax(logits),  q = softmax(logits_ref)
/// ```
///
/// What is summed is `p_v (exp(-d) - 1 + d)` with d the log-ratio, which adds up to the same and is never negative: no term
/// cancels another, and a small divergence keeps its digits.
/// Normalised log-probabilities are logits too. A token of probability 0 adds nothing; one that only the other
/// distribution excludes makes the divergence infinite.
/// Shapes: `[N, V]` row by row, result `[N]`.
/// Cost: two passes over each row, three exponentials a token.
///
/// Speed: rows of a vocabulary in one pass of vectors. Record: `benches/record/kernels.json`, "exact divergence of 100
/// rows of 50,000".
///
/// # Errors
/// [`Error::Positive`] for a vocabulary of 0;
/// [`Error::Length`] where arguments differ in length, or not into whole rows of `vocabulary`;
/// [`Error::NotFinite`] for a NaN or plus infinity, or a row without any token.
pub fn categorical<T: Real>(
    logits: &[T],
    logits_ref: &[T],
    vocabulary: usize,
    direction: Direction,
    threads: usize,
) -> Result<Vec<f64>> {
    let table = DistributionPair { logits, logits_ref, vocabulary, direction };
    Ok(table.rows(threads)?.into_iter().map(|row| row.divergence).collect())
}

/// Return the derivative of each row's divergence by the logits of the policy.
///
/// ```text
/// reverse  p_v (log p_v - log q_v - KL)      forward  p_v - q_v
/// ```
///
/// Shapes: `[N, V]`, result the same. Cost and errors as [`categorical`].
///
/// # Errors
/// As [`categorical`]; [`Error::NotFinite`] too for a reverse divergence that is infinite.
pub fn categorical_gradient<T: Real>(
    logits: &[T],
    logits_ref: &[T],
    vocabulary: usize,
    direction: Direction,
    threads: usize,
) -> Result<Vec<T>> {
    let rows = DistributionPair { logits, logits_ref, vocabulary, direction }.rows(threads)?;
    if direction == Direction::Reverse {
        let divergences: Vec<f64> = rows.iter().map(|row| row.divergence).collect();
        check_finite("divergence", &divergences)?;
    }
    let mut gradient = vec![T::default(); logits.len()];
    parallel::fill(&mut gradient, threads, |first, block| {
        for (slope, at) in block.iter_mut().zip(first..) {
            let row = &rows[at / vocabulary];
            let (here, there) = (logits[at].widen(), logits_ref[at].widen());
            let p = exp(here - row.log_z);
            *slope = T::narrow(match direction {
                Direction::Reverse if p > 0.0 => {
                    p * (here - there - (row.log_z - row.log_z_ref) - row.divergence)
                }
                Direction::Reverse => 0.0,
                Direction::Forward => p - exp(there - row.log_z_ref),
            });
        }
    });
    Ok(gradient)
}

/// Two distributions a row.
#[derive(Clone, Copy)]
struct DistributionPair<'a, T> {
    logits: &'a [T],
    logits_ref: &'a [T],
    vocabulary: usize,
    direction: Direction,
}

/// Terms common to a row.
struct RowTerms {
    log_z: f64,
    log_z_ref: f64,
    divergence: f64,
}

impl<T: Real> DistributionPair<'_, T> {
    fn rows(&self, threads: usize) -> Result<Vec<RowTerms>> {
        check_length("logits_ref", self.logits_ref.len(), self.logits.len())?;
        check_positive("vocabulary", self.vocabulary as f64)?;
        let count = self.logits.len() / self.vocabulary;
        check_length("logits", self.logits.len(), count * self.vocabulary)?;
        check_logs("logits", self.logits)?;
        check_logs("logits_ref", self.logits_ref)?;
        let parts =
            parallel::in_parts(count, threads, |rows| rows.map(|row| self.row(row)).collect::<Vec<_>>());
        parts.into_iter().flatten().collect()
    }

    fn row(&self, row: usize) -> Result<RowTerms> {
        let place = row * self.vocabulary..(row + 1) * self.vocabulary;
        let (logits, logits_ref) = (&self.logits[place.clone()], &self.logits_ref[place]);
        let (log_z, log_z_ref) = (log_sum_exp(logits, 1)?, log_sum_exp(logits_ref, 1)?);
        if let Some(value) = [log_z, log_z_ref].into_iter().find(|log_z| log_z.is_infinite()) {
            return Err(Error::NotFinite { what: "log_z of the row", index: row, value });
        }
        let divergence = wide(match self.direction {
            Direction::Reverse => {
                MeanLogRatio { values: logits, log_z, others: logits_ref, other_log_z: log_z_ref }
            }
            Direction::Forward => {
                MeanLogRatio { values: logits_ref, log_z: log_z_ref, others: logits, other_log_z: log_z }
            }
        });
        Ok(RowTerms { log_z, log_z_ref, divergence })
    }
}

/// The mean of the log-ratio of two distributions, under the first.
struct MeanLogRatio<'a, T> {
    values: &'a [T],
    log_z: f64,
    others: &'a [T],
    other_log_z: f64,
}

impl<T: Real> Kernel for MeanLogRatio<'_, T> {
    type Output = f64;

    #[inline(always)]
    fn run(self) -> f64 {
        let (mut terms, mut total) = ([0.0; ROOM], 0.0);
        let log_z_ratio = self.other_log_z - self.log_z;
        for (values, others) in self.values.chunks(ROOM).zip(self.others.chunks(ROOM)) {
            let terms = &mut terms[..values.len()];
            for place in 0..values.len() {
                let (value, other) = (values[place].widen(), others[place].widen());
                // Logits that are near each other have an exact difference.
                let log_ratio = (other - value) - log_z_ratio;
                terms[place] = term(exp(value - self.log_z), exp(other - self.other_log_z), log_ratio);
            }
            // Plain, for a sum that carries its error would make infinity NaN.
            total += simd::sum(terms);
        }
        total
    }
}

/// `p (exp(x) - 1 - x)` at `x = log(q / p)`, which is `q - p - p x`; q where p is 0.
#[inline(always)]
fn term(p: f64, q: f64, x: f64) -> f64 {
    if p <= 0.0 {
        q
    } else if x > 1.0 {
        // The exponential of x may be beyond f64 where p is tiny.
        q - p - p * x
    } else {
        p * exp_less_line(x)
    }
}
