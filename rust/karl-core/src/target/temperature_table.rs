//! The same scores at many temperatures: the table to choose one from.

use super::fit::Boltzmann;
use super::rows::Rows;
use super::sums::ScoreScale;
use super::temperature::check_inverse_temperature;
use crate::check::check_length;
use crate::error::Result;

/// Properties of a target at one inverse temperature.
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

/// Return the target of some rows at each of `inverse_temperatures`.
///
/// With S scopes that have rows, row i is drawn first with probability `p_i = w_i / S`:
///
/// ```text
/// top_share = max_i p_i        expected_reward = sum_i p_i r_i
/// ```
///
/// `rewards` are what the weights are averaged over; they differ from the scores where those are advantages.
/// A kept row without a reward makes `expected_reward` NaN; with no kept rows it is NaN, and the others are 0.
/// Shapes: rewards `[B]`. Cost: two passes over the rows a temperature, one where there are few distinct scores.
///
/// # Errors
/// As [`boltzmann`](super::boltzmann), and [`Error::Length`](crate::Error::Length) where the rewards differ in
/// rows.
pub fn temper(
    rows: Rows<'_>,
    rewards: &[f64],
    inverse_temperatures: &[f64],
    threads: usize,
) -> Result<Vec<Tempered>> {
    check_length("rewards", rewards.len(), rows.len())?;
    let each = || inverse_temperatures.iter().copied().enumerate();
    each().try_for_each(|(index, b)| check_inverse_temperature(index, b))?;
    rows.check(threads)?;
    let scale = ScoreScale::new(rows, threads)?.with_levels();
    let row = |(_, b)| {
        let fit = Boltzmann::at(&scale, b)?;
        Ok(Tempered {
            inverse_temperature: b,
            ess: fit.reached_ess,
            share: fit.reached_share,
            top_share: fit.top_share,
            expected_reward: fit.expected(&rows, rewards, threads),
        })
    };
    each().map(row).collect()
}
