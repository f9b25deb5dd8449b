//! The reward less its group's mean.

use super::engine::apply::score;
use super::engine::stats::{AffineMap, Formula, GroupStats};
use crate::error::Result;
use crate::group::Layout;
use crate::numeric::float::Real;

/// Compute the centred advantage within each group.
///
/// ```text
/// A_i = r_i - mean_g
/// ```
///
/// `mean_g` is over the present rewards of the group of i. There is no division by a standard deviation, so
/// groups of every difficulty keep their own scale. Degenerate cases: see the [module](super).
/// Shapes: rewards `[B]`, result `[B]`. Cost: linear. Reference: Liu et al. 2025, Dr. GRPO (arXiv:2503.20783).
///
/// # Errors
/// [`Error::NotFinite`](crate::Error::NotFinite) for an infinite reward or an advantage beyond f64;
/// [`Error::Length`](crate::Error::Length) where rewards and groups differ in rows.
pub fn centre<'a, R: Real>(rewards: &[R], groups: impl Into<Layout<'a>>, threads: usize) -> Result<Vec<f64>> {
    score(rewards, groups.into(), &Centre, threads)
}

pub(super) struct Centre;

impl Formula for Centre {
    #[inline(always)]
    fn line(&self, group: &GroupStats, mean: f64, _terms: f64) -> AffineMap {
        if group.is_constant() { AffineMap::zero(group) } else { AffineMap::less(mean) }
    }
}
