//! Mean 0 and variance 1 over all tokens: REINFORCE++.

use super::baseline::centre;
use super::engine::stats::GlobalStats;
use super::returns::discounted_returns;
use crate::check::{check_length, check_not_negative};
use crate::error::{Error, Result};
use crate::group::Layout;
use crate::group::offsets::Offsets;
use crate::numeric::Real;
use crate::numeric::parallel;

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

/// Scale values to mean 0 and variance 1.
///
/// ```text
/// w_t = (x_t - mean) / sqrt(var + eps),    var = sum (x_t - mean)^2 / (n - ddof)
/// ```
///
/// Mean and variance are over the `n` present values that the mask keeps; a value it does not keep is not read and
/// becomes 0, and a missing one stays missing. Values that are all equal become exactly 0. `OpenRLHF` has ddof 0 and a variance of at
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
    check_mask(mask, values.len())?;
    let kept = |at: usize| mask.is_none_or(|mask| mask[at]);
    whiten_by(values, |at| if kept(at) { 1.0 } else { 0.0 }, how, threads)
}

fn check_mask(mask: Option<&[bool]>, values: usize) -> Result<()> {
    mask.map_or(Ok(()), |mask| check_length("mask", mask.len(), values))
}

/// Whitened values that weigh: as if each stood there as often as it weighs. One that weighs nothing is not read.
fn whiten_by<R: Real>(
    values: &[R],
    weight: impl Fn(usize) -> f64 + Sync,
    Whitening { ddof, eps }: Whitening,
    threads: usize,
) -> Result<Vec<f64>> {
    check_not_negative("eps", eps)?;
    let wrong = |&at: &usize| weight(at) > 0.0 && values[at].widen().is_infinite();
    if let Some(index) = (0..values.len()).find(wrong) {
        return Err(Error::NotFinite { what: "values", index, value: values[index].widen() });
    }
    let whole = GlobalStats::of(values, &weight, threads);
    let divisor = (whole.variance(ddof) + eps).sqrt();
    let one = |at: usize| match values[at].widen() {
        _ if weight(at) == 0.0 => 0.0,
        value if value.is_nan() => value,
        _ if whole.is_constant() => 0.0,
        value => (value - whole.mean) / divisor,
    };
    let mut whitened = vec![0.0; values.len()];
    parallel::fill(&mut whitened, threads, |first, block| {
        block.iter_mut().zip(first..).for_each(|(value, at)| *value = one(at));
    });
    let beyond = |&at: &usize| !(whitened[at].is_finite() || values[at].widen().is_nan() && weight(at) > 0.0);
    match (0..values.len()).find(beyond) {
        Some(index) => Err(Error::NotFinite { what: "advantage", index, value: whitened[index] }),
        None => Ok(whitened),
    }
}

/// Compute REINFORCE++ advantages: discounted returns of tokens, whitened over all tokens of the batch.
///
/// ```text
/// R_t = r_t + gamma R_{t+1},    A_t = whiten(R)_t
/// ```
///
/// A token that the mask does not keep is not read and has advantage 0; the return goes on across it, as though it were
/// not there (verl begins anew behind it, which is the same where only padding is masked).
/// Shapes: rewards `[T]`, offsets of the rollouts `[B + 1]`, mask `[T]`, result `[T]`. Cost: four passes; with a mask one
/// more, and what is kept is copied.
/// Reference: Hu et al. 2025 (arXiv:2501.03262).
///
/// # Errors
/// As [`discounted_returns`] and [`whiten()`].
pub fn reinforce_plus_plus<R: Real>(
    (rewards, mask): (&[R], Option<&[bool]>),
    offsets: Offsets<'_>,
    gamma: f64,
    how: Whitening,
    threads: usize,
) -> Result<Vec<f64>> {
    check_length("rewards", rewards.len(), offsets.values())?;
    check_mask(mask, rewards.len())?;
    let Some(mask) = mask else {
        return whiten(&discounted_returns(rewards, offsets, gamma, threads)?, None, how, threads);
    };
    let kept: Vec<usize> = (0..rewards.len()).filter(|&at| mask[at]).collect();
    let column: Vec<R> = kept.iter().map(|&at| rewards[at]).collect();
    let ends = offsets_of_kept(offsets, mask);
    let rows = Offsets::new("offsets", &ends, column.len())?;
    let place = |error| with_row(error, &kept);
    let returns = discounted_returns(&column, rows, gamma, threads).map_err(place)?;
    let whitened = whiten(&returns, None, how, threads).map_err(place)?;
    let mut advantages = vec![0.0; rewards.len()];
    kept.iter().zip(whitened).for_each(|(&at, value)| advantages[at] = value);
    Ok(advantages)
}

/// Return the offsets of the rows among the values that are kept.
fn offsets_of_kept(offsets: Offsets<'_>, mask: &[bool]) -> Vec<i64> {
    let mut ends = vec![0];
    let mut seen = 0;
    for row in offsets.rows() {
        seen += mask[row].iter().map(|&keep| i64::from(keep)).sum::<i64>();
        ends.push(seen);
    }
    ends
}

/// Return the error with the place in the whole column.
fn with_row(error: Error, kept: &[usize]) -> Error {
    match error {
        Error::NotFinite { what, index, value } => Error::NotFinite { what, index: kept[index], value },
        other => other,
    }
}

/// REINFORCE++ with a group baseline: rewards centred in their group, then whitened over all tokens of the batch.
///
/// ```text
/// c_i = r_i - mean_g,    A_i = (c_i - sum_j T_j c_j / n) / sqrt(var + eps),    n = sum_j T_j
/// ```
///
/// All tokens of a rollout have one advantage, so it is given once a rollout, and the `T_i` tokens count as weights:
/// longer rollouts move mean and variance more. `T_i` counts the tokens that the mask keeps, and a rollout with a reward
/// and without any has advantage 0. A group of equal rewards is 0 before it is whitened; verl centres a group of one at 0 instead of at its
/// reward.
/// Shapes: rewards `[B]`, offsets of the tokens `[B + 1]`, mask `[T]`, result `[B]`. Cost: five passes.
/// Reference: Hu et al. 2025 (arXiv:2501.03262).
///
/// # Errors
/// As [`centre`] and [`whiten()`]; [`Error::Length`] where rewards and offsets of tokens, or tokens and mask differ.
pub fn reinforce_plus_plus_baseline<'a, R: Real>(
    rewards: &[R],
    groups: impl Into<Layout<'a>>,
    (tokens, mask): (Offsets<'_>, Option<&[bool]>),
    how: Whitening,
    threads: usize,
) -> Result<Vec<f64>> {
    check_length("token_offsets (less one)", tokens.len(), rewards.len())?;
    check_mask(mask, tokens.values())?;
    let centred = centre(rewards, groups, threads)?;
    let kept = |row: std::ops::Range<usize>| match mask {
        Some(mask) => mask[row].iter().filter(|&&keep| keep).count(),
        None => row.len(),
    };
    let weights: Vec<f64> = tokens.rows().map(|row| kept(row) as f64).collect();
    let mut advantages = whiten_by(&centred, |row| weights[row], how, threads)?;
    let missing = advantages.iter_mut().zip(&centred).filter(|(_, centred)| centred.is_nan());
    missing.for_each(|(advantage, _)| *advantage = f64::NAN);
    Ok(advantages)
}
