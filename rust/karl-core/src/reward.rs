//! One reward from several components, and shaped rewards.

use crate::check::{check_finite, check_length, check_not_infinite, check_number, check_positive};
use crate::error::{Error, Result};
use crate::numeric::differ;

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

/// Do as [`composite`], but share the weight of a missing component among the others that are `shared`, `[C]`.
///
/// ```text
/// r_i = sum_{c not shared} w_c x_ci + (sum_{c shared} |w_c| / sum_{c in K_i} |w_c|) sum_{c in K_i} w_c x_ci
/// ```
///
/// `K_i` are the shared components that row i has. A row that has none of them, or lacks another component, has a
/// missing reward. Where nothing is missing it is the plain sum.
///
/// # Errors
/// As [`composite`]; [`Error::Length`] for another number of flags.
pub fn composite_shared(components: &[&[f64]], weights: &[f64], shared: &[bool]) -> Result<Vec<f64>> {
    check(components, weights)?;
    check_length("shared", shared.len(), weights.len())?;
    if !shared.contains(&true) {
        return composite(components, weights);
    }
    let mut row = vec![0.0; components.len()];
    let reward = |at: usize| {
        row.iter_mut().zip(components).for_each(|(value, component)| *value = component[at]);
        composite_of(&row, weights, shared)
    };
    Ok((0..components[0].len()).map(reward).collect())
}

/// [`composite_shared`] of one row; without any flag, [`composite`] of it.
#[must_use]
pub fn composite_of(components: &[f64], weights: &[f64], shared: &[bool]) -> f64 {
    let (mut sum, mut part, mut all, mut known) = (0.0, 0.0, 0.0, 0.0);
    for (at, (value, weight)) in components.iter().zip(weights).enumerate() {
        if !shared.get(at).is_some_and(|shared| *shared) {
            sum += weight * value;
            continue;
        }
        all += weight.abs();
        if !value.is_nan() {
            part += weight * value;
            known += weight.abs();
        }
    }
    if all > 0.0 && known <= 0.0 {
        return f64::NAN;
    }
    // Exactly the plain sum where nothing is missing.
    within(if known < all { sum + part / known * all } else { sum + part })
}

/// Return the middle between the least and the largest of some rewards, without those that are missing; `None` where they
/// do not [`differ`]. Shapes: `[B]`.
#[must_use]
pub fn midrange(rewards: &[f64]) -> Option<f64> {
    let known = || rewards.iter().copied().filter(|reward| reward.is_finite());
    let (least, largest) = (known().reduce(f64::min)?, known().reduce(f64::max)?);
    differ(least, largest).then(|| least / 2.0 + largest / 2.0)
}

/// Return 1 - x: a number of which less is better, as a component of a reward.
#[must_use]
pub fn complement(value: f64) -> f64 {
    1.0 - value
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

/// Separate scales for rewards above and below a centre: the reward that a target is made of, beside the one that rules
/// and reports see.
///
/// ```text
/// s(r) = up (r - centre) + centre   for r > centre
/// s(r) = down (r - centre) + centre   below
/// ```
///
/// Both scales are above 0, so that the order of rewards stays. A missing reward (NaN) stays missing.
///
/// ```
/// use karl_core::reward::AsymmetricScale;
///
/// let scale = AsymmetricScale::new(2.0, 0.5, 1.0)?;
/// assert_eq!(scale.apply(&[3.0, 1.0, -1.0])?, [5.0, 1.0, 0.0]);
/// # Ok::<(), karl_core::Error>(())
/// ```
///
/// Reference: Archer222arc/LLM-for-OR, `scripts/training/train_grpo_ablation.py`; its run `asym_clip` has up 1.4.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AsymmetricScale {
    up: f64,
    down: f64,
    centre: f64,
}

impl AsymmetricScale {
    /// Return a scale above the centre, one below it, and the centre, which stays.
    ///
    /// # Errors
    /// [`Error::Positive`] for a scale that is not a finite number above 0;
    /// [`Error::Number`] for a centre that is not finite.
    pub fn new(up: f64, down: f64, centre: f64) -> Result<Self> {
        check_positive("up", up)?;
        check_positive("down", down)?;
        check_number("centre", centre)?;
        Ok(Self { up, down, centre })
    }

    /// Return one shaped reward.
    #[must_use]
    pub fn of(&self, reward: f64) -> f64 {
        let apart = reward - self.centre;
        (if apart > 0.0 { self.up } else { self.down }) * apart + self.centre
    }

    /// Return the shaped rewards. Shapes: rewards `[B]`, result `[B]`.
    ///
    /// # Errors
    /// [`Error::NotFinite`] for an infinite reward, or a shaped one beyond f64.
    pub fn apply(&self, rewards: &[f64]) -> Result<Vec<f64>> {
        let shaped: Vec<f64> = rewards.iter().map(|&reward| self.of(reward)).collect();
        check_not_infinite("shaped reward", &shaped)?;
        Ok(shaped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_midrange_is_between_rewards_that_differ() {
        assert_eq!(midrange(&[1.0, f64::NAN, 0.0, 0.9]), Some(0.5));
        assert_eq!(midrange(&[-1e308, 1e308]), Some(0.0));
        for equal in [&[][..], &[f64::NAN], &[0.3], &[0.3, 0.3], &[0.1 + 0.2, 0.3, 0.3]] {
            assert_eq!(midrange(equal), None, "{equal:?}");
        }
    }
}
