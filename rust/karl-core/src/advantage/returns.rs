//! Discounted returns of steps.

use super::engine::contiguous::cut;
use crate::check::{check_length, check_not_infinite, check_range};
use crate::error::{Error, Result};
use crate::group::offsets::Offsets;
use crate::numeric::Real;
use crate::numeric::parallel::each;

/// Compute discounted returns of the steps of each row.
///
/// ```text
/// R_k = r_k + gamma R_{k+1},    R = 0 behind the last
/// ```
///
/// A missing reward makes its own return missing, and with gamma above 0 those before it, which it is part of.
/// Shapes: rewards `[T]`, offsets `[B + 1]`, result `[T]`. Cost: linear. Reference: Sutton and Barto 2018, section 3.3.
///
/// # Errors
/// [`Error::NotFinite`] for an infinite reward or a return beyond f64; [`Error::Range`] for a gamma outside 0 to 1;
/// [`Error::Length`] where rewards and offsets differ.
pub fn discounted_returns<R: Real>(
    rewards: &[R],
    offsets: Offsets<'_>,
    gamma: f64,
    threads: usize,
) -> Result<Vec<f64>> {
    check_length("rewards", rewards.len(), offsets.values())?;
    check_range("gamma", gamma, 0.0, 1.0)?;
    check_not_infinite("rewards", rewards)?;
    let mut returns = vec![0.0; rewards.len()];
    each(cut(offsets, &mut returns, threads), |(rows, mut rest)| {
        for row in rows {
            let place = offsets.row(row);
            let (piece, after) = rest.split_at_mut(place.len());
            discount(&rewards[place], gamma, piece);
            rest = after;
        }
    });
    match returns.iter().position(|value| value.is_infinite()) {
        Some(index) => Err(Error::NotFinite { what: "return", index, value: returns[index] }),
        None => Ok(returns),
    }
}

fn discount<R: Real>(rewards: &[R], gamma: f64, returns: &mut [f64]) {
    let mut after = 0.0;
    for (value, reward) in returns.iter_mut().zip(rewards).rev() {
        // Without a discount factor nothing follows, a missing reward included.
        after = if gamma == 0.0 { reward.widen() } else { reward.widen() + gamma * after };
        *value = after;
    }
}
