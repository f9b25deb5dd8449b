//! Centred, and divided by a standard deviation.

use super::engine::score;
use super::engine::stats::GlobalStats;
use super::engine::stats::{AffineMap, Formula, GroupStats, square};
use crate::check::{check_not_infinite, check_not_negative};
use crate::error::Result;
use crate::group::Layout;
use crate::numeric::Real;

/// Compute the centred, unit-variance advantage within each group.
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
pub fn zscore<'a, R: Real>(
    rewards: &[R],
    groups: impl Into<Layout<'a>>,
    ddof: u8,
    eps: f64,
    threads: usize,
) -> Result<Vec<f64>> {
    check_not_negative("eps", eps)?;
    score(rewards, groups.into(), &ZScore { ddof, eps }, threads)
}

/// Rows over which the standard deviation is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviationScope {
    /// The group; so is the mean.
    #[default]
    Group,
    /// All rows that have a reward and a group; the mean is the group's (TRL's `scale_rewards="batch"`).
    Batch,
    /// All rows that have a reward and a group, and the mean too.
    Global,
}

/// Compute [`zscore()`] with the standard deviation over `extent`.
///
/// ```text
/// batch    A_i = (r_i - mean_g) / (std + eps)
/// global   A_i = (r_i - mean)   / (std + eps)
/// ```
///
/// With `batch`, a group of equal rewards keeps advantage exactly 0. With `global` it does not, because its mean may
/// differ from the overall mean: there advantages are exactly 0 only if all rewards of all groups are equal. Sums
/// over all rows fold blocks of rows in their order, for any number of threads. Cost: two more passes.
/// References: as [`zscore()`]; Hu et al. 2025, REINFORCE++ (arXiv:2501.03262) for a deviation over the batch.
///
/// # Errors
/// As [`zscore()`].
pub fn zscore_over<'a, R: Real>(
    rewards: &[R],
    groups: impl Into<Layout<'a>>,
    extent: DeviationScope,
    (ddof, eps): (u8, f64),
    threads: usize,
) -> Result<Vec<f64>> {
    check_not_negative("eps", eps)?;
    let layout = groups.into();
    layout.check("rewards", rewards.len())?;
    if extent == DeviationScope::Group {
        return score(rewards, layout, &ZScore { ddof, eps }, threads);
    }
    check_not_infinite("rewards", rewards)?;
    let whole = GlobalStats::of(rewards, |row| if layout.has(row) { 1.0 } else { 0.0 }, threads);
    let divisor = whole.deviation(ddof) + eps;
    match extent {
        DeviationScope::Global => score(rewards, layout, &Global { whole, divisor }, threads),
        _ => score(rewards, layout, &BatchScaled { divisor }, threads),
    }
}

pub(super) struct ZScore {
    pub(super) ddof: u8,
    pub(super) eps: f64,
}

impl Formula for ZScore {
    const TERMS: bool = true;

    #[inline(always)]
    fn term(&self, reward: f64, mean: f64) -> f64 {
        square(reward, mean)
    }

    #[inline(always)]
    fn line(&self, group: &GroupStats, mean: f64, squares: f64) -> AffineMap {
        if group.is_constant() {
            return AffineMap::zero(group);
        }
        AffineMap { divisor: group.deviation(squares, self.ddof) + self.eps, ..AffineMap::less(mean) }
    }
}

struct BatchScaled {
    divisor: f64,
}

impl Formula for BatchScaled {
    #[inline(always)]
    fn line(&self, group: &GroupStats, mean: f64, _terms: f64) -> AffineMap {
        if group.is_constant() {
            return AffineMap::zero(group);
        }
        AffineMap { divisor: self.divisor, ..AffineMap::less(mean) }
    }
}

struct Global {
    whole: GlobalStats,
    divisor: f64,
}

impl Formula for Global {
    #[inline(always)]
    fn line(&self, group: &GroupStats, _mean: f64, _terms: f64) -> AffineMap {
        if self.whole.is_constant() {
            return AffineMap::zero(group);
        }
        AffineMap { divisor: self.divisor, ..AffineMap::less(self.whole.mean) }
    }
}
