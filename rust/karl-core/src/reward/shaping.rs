//! A reward that a target is made of, beside the one that rules and reports see.

use crate::check::{check_not_infinite, check_number, check_positive};
use crate::error::Result;

/// Separate scales for rewards above and below a centre.
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
    /// [`Error::Positive`](crate::Error::Positive) for a scale that is not a finite number above 0;
    /// [`Error::Number`](crate::Error::Number) for a centre that is not finite.
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
    /// [`Error::NotFinite`](crate::Error::NotFinite) for an infinite reward, or a shaped one beyond f64.
    pub fn apply(&self, rewards: &[f64]) -> Result<Vec<f64>> {
        let shaped: Vec<f64> = rewards.iter().map(|&reward| self.of(reward)).collect();
        check_not_infinite("shaped reward", &shaped)?;
        Ok(shaped)
    }
}
