//! Filters of off-policy rollouts and tokens, by their log-probabilities.

use std::ops::Range;

use super::{MaskReason, each_reason};
use crate::check::{check_finite, check_length, check_not_infinite, check_not_negative};
use crate::error::{Error, Result};
use crate::group::offsets::Offsets;
use crate::numeric::Real;
use crate::numeric::exp::exp;
use crate::numeric::parallel;
use crate::numeric::simd::{Kernel, wide};

/// Terms that are added side by side, so that a sum is not one long chain of additions.
const LANES: usize = 8;

/// The tokens of rollouts under the policy and under the one that produced them.
#[derive(Clone, Copy, Debug)]
pub struct RatioTokens<'a, L, O> {
    logp: &'a [L],
    logp_old: &'a [O],
    offsets: Offsets<'a>,
    mask: Option<&'a [bool]>,
}

impl<'a, L: Real, O: Real> RatioTokens<'a, L, O> {
    /// Take log-probabilities `[T]` in nats, where each rollout begins `[B + 1]`, and which tokens are the policy's
    /// own `[T]`; the others are not read.
    ///
    /// # Errors
    /// [`Error::Length`] for columns that differ in tokens; [`Error::NotFinite`] for a log-probability that is not
    /// finite.
    pub fn new(
        logp: &'a [L],
        logp_old: &'a [O],
        offsets: Offsets<'a>,
        mask: Option<&'a [bool]>,
    ) -> Result<Self> {
        check_length("logp", logp.len(), offsets.values())?;
        check_length("logp_old", logp_old.len(), offsets.values())?;
        if let Some(mask) = mask {
            check_length("mask", mask.len(), offsets.values())?;
        }
        check_logp("logp", logp, mask)?;
        check_logp("logp_old", logp_old, mask)?;
        Ok(Self { logp, logp_old, offsets, mask })
    }

    /// Keep the tokens that the mask does not take.
    fn keep_others(&self, tokens: Range<usize>, reasons: &mut [MaskReason]) {
        if let Some(mask) = self.mask {
            let others = reasons.iter_mut().zip(&mask[tokens]).filter(|&(_, &taken)| !taken);
            others.for_each(|(reason, _)| *reason = MaskReason::Kept);
        }
    }

    /// `mean_t(logp_old - logp)` over the tokens of a rollout; 0 where it has none.
    fn mean_fall(&self, tokens: Range<usize>) -> f64 {
        let (old, new) = (&self.logp_old[tokens.clone()], &self.logp[tokens.clone()]);
        let (total, count) = match self.mask {
            None => (sum_falls(old, new), old.len()),
            Some(mask) => sum_masked_falls(old, new, &mask[tokens]),
        };
        if count == 0 { 0.0 } else { total / count as f64 }
    }

    /// Return the rollouts that hold the tokens from `first` on, as many as `count`: each with its part of them.
    fn within(&self, tokens: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let mut row = first_after(&self.offsets, tokens.start);
        std::iter::from_fn(move || {
            let place = (row < self.offsets.len()).then(|| self.offsets.row(row))?;
            row += 1;
            (place.start < tokens.end)
                .then(|| (row - 1, place.start.max(tokens.start)..place.end.min(tokens.end)))
        })
    }
}

/// Drop rollouts of negative advantage that have become less likely under the policy.
///
/// ```text
/// keep_i = A_i >= 0  or  mean_t(logp_old - logp) <= delta
/// ```
///
/// The second is the geometric mean of the ratio, at least `exp(-delta)`: 0.223 = ln 1.25 means 0.8. The mean is over
/// the unmasked tokens of the rollout; a rollout without any is kept. A missing advantage drops.
/// Shapes: advantages `[B]`. Cost: one pass over the tokens.
/// Reference: SAMPO (arXiv:2602.21534), section on clipping; the off-policy sequence mask of DeepSeek-V3.2 is the
/// same.
///
/// # Errors
/// [`Error::Length`] for advantages of other rollouts; [`Error::NotFinite`] for an infinite advantage or a `delta`
/// that is not finite.
pub fn low_ratio_negatives<L: Real, O: Real, A: Real>(
    tokens: &RatioTokens<'_, L, O>,
    advantages: &[A],
    delta: f64,
    threads: usize,
) -> Result<Vec<MaskReason>> {
    check_advantages(advantages, &tokens.offsets)?;
    check_finite("delta", &[delta])?;
    let reason = |row: usize| match advantages[row].widen() {
        advantage if advantage.is_nan() => MaskReason::MissingAdvantage,
        advantage if advantage >= 0.0 => MaskReason::Kept,
        _ if tokens.mean_fall(tokens.offsets.row(row)) <= delta => MaskReason::Kept,
        _ => MaskReason::LowRatio,
    };
    Ok(each_reason(advantages.len(), threads, reason))
}

