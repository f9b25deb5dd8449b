//! The reward less the mean of the others.

use super::engine::score;
use super::engine::stats::{AffineMap, Formula, GroupStats};
use crate::error::Result;
use crate::group::Layout;
use crate::numeric::Real;

/// Compute the leave-one-out advantage within each group.
///
/// ```text
/// A_i = r_i - (1 / (n - 1)) * sum_{j != i} r_j = n / (n - 1) * (r_i - mean_g)
/// ```
///
/// `n` is the number of present rewards of the group of i. The right-hand form is the one computed: it is
/// [`centre`](super::centre()) times `n / (n - 1)`, and does not subtract a sum from itself. The baseline of a
/// row does not contain the row, so the policy gradient stays unbiased. Degenerate cases: see the
/// [module](super). Shapes: rewards `[B]`, result `[B]`. Cost: linear.
/// Reference: Ahmadian et al. 2024, RLOO (arXiv:2402.14740).
///
/// # Errors
/// [`Error::NotFinite`](crate::Error::NotFinite) for an infinite reward or an advantage beyond f64;
/// [`Error::Length`](crate::Error::Length) where rewards and groups differ in rows.
pub fn leave_one_out<'a, R: Real>(
    rewards: &[R],
    groups: impl Into<Layout<'a>>,
    threads: usize,
) -> Result<Vec<f64>> {
    score(rewards, groups.into(), &LeaveOneOut, threads)
}

pub(super) struct LeaveOneOut;

impl Formula for LeaveOneOut {
    #[inline(always)]
    fn line(&self, group: &GroupStats, mean: f64, _terms: f64) -> AffineMap {
        if group.is_constant() {
            return AffineMap::zero(group);
        }
        AffineMap { factor: group.size() / (group.size() - 1.0), ..AffineMap::less(mean) }
    }
}
