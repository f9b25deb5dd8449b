//! Weights of a likelihood: the exponential of an advantage or of a reward, clipped, normalised or both.

use crate::check::{check_not_infinite, check_not_negative, check_positive};
use crate::error::Result;
use crate::logsumexp::log_sum_exp;
use crate::numeric::exp::{Each, exp, ln};
use crate::numeric::simd::wide;
use crate::numeric::{Real, parallel};

/// Compute the weights of advantage-weighted regression.
///
/// ```text
/// w_i = min(exp(A_i / t), clip)                 t = temperature
/// normalised:  w_i / sum_j w_j                  after the clip
/// ```
///
/// A missing advantage has weight 0. Without a clip, normalised weights are a softmax, computed from logarithms,
/// which cannot overflow. Shapes: `[B]`. Cost: one exponential a row, two where they are normalised.
/// Reference: AWR (arXiv:1910.00177), with a clip of 20.
///
/// # Errors
/// [`Error::NotFinite`](crate::Error::NotFinite) for an infinite advantage, or a weight beyond f64;
/// [`Error::Positive`](crate::Error::Positive) for a temperature or a clip that is not above zero.
pub fn awr_weights<T: Real>(
    advantages: &[T],
    temperature: f64,
    clip: Option<f64>,
    normalised: bool,
    threads: usize,
) -> Result<Vec<f64>> {
    check_not_infinite("advantage", advantages)?;
    check_positive("temperature", temperature)?;
    clip.map_or(Ok(()), |clip| check_positive("clip", clip))?;
    let most = clip.map_or(f64::INFINITY, ln);
    exponentiate(advantages, |advantage| (advantage / temperature).min(most), normalised, threads)
}

/// Weights of reward-weighted regression, which add up to 1.
///
/// ```text
/// w_i = exp(b r_i) / sum_j exp(b r_j)           b = inverse temperature
/// ```
///
/// A missing reward has weight 0. Shapes: `[B]`. Cost: two exponentials a row.
/// Reference: Peters and Schaal 2007.
///
/// # Errors
/// [`Error::NotFinite`](crate::Error::NotFinite) for an infinite reward, or an exponent beyond f64;
/// [`Error::Negative`](crate::Error::Negative) for a negative inverse temperature.
pub fn rwr_weights<T: Real>(rewards: &[T], inverse_temperature: f64, threads: usize) -> Result<Vec<f64>> {
    check_not_infinite("rewards", rewards)?;
    check_not_negative("inverse_temperature", inverse_temperature)?;
    exponentiate(rewards, |reward| inverse_temperature * reward, true, threads)
}

fn exponentiate<T: Real>(
    values: &[T],
    exponent: impl Fn(f64) -> f64 + Sync,
    normalised: bool,
    threads: usize,
) -> Result<Vec<f64>> {
    let mut weights = vec![0.0; values.len()];
    parallel::fill(&mut weights, threads, |first, block| {
        for (weight, value) in block.iter_mut().zip(&values[first..]) {
            // `min` with a clip would take the clip for what is missing.
            *weight = if value.widen().is_nan() { f64::NEG_INFINITY } else { exponent(value.widen()) };
        }
    });
    let log_z = if normalised { log_sum_exp(&weights, threads)?.max(f64::MIN) } else { 0.0 };
    parallel::fill(&mut weights, threads, |_, block| {
        for weight in &mut *block {
            *weight -= log_z;
        }
        wide(Each(block, exp));
    });
    check_not_infinite("weight", &weights).map(|()| weights)
}