/// Drop tokens with a probability that has moved far enough in the direction of their advantage.
///
/// ```text
/// d_t = exp(logp_t) - exp(logp_old_t)
/// A > 0:  drop where d_t > high          A < 0:  drop where d_t < -low          A = 0:  keep
/// ```
///
/// The difference, not the ratio, is bounded: a rare token may double in probability with little total variation.
/// Tokens outside the mask are kept. A missing advantage drops all tokens of its rollout.
/// Shapes: advantages `[B]`, result `[T]`. Cost: two exponentials a token. Reference: DPPO with binary total
/// variation (arXiv:2602.04879); the default loss of prime-rl.
///
/// # Errors
/// [`Error::Length`] for advantages of other rollouts; [`Error::NotFinite`] for an infinite advantage;
/// [`Error::Negative`] for a negative bound.
pub fn probability_difference<L: Real, O: Real, A: Real>(
    tokens: &RatioTokens<'_, L, O>,
    advantages: &[A],
    (low, high): (f64, f64),
    threads: usize,
) -> Result<Vec<MaskReason>> {
    check_advantages(advantages, &tokens.offsets)?;
    check_not_negative("low", low)?;
    check_not_negative("high", high)?;
    let mut reasons = vec![MaskReason::Kept; tokens.logp.len()];
    parallel::fill(&mut reasons, threads, |first, block| {
        for (row, part) in tokens.within(first..first + block.len()) {
            let reasons = &mut block[part.start - first..part.end - first];
            let (new, old) = (&tokens.logp[part.clone()], &tokens.logp_old[part.clone()]);
            match advantages[row].widen() {
                up if up > 0.0 => {
                    wide(Far { to: new, from: old, bound: high, reason: MaskReason::AboveHigh, reasons });
                }
                down if down < 0.0 => {
                    wide(Far { to: old, from: new, bound: low, reason: MaskReason::BelowLow, reasons });
                }
                missing if missing.is_nan() => reasons.fill(MaskReason::MissingAdvantage),
                _ => (),
            }
            tokens.keep_others(part.clone(), &mut block[part.start - first..part.end - first]);
        }
    });
    Ok(reasons)
}

/// Gives a reason to each token of which `exp(to) - exp(from) > bound`.
struct Far<'a, T, F> {
    to: &'a [T],
    from: &'a [F],
    bound: f64,
    reason: MaskReason,
    reasons: &'a mut [MaskReason],
}

impl<T: Real, F: Real> Kernel for Far<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for ((given, to), from) in self.reasons.iter_mut().zip(self.to).zip(self.from) {
            let far = exp(to.widen()) - exp(from.widen()) > self.bound;
            *given = if far { self.reason } else { MaskReason::Kept };
        }
    }
}

/// Return the sum of `old - new`, token t in lane t mod 8.
fn sum_falls<L: Real, O: Real>(old: &[O], new: &[L]) -> f64 {
    let mut sums = [0.0; LANES];
    for (old, new) in old.chunks(LANES).zip(new.chunks(LANES)) {
        for ((sum, old), new) in sums.iter_mut().zip(old).zip(new) {
            *sum += old.widen() - new.widen();
        }
    }
    tree(sums)
}

/// Return the same over the tokens that a mask takes, and how many they are.
fn sum_masked_falls<L: Real, O: Real>(old: &[O], new: &[L], mask: &[bool]) -> (f64, usize) {
    let (mut sums, mut count) = ([0.0; LANES], 0);
    for (token, _) in mask.iter().enumerate().filter(|&(_, &taken)| taken) {
        sums[token % LANES] += old[token].widen() - new[token].widen();
        count += 1;
    }
    (tree(sums), count)
}

/// Lanes to one number, in pairs: a fixed order, whatever the machine.
fn tree(sums: [f64; LANES]) -> f64 {
    let pairs: [f64; 4] = std::array::from_fn(|at| sums[2 * at] + sums[2 * at + 1]);
    (pairs[0] + pairs[1]) + (pairs[2] + pairs[3])
}

/// Return the first rollout that ends after a token.
fn first_after(offsets: &Offsets<'_>, token: usize) -> usize {
    let (mut low, mut high) = (0, offsets.len());
    while low < high {
        let middle = low.midpoint(high);
        if offsets.row(middle).end <= token { low = middle + 1 } else { high = middle }
    }
    low
}

fn check_advantages<A: Real>(advantages: &[A], offsets: &Offsets<'_>) -> Result<()> {
    check_length("advantages", advantages.len(), offsets.len())?;
    check_not_infinite("advantages", advantages)
}

fn check_logp<R: Real>(what: &'static str, values: &[R], mask: Option<&[bool]>) -> Result<()> {
    let Some(mask) = mask else { return check_finite(what, values) };
    match (0..values.len()).find(|&index| mask[index] && !values[index].widen().is_finite()) {
        Some(index) => Err(Error::NotFinite { what, index, value: values[index].widen() }),
        None => Ok(()),
    }
}
