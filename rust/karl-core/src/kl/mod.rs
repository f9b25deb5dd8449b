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

mod categorical;

pub use categorical::{Direction, categorical, categorical_gradient};

use crate::check::{check_finite, check_finite_where, check_length, check_not_infinite, check_range};
use crate::error::Result;
use crate::group::offsets::Offsets;
use crate::numeric::exp::{exp, exp_less_line};
use crate::numeric::float::Real;
use crate::numeric::parallel;
use crate::numeric::simd::{Kernel, wide};
use crate::numeric::sum::Compensated;

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
/// [`Error::Length`](crate::Error::Length) where arguments differ in tokens;
/// [`Error::NotFinite`](crate::Error::NotFinite) for a log-probability that is not finite, or an
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
/// As [`estimate`]; [`Error::NotFinite`](crate::Error::NotFinite) for an infinite reward;
/// [`Error::Range`](crate::Error::Range) for a coefficient that is negative or not finite.
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
