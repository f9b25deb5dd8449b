//! Bounds of an update.

use crate::check::{check_not_negative, check_range};
use crate::error::{Error, Result};

/// The closed range that a ratio counts in. On an end it is within: its gradient flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The least it counts as.
    pub floor: f64,
    /// The most it counts as.
    pub ceiling: f64,
}

impl Bounds {
    const NONE: Self = Self { floor: f64::NEG_INFINITY, ceiling: f64::INFINITY };

    /// Return the ratio as it counts.
    #[must_use]
    pub fn bounded(&self, ratio: f64) -> f64 {
        if self.holds(ratio) {
            ratio
        } else if ratio < self.floor {
            self.floor
        } else {
            self.ceiling
        }
    }

    /// Return whether the ratio is within the bounds.
    #[must_use]
    pub fn holds(&self, ratio: f64) -> bool {
        ratio >= self.floor && ratio <= self.ceiling
    }
}

/// The axis: every clip is a range for the ratio, one for each sign of the advantage.
///
/// ```text
/// attached   loss_t = -A_t bounded(ratio),            d loss_t / d log ratio = -A_t ratio  within the range, else 0
/// detached   loss_t = -A_t sg(bounded(ratio)) logp_t, d loss_t / d logp_t    = -A_t bounded(ratio)
/// ```
///
/// `-min(ratio A, clip(ratio, 1 - low, 1 + high) A)` is `-A min(ratio, 1 + high)` where A > 0, and
/// `-A max(ratio, 1 - low)` where A < 0: each sign has one bound, and the other end is open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clip {
    /// For a positive advantage.
    pub positive: Bounds,
    /// For a negative one.
    pub negative: Bounds,
    /// True if the bounded ratio is a constant weight on `logp`.
    pub detached: bool,
}

impl Clip {
    /// No bound: `-A ratio`.
    pub const NONE: Self = Self { positive: Bounds::NONE, negative: Bounds::NONE, detached: false };

    /// Return the pessimistic bound of PPO, `low` and `high` as distances from 1; DAPO's where they differ.
    ///
    /// Reference: Schulman et al. 2017 (arXiv:1707.06347); Yu et al. 2025, DAPO (arXiv:2503.14476).
    ///
    /// # Errors
    /// [`Error::Range`] for `low` outside [0, 1]; [`Error::Negative`] for `high` below 0.
    pub fn ppo(low: f64, high: f64) -> Result<Self> {
        check_range("low", low, 0.0, 1.0)?;
        check_not_negative("high", high)?;
        let positive = Bounds { ceiling: 1.0 + high, ..Bounds::NONE };
        Ok(Self { positive, negative: Bounds { floor: 1.0 - low, ..Bounds::NONE }, detached: false })
    }

    /// Return the same with a bound on the ratio of a negative advantage, which is open above otherwise.
    ///
    /// ```text
    /// A < 0:  loss_t = min(-bound A, -min(ratio A, clip(ratio) A))
    /// ```
    ///
    /// Reference: Ye et al. 2020, dual clip (arXiv:1912.09729).
    ///
    /// # Errors
    /// As [`Clip::ppo`]; [`Error::Above`] for a bound that is not above `1 + high`.
    pub fn dual(low: f64, high: f64, bound: f64) -> Result<Self> {
        Self::bound_by("bound", Self::ppo(low, high)?, 1.0 + high, bound)
    }

    /// Return the same as a bound on the ratio itself: `-min(min(ratio, delta) A, clip(ratio) A)`.
    ///
    /// Wherever `delta > 1 + high` it is [`Clip::dual`] at `bound = delta`. Reference: INTELLECT-2 2025
    /// (arXiv:2505.07291); TRL's `delta`.
    ///
    /// # Errors
    /// As [`Clip::dual`].
    pub fn two_sided(low: f64, high: f64, delta: f64) -> Result<Self> {
        Self::bound_by("delta", Self::ppo(low, high)?, 1.0 + high, delta)
    }

    fn bound_by(what: &'static str, clip: Self, low: f64, bound: f64) -> Result<Self> {
        if bound > low {
            Ok(Self { negative: Bounds { ceiling: bound, ..clip.negative }, ..clip })
        } else {
            Err(Error::Above { what, value: bound, low })
        }
    }

    /// Return a range for a detached weight, of ratios and not of distances from 1: a ceiling of 5 is a ratio of 5; a
    /// floor of 0 is none.
    ///
    /// Reference: `MiniMax` 2025, CISPO (arXiv:2506.13585), which has no floor; verl has one.
    ///
    /// # Errors
    /// [`Error::Range`] for a ceiling below 1 or a floor outside [0, 1]: each would bound a ratio that has not moved.
    pub fn cap(floor: f64, ceiling: f64) -> Result<Self> {
        check_range("floor", floor, 0.0, 1.0)?;
        check_range("ceiling", ceiling, 1.0, f64::INFINITY)?;
        let both = Bounds { floor, ceiling };
        Ok(Self { positive: both, negative: both, detached: true })
    }

    /// Return the same where the log ratio is clamped to plus and minus so many nats first, as verl does to 20.
    ///
    /// # Errors
    /// [`Error::Negative`] for a clamp below 0.
    pub fn clamped(self, nats: f64) -> Result<Self> {
        check_not_negative("log_ratio_clamp", nats)?;
        let within = |bounds: Bounds| Bounds {
            floor: bounds.floor.max(libm::exp(-nats)),
            ceiling: bounds.ceiling.min(libm::exp(nats)),
        };
        Ok(Self { positive: within(self.positive), negative: within(self.negative), ..self })
    }

    /// Return the range for an advantage of this sign.
    #[must_use]
    pub fn bounds(&self, negative: bool) -> Bounds {
        if negative { self.negative } else { self.positive }
    }
}
