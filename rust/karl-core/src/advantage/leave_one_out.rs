//! The reward less the mean of the others.

use super::{Grouped, check, fit, spreads, within_groups};
use crate::error::Result;
use crate::group::Groups;

/// Leave-one-out advantage within each group.
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
pub fn leave_one_out(rewards: &[f64], groups: &Groups, threads: usize) -> Result<Vec<f64>> {
    check(rewards, groups)?;
    within(Grouped { rewards, groups, spreads: &spreads(rewards, groups, threads), threads })
}

pub(super) fn within(grouped: Grouped<'_, '_>) -> Result<Vec<f64>> {
    let fits = fit(grouped.spreads, |_, spread| {
        let (mean, count) = (spread.mean(), f64::from(spread.count));
        move |reward| count / (count - 1.0) * (reward - mean)
    });
    within_groups(grouped, &fits)
}
