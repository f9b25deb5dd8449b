//! Mean 0 and variance 1 over all tokens: REINFORCE++.

use super::Layout;
use super::centre::centre;
use super::frame::check_rewards;
use super::returns::discounted_returns;
use super::whole::Whole;
use crate::blocks;
use crate::error::{Error, Result, check_length, check_not_negative};
use crate::ragged::Offsets;
use crate::real::Real;

/// The numbers of [`whiten()`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Whitening {
    /// Taken from the count under the variance.
    pub ddof: u8,
    /// Added to the variance, inside the root.
    pub eps: f64,
}

impl Default for Whitening {
    fn default() -> Self {
        // verl b178a3c, verl/utils/torch_functional.py:304-336.
        Self { ddof: 1, eps: 1e-8 }
    }
}

/// Values with mean 0 and variance 1.
///
/// ```text
/// w_t = (x_t - mean) / sqrt(var + eps),    var = sum (x_t - mean)^2 / (n - ddof)
/// ```
///
/// Mean and variance are over the `n` present values that the mask keeps; a value it does not keep becomes 0, and a
/// missing one stays missing. Values that are all equal become exactly 0. `OpenRLHF` has ddof 0 and a variance of at
/// least 1e-8. Shapes: values `[T]`, mask `[T]`, result `[T]`. Cost: three passes.
/// Reference: Hu et al. 2025, REINFORCE++ (arXiv:2501.03262).
///
/// # Errors
/// [`Error::NotFinite`] for an infinite value, or a result beyond f64; [`Error::Negative`] for a negative `eps`;
/// [`Error::Length`] where values and mask differ.
pub fn whiten<R: Real>(
    values: &[R],
    mask: Option<&[bool]>,
    how: Whitening,
    threads: usize,
) -> Result<Vec<f64>> {
    check_length("mask", mask.map_or(values.len(), <[bool]>::len), values.len())?;
    let kept = |at: usize| mask.is_none_or(|mask| mask[at]);
    whiten_by(values, |at| if kept(at) { 1.0 } else { 0.0 }, how, threads)
}

/// Whitened values that weigh: as if each stood there as often as it weighs.
fn whiten_by<R: Real>(
    values: &[R],
    weight: impl Fn(usize) -> f64 + Sync,
    Whitening { ddof, eps }: Whitening,
    threads: usize,
) -> Result<Vec<f64>> {
    check_not_negative("eps", eps)?;
    check_rewards(values)?;
    let whole = Whole::of(values, &weight, threads);
    let divisor = (whole.variance(ddof) + eps).sqrt();
    let one = |at: usize| match values[at].widen() {
        value if value.is_nan() => value,
        _ if weight(at) == 0.0 || whole.is_constant() => 0.0,
        value => (value - whole.mean) / divisor,
    };
    let mut whitened = vec![0.0; values.len()];
    blocks::fill(&mut whitened, threads, |first, block| {
        block.iter_mut().zip(first..).for_each(|(value, at)| *value = one(at));
    });
    let wrong = |at: &usize| !whitened[*at].is_finite() && !values[*at].widen().is_nan();
    match (0..values.len()).find(wrong) {
        Some(index) => Err(Error::NotFinite { what: "advantage", index, value: whitened[index] }),
        None => Ok(whitened),
    }
}

/// REINFORCE++: discounted returns of tokens, whitened over all tokens of the batch.
///
/// ```text
/// R_t = r_t + gamma R_{t+1},    A_t = whiten(R)_t
/// ```
///
/// Shapes: rewards `[T]`, offsets of the rollouts `[B + 1]`, result `[T]`. Cost: four passes.
/// Reference: Hu et al. 2025 (arXiv:2501.03262).
///
/// # Errors
/// As [`discounted_returns`] and [`whiten()`].
pub fn reinforce_plus_plus<R: Real>(
    rewards: &[R],
    offsets: Offsets<'_>,
    gamma: f64,
    how: Whitening,
    threads: usize,
) -> Result<Vec<f64>> {
    whiten(&discounted_returns(rewards, offsets, gamma, threads)?, None, how, threads)
}

/// REINFORCE++ with a group baseline: rewards centred in their group, then whitened over all tokens of the batch.
///
/// ```text
/// c_i = r_i - mean_g,    A_i = (c_i - sum_j T_j c_j / n) / sqrt(var + eps),    n = sum_j T_j
/// ```
///
/// All tokens of a rollout have one advantage, so it is given once a rollout, and the `T_i` tokens count as weights:
/// longer rollouts move mean and variance more. A rollout without tokens has advantage 0. A group of equal rewards is 0
/// before it is whitened; verl centres a group of one at 0 instead of at its reward.
/// Shapes: rewards `[B]`, offsets of the tokens `[B + 1]`, result `[B]`. Cost: five passes.
/// Reference: Hu et al. 2025 (arXiv:2501.03262).
///
/// # Errors
/// As [`centre`] and [`whiten()`]; [`Error::Length`] where rewards and offsets of tokens differ in rows.
pub fn reinforce_plus_plus_baseline<'a, R: Real>(
    rewards: &[R],
    groups: impl Into<Layout<'a>>,
    tokens: Offsets<'_>,
    how: Whitening,
    threads: usize,
) -> Result<Vec<f64>> {
    check_length("token_offsets (less one)", tokens.len(), rewards.len())?;
    let centred = centre(rewards, groups, threads)?;
    whiten_by(&centred, |row| tokens.row(row).len() as f64, how, threads)
}
