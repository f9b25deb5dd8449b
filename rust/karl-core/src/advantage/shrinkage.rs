//! The reward less a baseline between its group's mean and the mean of all.

use super::engine::apply::score;
use super::engine::global_stats::GlobalStats;
use super::engine::stats::{AffineMap, Formula, GroupStats, square};
use crate::check::{check_not_infinite, check_not_negative};
use crate::error::Result;
use crate::group::Layout;
use crate::numeric::float::Real;

/// The numbers of [`shrunk()`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shrunk {
    /// Number of rewards at the overall mean that are added to each group.
    pub strength: f64,
    /// The least a deviation may be.
    pub floor: f64,
    /// The least present rewards for a group to have a deviation of its own.
    pub min_count: u32,
}

impl Default for Shrunk {
    fn default() -> Self {
        // karl, HEAD c41d1c5, karl/reward_engine.py:685, 698-705.
        Self { strength: 10.0, floor: 0.02, min_count: 5 }
    }
}

/// Advantage against a baseline that is shrunk to the mean of all rows, for groups of uneven and small size (domains).
///
/// ```text
/// b_g = (n mean_g + strength * mean) / (n + strength)
/// s_g = max(std_g, floor) where n >= min_count, else max(std, floor)
/// A_i = (r_i - b_g) / s_g
/// ```
///
/// Deviations have ddof 0; `mean` and `std` are over all rows that have a reward and a group. Since the baseline is not
/// the group's alone, a group of one and a group of equal rewards are not 0 here: they are judged by the rest. With a
/// strength of 0 the baseline is the group's mean. Shapes: rewards `[B]`, result `[B]`. Cost: four passes.
/// Reference: the reward engine of karl at HEAD; the baseline is the posterior mean of Gelman et al. 2013, section 2.5.
///
/// # Errors
/// [`Error::NotFinite`](crate::Error::NotFinite) for an infinite reward or an advantage beyond f64 (a floor of 0 and equal
/// rewards); [`Error::Negative`](crate::Error::Negative) for a negative strength or floor;
/// [`Error::Length`](crate::Error::Length) where rewards and groups differ in rows.
pub fn shrunk<'a, R: Real>(
    rewards: &[R],
    groups: impl Into<Layout<'a>>,
    how: Shrunk,
    threads: usize,
) -> Result<Vec<f64>> {
    check_not_negative("strength", how.strength)?;
    check_not_negative("floor", how.floor)?;
    let layout = groups.into();
    layout.check("rewards", rewards.len())?;
    check_not_infinite("rewards", rewards)?;
    let whole = GlobalStats::of(rewards, |row| if layout.has(row) { 1.0 } else { 0.0 }, threads);
    score(rewards, layout, &Posterior { how, whole }, threads)
}

struct Posterior {
    how: Shrunk,
    whole: GlobalStats,
}

impl Formula for Posterior {
    const TERMS: bool = true;

    #[inline(always)]
    fn term(&self, reward: f64, mean: f64) -> f64 {
        square(reward, mean)
    }

    #[inline(always)]
    fn line(&self, group: &GroupStats, mean: f64, squares: f64) -> AffineMap {
        if group.count == 0 {
            return AffineMap::zero(group);
        }
        let Shrunk { strength, floor, min_count } = self.how;
        let (count, own) = (group.size(), group.count >= min_count);
        let deviation = if own { group.deviation(squares, 0) } else { self.whole.deviation(0) };
        AffineMap {
            baseline: (count * mean + strength * self.whole.mean) / (count + strength),
            factor: 1.0,
            // Not f64::max, which would take the floor where the deviation overflowed.
            divisor: if deviation < floor { floor } else { deviation },
        }
    }
}
