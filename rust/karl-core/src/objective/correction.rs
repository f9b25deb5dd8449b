//! The axis: weights for tokens that another arithmetic drew than the one that learns.
//!
//! A rollout may be drawn with 8-bit caches or in 16 bits, and its log-probability under the same weights is another in
//! the pass that gradients flow through. Three policies are apart: the one that drew (`rollout`), the same weights in
//! the arithmetic of training (`old`), and the policy as it moves. This weight is of the first two alone, and carries
//! no gradient; how far the policy has moved from `old` is the ratio of the objective.

use super::arithmetic::RealArithmetic;
use crate::check::{check_length, check_range};
use crate::error::Result;
use crate::group::offsets::Offsets;
use crate::numeric::exp::{exp, exp_and_less_line};

/// The tokens that share a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CorrectionLevel {
    /// Each token its own: `exp(d_t)`.
    Token,
    /// All of a rollout: `exp(sum d_t)`.
    Sequence,
    /// All of a rollout: `exp(mean d_t)`.
    Geometric,
}

/// What becomes of a weight out of its range.
///
/// ```text
/// d_t = logp_old_t - logp_rollout_t,   w = exp of d at the level
/// truncate   min(w, high)
/// mask       w within [low, high], 0 outside of it
/// ```
///
/// Reference: Yao et al. 2025, Your Efficient RL Framework Secretly Brings You Off-Policy RL Training (truncated);
/// Ling team 2025, Ring-1T (arXiv:2510.18855), section on `IcePop` (token mask); Liu et al. 2025 (arXiv:2512.23075)
/// for sequences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Correction {
    /// The tokens that share a weight.
    pub level: CorrectionLevel,
    /// The least weight that is kept; 0 for no bound.
    pub low: f64,
    /// The largest.
    pub high: f64,
    /// True to drop what is out of the range, false to hold it at `high`.
    pub mask: bool,
}

/// How far two arithmetics are apart over the tokens that count, and what a correction does about it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mismatch {
    /// Number of tokens that count.
    pub tokens: u64,
    /// Mean of `exp(d) - 1 - d`: k3 of the policy that drew from the one that learns, in nats a token.
    pub k3: f64,
    /// Mean of `exp(d)^2`, less 1: chi-square of tokens.
    pub chi2: f64,
    /// Share of tokens with a weight below `low`.
    pub low: f64,
    /// Share of tokens with a weight above `high`.
    pub high: f64,
    /// Effective sample size of the weights of tokens, as a share of their number; 0 where all are dropped.
    pub ess: f64,
}

