//! The reward less its group's soft maximum.

use super::Layout;
use super::frame::{Formula, Line, Spread, score};
use crate::error::{Result, check_positive};
use crate::real::Real;

/// Advantage against the log-partition of the group.
///
/// ```text
/// A_i = r_i - V_g,    V_g = (1 / b) log( (1 / n) sum_j exp(b r_j) )
/// ```
///
/// `b` is the inverse temperature: as it goes to 0 `V_g` goes to the mean, and as it grows to the largest reward.
/// `V_g` is never below the mean, so the advantages of a group do not add up to zero. With it `exp(b A_i) / n` is the
/// Boltzmann target of the group. Degenerate cases: see the [module](super).
/// Shapes: rewards `[B]`, result `[B]`. Cost: one `exp` a row, one `log` a group.
/// References: Richemond et al. 2024, DRO (arXiv:2405.19107); OAPL (arXiv:2602.19362), whose beta is `1 / b`.
///
/// # Errors
/// [`Error::NotFinite`](crate::Error::NotFinite) for an infinite reward or an advantage beyond f64;
/// [`Error::Positive`](crate::Error::Positive) for an inverse temperature that is not a finite number above 0;
/// [`Error::Length`](crate::Error::Length) where rewards and groups differ in rows.
pub fn partition_baseline<'a, R: Real>(
    rewards: &[R],
    groups: impl Into<Layout<'a>>,
    inverse_temperature: f64,
    threads: usize,
) -> Result<Vec<f64>> {
    check_positive("inverse_temperature", inverse_temperature)?;
    score(rewards, groups.into(), &Partition { inverse_temperature }, threads)
}

struct Partition {
    inverse_temperature: f64,
}

impl Formula for Partition {
    const TERMS: bool = true;

    #[inline(always)]
    fn about(&self, group: &Spread) -> f64 {
        group.max
    }

    #[inline(always)]
    fn term(&self, reward: f64, max: f64) -> f64 {
        libm::exp(self.inverse_temperature * (reward - max))
    }

    #[inline(always)]
    fn line(&self, group: &Spread, max: f64, sum: f64) -> Line {
        if group.is_constant() {
            return Line::zero(group);
        }
        Line::less(max + libm::log(sum / group.size()) / self.inverse_temperature)
    }
}
