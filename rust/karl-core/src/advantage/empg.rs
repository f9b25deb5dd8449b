//! Advantages that are turned up where the policy was sure, and down where it was not.

use crate::check::{
    check_finite, check_length, check_not_infinite, check_not_negative, check_number, check_within,
};
use crate::error::Result;
use crate::group::offsets::Offsets;
use crate::numeric::Real;
use crate::numeric::sum::sum;

/// The numbers of [`empg`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Empg {
    /// Rate at which the gradient falls with entropy.
    pub fade: f64,
    /// Rate at which the bonus falls with the entropy of the next step.
    pub bonus_fade: f64,
    /// Largest bonus: that of a step before the step of least entropy.
    pub bonus: f64,
    /// Added to the span of the entropies, and to the mean that scales the gains.
    pub eps: f64,
}

impl Default for Empg {
    fn default() -> Self {
        // ARLArena dc1da9f, recipe/shop_agent/ppo/core_algos.py:550 (k, k_f, zeta) and :600.
        Self { fade: 1.0, bonus_fade: 1.0, bonus: 0.05, eps: 1e-8 }
    }
}

/// Compute entropy-modulated advantages of the steps of trajectories.
///
/// ```text
/// h_k = (H_k - min H) / (max H - min H + eps),    g_k = exp(-fade h_k) / (mean_j exp(-fade h_j) + eps)
/// A_k <- A_k g_k + bonus exp(-bonus_fade h_{k+1})     (no bonus for the last step of a trajectory)
/// A_k <- A_k - mean_j A_j
/// ```
///
/// `H_k` is the mean entropy of the tokens of step k; minimum, maximum and means are over all steps. Entropies that are all
/// equal have h = 0. A missing advantage stays missing and is left out of the mean that is taken off.
/// Shapes: advantages and entropies `[U]`, offsets of the trajectories `[N + 1]`, result `[U]`. Cost: two `exp` a step.
/// Reference: EMPG (arXiv:2509.09265), equations 8 to 12.
///
/// # Errors
/// [`Error::NotFinite`](crate::Error::NotFinite) for an infinite advantage, or an entropy that is not finite;
/// [`Error::Outside`](crate::Error::Outside) for a negative entropy;
/// [`Error::Negative`](crate::Error::Negative) for a negative fade, bonus or eps,
/// [`Error::Number`](crate::Error::Number) for an infinite one;
/// [`Error::Length`](crate::Error::Length) where columns differ in steps.
pub fn empg<R: Real, H: Real>(
    advantages: &[R],
    entropies: &[H],
    trajectories: Offsets<'_>,
    how: Empg,
) -> Result<Vec<f64>> {
    check_length("advantages", advantages.len(), trajectories.values())?;
    check_length("entropies", entropies.len(), trajectories.values())?;
    let numbers =
        [("fade", how.fade), ("bonus_fade", how.bonus_fade), ("bonus", how.bonus), ("eps", how.eps)];
    for (what, value) in numbers {
        check_not_negative(what, value)?;
        check_number(what, value)?;
    }
    check_not_infinite("advantages", advantages)?;
    check_finite("entropies", entropies)?;
    check_within("entropies", entropies, 0.0, f64::INFINITY)?;
    let levels = levels(entropies, how.eps);
    let gains: Vec<f64> = levels.iter().map(|level| libm::exp(-how.fade * level)).collect();
    let gain = sum(gains.iter().copied()) / gains.len() as f64 + how.eps;
    let mut modulated: Vec<f64> =
        advantages.iter().zip(&gains).map(|(advantage, own)| advantage.widen() * (own / gain)).collect();
    for steps in trajectories.rows().filter(|steps| !steps.is_empty()) {
        for step in steps.start..steps.end - 1 {
            modulated[step] += how.bonus * libm::exp(-how.bonus_fade * levels[step + 1]);
        }
    }
    centre(&mut modulated);
    Ok(modulated)
}

/// Entropies from 0, the least of all, to nearly 1, the largest.
fn levels<H: Real>(entropies: &[H], eps: f64) -> Vec<f64> {
    let entropies = || entropies.iter().map(|entropy| entropy.widen());
    let min = entropies().fold(f64::INFINITY, f64::min);
    let max = entropies().fold(f64::NEG_INFINITY, f64::max);
    let level = |entropy: f64| if min < max { (entropy - min) / (max - min + eps) } else { 0.0 };
    entropies().map(level).collect()
}

/// Take the mean of the present ones off each.
fn centre(advantages: &mut [f64]) {
    let present = advantages.iter().copied().filter(|advantage| !advantage.is_nan());
    let mean = sum(present.clone()) / present.count() as f64;
    for advantage in advantages {
        *advantage -= mean;
    }
}
