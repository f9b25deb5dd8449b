//! Centred, and divided by the group's standard deviation.

use super::{Grouped, Spread, check, fit, spreads, within_groups};
use crate::error::{Result, check_not_negative};
use crate::group::Groups;
use crate::numeric::Compensated;

/// Centred, unit-variance advantage within each group.
///
/// ```text
/// A_i = (r_i - mean_g) / (std_g + eps),    std_g^2 = sum_j (r_j - mean_g)^2 / (n - ddof)
/// ```
///
/// Mean and deviation are over the `n` present rewards of the group of i, by two passes. The paper fixes
/// neither `ddof` nor `eps`, and trainers differ: TRL (1, 1e-4), verl (1, 1e-6), `OpenRLHF` (1, 1e-9),
/// mlx-lm-lora (0, 1e-4). A tiny `eps` blows nearly equal rewards up to advantages near 1. Degenerate cases:
/// see the [module](super); verl gives a group of one its raw reward, here it is 0.
/// Shapes: rewards `[B]`, result `[B]`. Cost: linear, one square root a group.
/// Reference: Shao et al. 2024, GRPO (arXiv:2402.03300).
///
/// # Errors
/// [`Error::NotFinite`](crate::Error::NotFinite) for an infinite reward, and for an advantage that f64 or the
/// formula does not have: rewards beyond 1e150, rewards apart by less than 1e-150 with `eps = 0`, `n <= ddof`
/// in a group of two or more. [`Error::Negative`](crate::Error::Negative) for a negative `eps`;
/// [`Error::Length`](crate::Error::Length) where rewards and groups differ in rows.
pub fn zscore(rewards: &[f64], groups: &Groups, ddof: u8, eps: f64, threads: usize) -> Result<Vec<f64>> {
    check(rewards, groups)?;
    within(Grouped { rewards, groups, spreads: &spreads(rewards, groups, threads), threads }, ddof, eps)
}

pub(super) fn within(grouped: Grouped<'_, '_>, ddof: u8, eps: f64) -> Result<Vec<f64>> {
    check_not_negative("eps", eps)?;
    let means: Vec<f64> = grouped.spreads.iter().map(Spread::mean).collect();
    let squares = squares(grouped, &means);
    let fits = fit(grouped.spreads, |group, spread| {
        let (mean, freedom) = (means[group], f64::from(spread.count) - f64::from(ddof));
        let variance = if freedom > 0.0 { squares[group].value() / freedom } else { f64::NAN };
        // An overflown deviation would divide every advantage down to a false 0.
        let divisor = if variance.is_finite() { variance.sqrt() + eps } else { f64::NAN };
        move |reward| (reward - mean) / divisor
    });
    within_groups(grouped, &fits)
}

/// The squared deviations of each group, in row order.
fn squares(Grouped { rewards, groups, threads, .. }: Grouped<'_, '_>, means: &[f64]) -> Vec<Compensated> {
    groups.fold(threads, Compensated::default(), |total, group, row| {
        let deviation = rewards[row] - means[group];
        if !deviation.is_nan() {
            total.add(deviation * deviation);
        }
    })
}
