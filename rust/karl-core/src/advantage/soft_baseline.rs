//! The reward less its group's soft maximum.

use super::engine::apply::check;
use crate::check::check_positive;
use crate::error::Result;
use crate::group::Layout;
use crate::logsumexp::soft_value;
use crate::numeric::float::Real;
use crate::numeric::parallel;

/// Compute the advantage against the log-partition of the group.
///
/// ```text
/// A_i = r_i - V_g,    V_g = (1 / b) log( (1 / n) sum_j exp(b r_j) )
/// ```
///
/// `b` is the inverse temperature: as it goes to 0 `V_g` goes to the mean, and as it grows to the largest reward.
/// `V_g` is [`soft_value`] at the temperature `1 / b`; it is never below the mean, so the advantages of a group do
/// not add up to zero. `exp(b A_i) / n` is the Boltzmann target of the group. Degenerate cases: see the
/// [module](super).
/// Shapes: rewards `[B]`, result `[B]`. Cost: one `expm1` a row, one `log1p` a group.
/// References: Richemond et al. 2024, DRO (arXiv:2405.19107); OAPL (arXiv:2602.19362), where beta is `1 / b`.
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
    let layout = groups.into();
    let mut advantages = soft_value(rewards, layout, 1.0 / inverse_temperature, threads)?;
    parallel::fill(&mut advantages, threads, |first, block| {
        block.iter_mut().zip(&rewards[first..]).for_each(|(value, reward)| *value = reward.widen() - *value);
    });
    check(&advantages, rewards, layout).map(|()| advantages)
}
