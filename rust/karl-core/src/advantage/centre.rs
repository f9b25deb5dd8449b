//! The reward less its group's mean.

use super::{Grouped, check, fit, spreads, within_groups};
use crate::error::Result;
use crate::group::Groups;

/// Centred advantage within each group.
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
pub fn centre(rewards: &[f64], groups: &Groups, threads: usize) -> Result<Vec<f64>> {
    check(rewards, groups)?;
    within(Grouped { rewards, groups, spreads: &spreads(rewards, groups, threads), threads })
}

pub(super) fn within(grouped: Grouped<'_, '_>) -> Result<Vec<f64>> {
    let fits = fit(grouped.spreads, |_, spread| {
        let mean = spread.mean();
        move |reward| reward - mean
    });
    within_groups(grouped, &fits)
}
