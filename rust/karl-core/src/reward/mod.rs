//! One reward from several components, and shaped rewards.

mod shaping;

pub use shaping::AsymmetricScale;

use crate::check::{check_finite, check_length, check_not_infinite};
use crate::error::{Error, Result};

/// The largest reward: beyond it, sums of squares over a log leave the range of f64, and no statistic is left.
pub const LARGEST: f64 = 1e100;

/// Return the weighted sum of reward components, row by row.
///
/// ```text
/// r_i = sum_c weight_c * component_c[i]
/// ```
///
/// Terms are added in the order of the components. A component that is missing (NaN) in a row makes the
/// reward of that row missing, even where its weight is 0: it is not taken as 0. Weights are not normalised,
/// and may be negative (a penalty). A sum beyond [`LARGEST`] in size is a missing reward too. Shapes: C components of `[B]`, weights `[C]`, result `[B]`. Cost: `B * C`.
///
/// ```
/// let rewards = karl_core::reward::composite(&[&[1.0, 0.0], &[0.5, f64::NAN]], &[0.75, 0.5])?;
/// assert_eq!(rewards[0], 1.0);
/// assert!(rewards[1].is_nan());
/// # Ok::<(), karl_core::Error>(())
/// ```
///
/// # Errors
/// [`Error::Length`] for no components, components that differ in rows, or not one weight each;
/// [`Error::NotFinite`] for an infinite component or a weight that is not finite.
pub fn composite(components: &[&[f64]], weights: &[f64]) -> Result<Vec<f64>> {
    check(components, weights)?;
    let mut rewards = vec![0.0; components[0].len()];
    for (component, weight) in components.iter().zip(weights) {
        rewards.iter_mut().zip(*component).for_each(|(reward, value)| *reward += weight * value);
    }
    Ok(rewards.into_iter().map(within).collect())
}

/// [`composite`] of one row: `components` and `weights` in one order, `[C]` each.
#[must_use]
pub fn composite_of(components: &[f64], weights: &[f64]) -> f64 {
    within(components.iter().zip(weights).fold(0.0, |sum, (value, weight)| sum + weight * value))
}

/// Return the reward, or NaN for one beyond [`LARGEST`] in size.
fn within(reward: f64) -> f64 {
    if reward.abs() <= LARGEST { reward } else { f64::NAN }
}

fn check(components: &[&[f64]], weights: &[f64]) -> Result<()> {
    check_length("weights", weights.len(), components.len())?;
    check_finite("weight", weights)?;
    let Some(first) = components.first() else {
        return Err(Error::Length { what: "components", got: 0, wanted: 1 });
    };
    for component in components {
        check_length("component", component.len(), first.len())?;
        check_not_infinite("component", component)?;
    }
    Ok(())
}
