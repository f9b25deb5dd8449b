//! The reward less its group's mean, divided by that mean.

use super::engine::score;
use super::engine::stats::{AffineMap, Formula, GroupStats};
use crate::check::{check_not_negative, check_within};
use crate::error::Result;
use crate::group::Layout;
use crate::numeric::Real;

/// Compute the mean-normalised advantage within each group.
///
/// ```text
/// A_i = (r_i - mean_g) / (mean_g + eps)
/// ```
///
/// With rewards of 0 and 1 a group weighs as its success rate is rare, which makes the gradient that of the log-likelihood of
/// success to the order of the group's size. Rewards are zero or more: a mean below 0 would turn the sign round. Degenerate cases: see the [module](super).
/// Shapes: rewards `[B]`, result `[B]`. Cost: linear. Reference: `MaxRL` 2026 (arXiv:2602.02710).
///
/// # Errors
/// [`Error::NotFinite`](crate::Error::NotFinite) for an infinite reward or an advantage beyond f64;
/// [`Error::Outside`](crate::Error::Outside) for a negative reward;
/// [`Error::Negative`](crate::Error::Negative) for a negative `eps`;
/// [`Error::Length`](crate::Error::Length) where rewards and groups differ in rows.
pub fn maxrl<'a, R: Real>(
    rewards: &[R],
    groups: impl Into<Layout<'a>>,
    eps: f64,
    threads: usize,
) -> Result<Vec<f64>> {
    check_not_negative("eps", eps)?;
    check_within("rewards", rewards, 0.0, f64::INFINITY)?;
    score(rewards, groups.into(), &MaxRl { eps }, threads)
}

struct MaxRl {
    eps: f64,
}

impl Formula for MaxRl {
    #[inline(always)]
    fn line(&self, group: &GroupStats, mean: f64, _terms: f64) -> AffineMap {
        if group.is_constant() {
            AffineMap::zero(group)
        } else {
            AffineMap { divisor: mean + self.eps, ..AffineMap::less(mean) }
        }
    }
}
