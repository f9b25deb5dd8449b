//! The divergence between two distributions over a vocabulary, summed and not estimated.
//!
//! Speed: rows of a vocabulary in one pass of vectors. Record: `benches/record/kernels.json`, "exact divergence of 100
//! rows of 50,000".

use crate::check::{check_finite, check_length, check_logs, check_positive};
use crate::error::{Error, Result};
use crate::logsumexp::{ROOM, log_sum_exp};
use crate::numeric::exp::{exp, exp_less_line};
use crate::numeric::float::Real;
use crate::numeric::parallel;
use crate::numeric::simd::{self, Kernel, wide};

/// Direction of the divergence: the distribution that the mean is under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// KL(policy || reference): the mean under the policy; it avoids what the reference does not do.
    Reverse,
    /// KL(reference || policy): the mean under the reference; it covers all that the reference does.
    Forward,
}

/// Return the divergence of each row, in nats.
///
/// ```text
/// reverse  sum_v p_v (log p_v - log q_v)      forward  sum_v q_v (log q_v - log p_v)
/// p = softmax(logits),  q = softmax(logits_ref)
/// ```
///
/// What is summed is `p_v (exp(-d) - 1 + d)` with d the log-ratio, which adds up to the same and is never negative: no term
/// cancels another, and a small divergence keeps its digits.
/// Normalised log-probabilities are logits too. A token of probability 0 adds nothing; one that only the other
/// distribution excludes makes the divergence infinite.
/// Shapes: `[N, V]` row by row, result `[N]`.
/// Cost: two passes over each row, three exponentials a token.
///
/// # Errors
/// [`Error::Positive`] for a vocabulary of 0;
/// [`Error::Length`] where arguments differ in length, or not into whole rows of `vocabulary`;
/// [`Error::NotFinite`] for a NaN or plus infinity, or a row without any token.
pub fn categorical<T: Real>(
    logits: &[T],
    logits_ref: &[T],
    vocabulary: usize,
    direction: Direction,
    threads: usize,
) -> Result<Vec<f64>> {
    let table = DistributionPair { logits, logits_ref, vocabulary, direction };
    Ok(table.rows(threads)?.into_iter().map(|row| row.divergence).collect())
}

/// Return the derivative of each row's divergence by the logits of the policy.
///
/// ```text
/// reverse  p_v (log p_v - log q_v - KL)      forward  p_v - q_v
/// ```
///
/// Shapes: `[N, V]`, result the same. Cost and errors as [`categorical`].
///
/// # Errors
/// As [`categorical`]; [`Error::NotFinite`] too for a reverse divergence that is infinite.
pub fn categorical_gradient<T: Real>(
    logits: &[T],
    logits_ref: &[T],
    vocabulary: usize,
    direction: Direction,
    threads: usize,
) -> Result<Vec<T>> {
    let rows = DistributionPair { logits, logits_ref, vocabulary, direction }.rows(threads)?;
    if direction == Direction::Reverse {
        let divergences: Vec<f64> = rows.iter().map(|row| row.divergence).collect();
        check_finite("divergence", &divergences)?;
    }
    let mut gradient = vec![T::default(); logits.len()];
    parallel::fill(&mut gradient, threads, |first, block| {
        for (slope, at) in block.iter_mut().zip(first..) {
            let row = &rows[at / vocabulary];
            let (here, there) = (logits[at].widen(), logits_ref[at].widen());
            let p = exp(here - row.log_z);
            *slope = T::narrow(match direction {
                Direction::Reverse if p > 0.0 => {
                    p * (here - there - (row.log_z - row.log_z_ref) - row.divergence)
                }
                Direction::Reverse => 0.0,
                Direction::Forward => p - exp(there - row.log_z_ref),
            });
        }
    });
    Ok(gradient)
}

/// Two distributions a row.
#[derive(Clone, Copy)]
struct DistributionPair<'a, T> {
    logits: &'a [T],
    logits_ref: &'a [T],
    vocabulary: usize,
    direction: Direction,
}

/// Terms common to a row.
struct RowTerms {
    log_z: f64,
    log_z_ref: f64,
    divergence: f64,
}

impl<T: Real> DistributionPair<'_, T> {
    fn rows(&self, threads: usize) -> Result<Vec<RowTerms>> {
        check_length("logits_ref", self.logits_ref.len(), self.logits.len())?;
        check_positive("vocabulary", self.vocabulary as f64)?;
        let count = self.logits.len() / self.vocabulary;
        check_length("logits", self.logits.len(), count * self.vocabulary)?;
        check_logs("logits", self.logits)?;
        check_logs("logits_ref", self.logits_ref)?;
        let parts =
            parallel::in_parts(count, threads, |rows| rows.map(|row| self.row(row)).collect::<Vec<_>>());
        parts.into_iter().flatten().collect()
    }

    fn row(&self, row: usize) -> Result<RowTerms> {
        let place = row * self.vocabulary..(row + 1) * self.vocabulary;
        let (logits, logits_ref) = (&self.logits[place.clone()], &self.logits_ref[place]);
        let (log_z, log_z_ref) = (log_sum_exp(logits, 1)?, log_sum_exp(logits_ref, 1)?);
        if let Some(value) = [log_z, log_z_ref].into_iter().find(|log_z| log_z.is_infinite()) {
            return Err(Error::NotFinite { what: "log_z of the row", index: row, value });
        }
        let divergence = wide(match self.direction {
            Direction::Reverse => {
                MeanLogRatio { values: logits, log_z, others: logits_ref, other_log_z: log_z_ref }
            }
            Direction::Forward => {
                MeanLogRatio { values: logits_ref, log_z: log_z_ref, others: logits, other_log_z: log_z }
            }
        });
        Ok(RowTerms { log_z, log_z_ref, divergence })
    }
}

/// The mean of the log-ratio of two distributions, under the first.
struct MeanLogRatio<'a, T> {
    values: &'a [T],
    log_z: f64,
    others: &'a [T],
    other_log_z: f64,
}

impl<T: Real> Kernel for MeanLogRatio<'_, T> {
    type Output = f64;

    #[inline(always)]
    fn run(self) -> f64 {
        let (mut terms, mut total) = ([0.0; ROOM], 0.0);
        let log_z_ratio = self.other_log_z - self.log_z;
        for (values, others) in self.values.chunks(ROOM).zip(self.others.chunks(ROOM)) {
            let terms = &mut terms[..values.len()];
            for place in 0..values.len() {
                let (value, other) = (values[place].widen(), others[place].widen());
                // Logits that are near each other have an exact difference.
                let log_ratio = (other - value) - log_z_ratio;
                terms[place] = term(exp(value - self.log_z), exp(other - self.other_log_z), log_ratio);
            }
            // Plain, for a sum that carries its error would make infinity NaN.
            total += simd::sum(terms);
        }
        total
    }
}

/// `p (exp(x) - 1 - x)` at `x = log(q / p)`, which is `q - p - p x`; q where p is 0.
#[inline(always)]
fn term(p: f64, q: f64, x: f64) -> f64 {
    if p <= 0.0 {
        q
    } else if x > 1.0 {
        // The exponential of x may be beyond f64 where p is tiny.
        q - p - p * x
    } else {
        p * exp_less_line(x)
    }
}