/// Write the weight of each token, 0 for those that do not count; return how far the arithmetics are apart.
///
/// Shapes: `old`, `rollout`, `mask`, `out` `[N]`. Cost: two exponentials a token. A NaN stays one.
///
/// # Errors
/// [`Error::Length`](crate::Error::Length) for columns that do not match; [`Error::Range`](crate::Error::Range) for
/// `low` outside [0, 1] or `high` below 1: either would change a weight of 1.
pub fn correction_weights<T: RealArithmetic>(
    old: &[T],
    rollout: &[T],
    mask: &[bool],
    offsets: &Offsets<'_>,
    correction: Correction,
    out: &mut [f64],
) -> Result<Mismatch> {
    check_length("logp_old", old.len(), offsets.values())?;
    check_length("logp_rollout", rollout.len(), old.len())?;
    check_length("mask", mask.len(), old.len())?;
    check_length("weights", out.len(), old.len())?;
    check_range("low", correction.low, 0.0, 1.0)?;
    check_range("high", correction.high, 1.0, f64::INFINITY)?;
    let drift = |at: usize| old[at].widen() - rollout[at].widen();
    let (mut tokens, mut low, mut high) = (0_u64, 0_u64, 0_u64);
    let (mut k3, mut squares, mut sum, mut of_squares) = (0.0, 0.0, 0.0, 0.0);
    out.fill(0.0);
    for row in 0..offsets.len() {
        let counted = || offsets.row(row).filter(|&at| mask[at]);
        let count = counted().count() as f64;
        let total: f64 = match correction.level {
            CorrectionLevel::Token => 0.0,
            CorrectionLevel::Sequence => counted().map(drift).sum(),
            CorrectionLevel::Geometric => counted().map(drift).sum::<f64>() / count,
        };
        let shared = exp(total);
        for at in counted() {
            let (ratio, excess) = exp_and_less_line(drift(at));
            let weight = if correction.level == CorrectionLevel::Token { ratio } else { shared };
            let (below, above) = (correction.mask && weight < correction.low, weight > correction.high);
            let weight = match (below || above, correction.mask) {
                (false, _) => weight,
                (true, true) => 0.0,
                (true, false) => correction.high,
            };
            out[at] = weight;
            tokens += 1;
            low += u64::from(below);
            high += u64::from(above);
            k3 += excess;
            squares += ratio * ratio;
            sum += weight;
            of_squares += weight * weight;
        }
    }
    let count = tokens.max(1) as f64;
    Ok(Mismatch {
        tokens,
        k3: k3 / count,
        chi2: if tokens == 0 { 0.0 } else { squares / count - 1.0 },
        low: low as f64 / count,
        high: high as f64 / count,
        ess: if of_squares == 0.0 { 0.0 } else { sum * sum / of_squares / count },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: [f64; 5] = [-1.0, -2.0, -0.5, 9.0, -1.0];
    const ROLLOUT: [f64; 5] = [-2.0, -1.0, -0.5, 1.0, -3.0];
    const MASK: [bool; 5] = [true, true, true, false, true];

    fn weigh(level: CorrectionLevel, low: f64, high: f64, mask: bool) -> ([f64; 5], Mismatch) {
        let (mut out, starts) = ([9.0; 5], [0, 3, 5]);
        let offsets = Offsets::new("offsets", &starts, 5).unwrap();
        let correction = Correction { level, low, high, mask };
        let statistics = correction_weights(&OLD, &ROLLOUT, &MASK, &offsets, correction, &mut out).unwrap();
        (out, statistics)
    }

    #[test]
    fn a_truncated_weight_is_held_and_a_masked_one_dropped() {
        let (e, tiny) = (std::f64::consts::E, 1e-15);
        let (held, statistics) = weigh(CorrectionLevel::Token, 0.0, 2.0, false);
        assert!(held.iter().zip([2.0, 1.0 / e, 1.0, 0.0, 2.0]).all(|(a, b)| (a - b).abs() < tiny));
        assert_eq!((statistics.tokens, statistics.low, statistics.high), (4, 0.0, 0.5));
        let (held, statistics) = weigh(CorrectionLevel::Token, 0.5, 5.0, true);
        assert!(held.iter().zip([e, 0.0, 1.0, 0.0, 0.0]).all(|(a, b)| (a - b).abs() < tiny));
        assert_eq!((statistics.low, statistics.high), (0.25, 0.25));
    }

    #[test]
    fn a_rollout_shares_its_product_or_its_mean() {
        let (held, _) = weigh(CorrectionLevel::Sequence, 0.0, 3.0, true);
        assert_eq!(held.map(f64::to_bits), [1.0, 1.0, 1.0, 0.0, 0.0].map(f64::to_bits));
        let (held, statistics) = weigh(CorrectionLevel::Geometric, 0.0, f64::INFINITY, true);
        assert_eq!(held.map(f64::to_bits), [1.0, 1.0, 1.0, 0.0, exp(2.0)].map(f64::to_bits));
        let (sum, squares) = (3.0 + exp(2.0), 3.0 + exp(4.0));
        assert!((statistics.ess - sum * sum / squares / 4.0).abs() < 1e-14);
    }

    #[test]
    fn equal_arithmetics_have_weights_of_one_to_the_bit() {
        let (mut out, starts) = ([9.0; 5], [0, 3, 5]);
        let offsets = Offsets::new("offsets", &starts, 5).unwrap();
        for level in [CorrectionLevel::Token, CorrectionLevel::Sequence, CorrectionLevel::Geometric] {
            let correction = Correction { level, low: 1.0, high: 1.0, mask: true };
            let statistics = correction_weights(&OLD, &OLD, &MASK, &offsets, correction, &mut out).unwrap();
            assert_eq!(out.map(f64::to_bits), [1.0, 1.0, 1.0, 0.0, 1.0].map(f64::to_bits));
            assert_eq!((statistics.k3, statistics.chi2, statistics.ess), (0.0, 0.0, 1.0));
        }
    }

    #[test]
    fn nan_is_not_hidden_by_a_mask() {
        let (mut out, starts, old) = ([0.0; 1], [0, 1], [f64::NAN]);
        let offsets = Offsets::new("offsets", &starts, 1).unwrap();
        let correction = Correction { level: CorrectionLevel::Token, low: 0.5, high: 5.0, mask: true };
        correction_weights(&old, &[-1.0], &[true], &offsets, correction, &mut out).unwrap();
        assert!(out[0].is_nan());
    }
}
