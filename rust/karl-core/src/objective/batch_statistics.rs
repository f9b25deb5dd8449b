//! Statistics of a batch besides its loss: how far the policy has moved, and what a bound held.

use super::arithmetic::RealArithmetic;
use super::arithmetic::{Ratios, sum_of_kept_differences};
use super::rollouts::RolloutPart;

/// How far the policy has moved from the behaviour policy and from the reference, over the tokens that count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// Number of tokens that count.
    pub tokens: u64,
    /// Number of rollouts with one.
    pub rollouts: u64,
    /// Mean over tokens of the ratio at the level of the objective.
    pub ratio: f64,
    /// Its standard deviation, ddof 0.
    pub ratio_std: f64,
    /// The largest ratio.
    pub ratio_max: f64,
    /// The least ratio.
    pub ratio_min: f64,
    /// Share of tokens below the bounds for the sign of their advantage.
    pub clip_low: f64,
    /// Share of tokens above them.
    pub clip_high: f64,
    /// Share of tokens above them with a negative advantage (dual clip); `clip_high` counts them too.
    pub clip_bound: f64,
    /// Effective sample size of the rollouts' ratios, as a share of their number.
    pub ratio_ess: f64,
    /// Mean of `ratio - 1 - log ratio` of a token: k3 of the behaviour policy from this one, in nats.
    pub kl_old: f64,
    /// Mean of k3 of this policy from the reference; None where the objective does not read the reference.
    pub kl: Option<f64>,
}

/// A loss, and how far the policy has moved. The coefficients are in the column that was given for them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluation {
    /// The loss; 0 where no token counts.
    pub loss: f64,
    /// Drift, clipping and divergence.
    pub statistics: Statistics,
}

/// Sums over a block of rollouts, or over all.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    pub(super) loss: f64,
    pub(super) tokens: u64,
    pub(super) rollouts: u64,
    pub(super) below: u64,
    pub(super) above: u64,
    pub(super) bound: u64,
    pub(super) ratios: Ratios,
    pub(super) kl: f64,
    products: f64,
    squares: f64,
    pub(super) kl_old: f64,
}

/// The largest log ratio of a rollout that an effective sample size takes in: its square is still a number.
const LARGEST: f64 = 80.0;

impl Sums {
    pub(super) const NONE: Self = Self {
        loss: 0.0,
        tokens: 0,
        rollouts: 0,
        below: 0,
        above: 0,
        bound: 0,
        ratios: Ratios::NONE,
        kl: 0.0,
        products: 0.0,
        squares: 0.0,
        kl_old: 0.0,
    };

    /// Take in the log ratios of the tokens of a rollout, which have this sum.
    pub(super) fn moved(&mut self, log_ratio: f64) {
        let product = libm::exp(log_ratio.min(LARGEST));
        self.products += product;
        self.squares += product * product;
    }

    pub(super) fn merge(mut self, other: &Self) -> Self {
        self.loss += other.loss;
        self.tokens += other.tokens;
        self.rollouts += other.rollouts;
        self.below += other.below;
        self.above += other.above;
        self.bound += other.bound;
        self.ratios.merge(&other.ratios);
        self.kl += other.kl;
        self.products += other.products;
        self.squares += other.squares;
        self.kl_old += other.kl_old;
        self
    }

    pub(super) fn statistics(&self, old: bool, reference: bool) -> Statistics {
        let count = self.tokens as f64;
        let still = !old || self.tokens == 0;
        let of = |value: f64, rest: f64| if still { rest } else { value };
        Statistics {
            tokens: self.tokens,
            rollouts: self.rollouts,
            ratio: of(self.ratios.mean(), 1.0),
            ratio_std: of(self.ratios.std(), 0.0),
            ratio_max: of(self.ratios.max, 1.0),
            ratio_min: of(self.ratios.min, 1.0),
            clip_low: of(self.below as f64 / count, 0.0),
            clip_high: of(self.above as f64 / count, 0.0),
            clip_bound: of(self.bound as f64 / count, 0.0),
            ratio_ess: of(self.products * self.products / self.squares / self.rollouts as f64, 1.0),
            kl_old: of(self.kl_old / count, 0.0),
            kl: reference.then(|| if self.tokens == 0 { 0.0 } else { self.kl / count }),
        }
    }
}

impl<T: RealArithmetic> RolloutPart<'_, T> {
    /// Return the sum of the log ratios to the behaviour policy; 0 without one.
    #[inline(always)]
    pub(super) fn sum_log_ratio(&self) -> f64 {
        // No closure: it would be compiled apart, for narrow vectors.
        match self.old {
            Some(old) => sum_of_kept_differences(self.logp, old, self.keep),
            None => 0.0,
        }
    }
}
