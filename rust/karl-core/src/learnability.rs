//! Learnability of a trajectory for a student: how far the student is from each of its tokens, and from the farthest.
//!
//! ```text
//! gap_t = max_a log p(a) - log p(a_t)        0 where the student would choose the token itself
//! spike = (log sum_t exp(beta gap_t) - log T) / beta     the mean gap for beta near 0, the largest for a large beta
//! G     = exp(-lambda spike)                 1 for a trajectory that the student would write itself
//! ```
//!
//! Reference: pedagogical RL (noahziems.com/pedagogical-rl); rl-experiments @879294c, `pedagogy_sandbox`.

use crate::check::{check_length, check_not_negative, check_number, check_positive};
use crate::error::{Error, Result};
use crate::group::offsets::Offsets;
use crate::numeric::sum::sum;
use crate::numeric::{Real, parallel};

/// How far a student is from a trajectory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Learnability {
    /// The mean gap, in nats a token; NaN without a token.
    pub gap: f64,
    /// The soft maximum of the gaps, in nats; NaN without a token.
    pub spike: f64,
    /// `exp(-lambda spike)`, from 0 to 1; NaN without a token.
    pub learnability: f64,
}

/// Return the learnability of each trajectory, from the gaps of its tokens.
///
/// Shapes: gaps `[T]`, offsets `[B + 1]`, result `[B]`. Cost: three passes, one or two `exp` a token.
/// Reference: see the [module](self); there beta is 5 and lambda 0.5.
///
/// # Errors
/// [`Error::Length`] where offsets are those of other tokens; [`Error::Outside`] for a gap below 0, NaN or infinite;
/// [`Error::Positive`] for a `beta` that is not above 0; [`Error::Negative`] for a negative `lambda`, and
/// [`Error::Number`] for an infinite one.
pub fn learnability<R: Real>(
    gaps: &[R],
    offsets: &Offsets<'_>,
    beta: f64,
    lambda: f64,
    threads: usize,
) -> Result<Vec<Learnability>> {
    check_length("gaps", gaps.len(), offsets.values())?;
    check_positive("beta", beta)?;
    check_not_negative("lambda", lambda)?;
    check_number("lambda", lambda)?;
    let outside = |gap: &R| !(gap.widen() >= 0.0 && gap.widen().is_finite());
    if let Some(index) = gaps.iter().position(outside) {
        let value = gaps[index].widen();
        return Err(Error::Outside { what: "gaps", index, value, low: 0.0, high: f64::MAX });
    }
    let missing = Learnability { gap: f64::NAN, spike: f64::NAN, learnability: f64::NAN };
    let mut rows = vec![missing; offsets.len()];
    parallel::fill(&mut rows, threads, |first, block| {
        for (result, row) in block.iter_mut().zip(first..) {
            let tokens = offsets.row(row);
            if !tokens.is_empty() {
                *result = of_row(&gaps[tokens], beta, lambda);
            }
        }
    });
    Ok(rows)
}

fn of_row<R: Real>(gaps: &[R], beta: f64, lambda: f64) -> Learnability {
    let (count, values) = (gaps.len() as f64, || gaps.iter().map(|gap| gap.widen()));
    let (gap, most) = (sum(values()) / count, values().fold(0.0, f64::max));
    let spike = if beta * most < f64::EPSILON {
        // Up to rounding; and beta times a gap may be too small a number.
        gap
    } else {
        (most + log_mean_exp(|| values().map(|gap| beta * (gap - most)), count) / beta).max(0.0)
    };
    Learnability { gap, spike, learnability: libm::exp(-lambda * spike) }
}

/// Return `log(mean(exp(x)))` of numbers up to 0 of which one is 0, without the cancellation that it has where all are
/// near 0.
fn log_mean_exp<I: Iterator<Item = f64>>(exponents: impl Fn() -> I, count: f64) -> f64 {
    let less = sum(exponents().map(libm::expm1)) / count;
    if less > -0.5 { libm::log1p(less) } else { libm::log(sum(exponents().map(libm::exp)) / count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(gaps: &[f64], beta: f64) -> Learnability {
        let offsets = [0, i64::try_from(gaps.len()).unwrap()];
        learnability(gaps, &Offsets::new("offsets", &offsets, gaps.len()).unwrap(), beta, 0.5, 1).unwrap()[0]
    }

    #[test]
    fn the_spike_goes_from_the_mean_gap_to_the_largest() {
        let gaps = [0.0, 0.5, 3.0];
        for beta in [1e-7, 1e-12, 1e-15, 1e-17, 1e-300, f64::from_bits(1)] {
            assert!((of(&gaps, beta).spike - 3.5 / 3.0).abs() < 1e-6, "{beta}");
        }
        // Against the series of the mean and the variance of the gaps.
        let (mean, variance) = (3.5 / 3.0, (0.25 + 9.0) / 3.0 - (3.5_f64 / 3.0).powi(2));
        assert!((of(&gaps, 1e-9).spike - (mean + 1e-9 * variance / 2.0)).abs() < 1e-15);
        assert!(
            (of(&gaps, 2.0).spike - libm::log((1.0 + libm::exp(1.0) + libm::exp(6.0)) / 3.0) / 2.0).abs()
                < 1e-14
        );
        assert!((of(&gaps, 1e6).spike - 3.0).abs() < 1e-5);
        assert!((of(&[0.0; 4], 5.0).learnability - 1.0).abs() < 1e-15);
        assert!(of(&[], 5.0).spike.is_nan());
    }

    #[test]
    fn gaps_that_no_student_has_are_refused() {
        for gap in [-1e-9, f64::NAN, f64::INFINITY] {
            assert!(
                learnability(&[gap], &Offsets::new("offsets", &[0, 1], 1).unwrap(), 5.0, 0.5, 1).is_err()
            );
        }
        let offsets = Offsets::new("offsets", &[0, 1], 1).unwrap();
        assert!(learnability(&[1.0], &offsets, 0.0, 0.5, 1).is_err());
        assert!(learnability(&[1.0], &offsets, 5.0, -0.5, 1).is_err());
        assert!(learnability(&[0.0], &offsets, 5.0, f64::INFINITY, 1).is_err());
    }
}
