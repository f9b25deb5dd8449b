//! Policy gradients that refuse numbers which are not finite.

use super::advantages::Advantages;
use super::batch_statistics::Evaluation;
use super::policy_gradient::{PolicyGradient, policy_gradient};
use super::real_arithmetic::RealArithmetic;
use super::rollouts::{Rollouts, not_finite};
use crate::error::{Error, Result};
use crate::numeric::simd::{Kernel, wide};

/// Compute [`policy_gradient`], and refuse a number that is not finite where it counts.
///
/// A ratio beyond the range of its type is infinite, and no error where a bound takes its place. Cost besides: a read of
/// the coefficients.
///
/// # Errors
/// As [`policy_gradient`]; [`Error::NotFinite`] for the first token that counts with a log-probability, an advantage or a
/// coefficient that is not finite; [`Error::Number`] for a sum of losses that is not. The coefficients are then undefined.
pub fn policy_loss<T: RealArithmetic>(
    rollouts: &Rollouts<'_, T>,
    advantages: Advantages<'_>,
    objective: &PolicyGradient<'_>,
    coefficient: &mut [T],
    threads: usize,
) -> Result<Evaluation> {
    let found = policy_gradient(rollouts, advantages, objective, coefficient, threads)?;
    // The sum over all log ratios has seen each of them: a bound may have hidden one from the loss.
    let finite = found.loss.is_finite() && found.statistics.kl_old.is_finite();
    if finite && wide(Finite(coefficient)) {
        return Ok(found);
    }
    match fault(rollouts, advantages, coefficient) {
        Some(error) => Err(error),
        None if found.loss.is_finite() => Ok(found),
        None => Err(Error::Number { what: "loss", value: found.loss }),
    }
}

/// Name the first number that is not finite.
#[cold]
fn fault<T: RealArithmetic>(
    rollouts: &Rollouts<'_, T>,
    advantages: Advantages<'_>,
    coefficient: &[T],
) -> Option<Error> {
    let coefficients = || coefficient.iter().enumerate();
    rollouts
        .fault()
        .or_else(|| advantages.fault(&rollouts.offsets, rollouts.mask))
        .or_else(|| coefficients().find_map(|(at, &value)| not_finite("coefficient", at, value)))
}

/// True if all numbers are finite.
struct Finite<'a, T>(&'a [T]);

impl<T: RealArithmetic> Kernel for Finite<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        self.0.iter().fold(true, |finite, value| finite & value.is_finite())
    }
}
