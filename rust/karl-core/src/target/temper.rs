//! The same scores at many temperatures: the table to choose one from.

use super::{
    check_inverse_temperatures, checked_levels,
    levels::{Levels, Sums},
    weigh,
};
use crate::error::{Result, check_length};
use crate::group::Groups;
use crate::numeric::Compensated;

/// What a target looks like at one inverse temperature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tempered {
    /// b of `exp(b * score)`.
    pub inverse_temperature: f64,
    /// Effective sample size, in rows.
    pub ess: f64,
    /// Effective sample size as a share of the kept rows.
    pub share: f64,
    /// The largest probability any one row has of being drawn first.
    pub top_share: f64,
    /// The mean reward of the row drawn first.
    pub expected_reward: f64,
}

/// The target of `scores` within the scopes of `partition` at each of `inverse_temperatures`.
///
/// With S scopes that have rows, row i is drawn first with probability `p_i = w_i / S`:
///
/// ```text
/// top_share = max_i p_i        expected_reward = sum_i p_i r_i
/// ```
///
/// `rewards` are what the weights are averaged over; they differ from the scores where those are advantages.
/// A kept row without a reward makes `expected_reward` NaN; with no kept rows it is NaN, and the others are 0.
/// Sums over rows fold in row order. Shapes: scores and rewards `[B]`. Cost: one sort, then one pass over the
/// rows a temperature.
///
/// # Errors
/// As [`boltzmann`](super::boltzmann), and [`Error::Length`](crate::Error::Length) where the rewards differ in
/// rows.
pub fn temper(
    scores: &[f64],
    partition: &Groups,
    rewards: &[f64],
    inverse_temperatures: &[f64],
) -> Result<Vec<Tempered>> {
    check_length("rewards", rewards.len(), scores.len())?;
    check_inverse_temperatures(inverse_temperatures)?;
    let levels = checked_levels(scores, partition)?;
    inverse_temperatures
        .iter()
        .map(|&b| weigh(&levels, scores, partition, b).map(|(_, logs)| row(&levels, rewards, &logs, b)))
        .collect()
}

fn row(levels: &Levels, rewards: &[f64], log_weights: &[f64], inverse_temperature: f64) -> Tempered {
    let scopes = levels.filled() as f64;
    let top = levels.sums(inverse_temperature).flatten().map(Sums::top_weight).fold(0.0, f64::max);
    Tempered {
        inverse_temperature,
        ess: levels.ess(inverse_temperature),
        share: levels.share(inverse_temperature),
        top_share: if levels.kept == 0 { 0.0 } else { top / scopes },
        expected_reward: weighted_sum(rewards, log_weights) / scopes,
    }
}

fn weighted_sum(rewards: &[f64], log_weights: &[f64]) -> f64 {
    let mut total = Compensated::default();
    for (&reward, &log_weight) in rewards.iter().zip(log_weights) {
        // A dropped row may have no reward, and 0 * NaN is NaN.
        if log_weight > f64::NEG_INFINITY {
            total.add(libm::exp(log_weight) * reward);
        }
    }
    total.value()
}
