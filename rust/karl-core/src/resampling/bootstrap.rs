//! Percentile intervals of a mean by the bootstrap.

use std::ops::Range;

use special::Beta;

use crate::check::{check_finite, check_positive, check_range};
use crate::error::Result;
use crate::numeric::parallel::in_parts;
use crate::numeric::sum::sum;
use crate::rng::xxh3::Hashes;
use crate::rng::{Key, Purpose};

/// Degrees of freedom from which on Student's t is taken as it is there: it is the normal distribution to four digits.
const NORMAL: f64 = 1e4;

/// Compute the bootstrap interval of the mean of values, such as one number a prompt.
///
/// ```text
/// m_b  = mean of P values drawn with replacement,   b = 1 .. B
/// low  = m_(k),  high = m_(B + 1 - k),   k = max(1, floor((B + 1) a))
/// a    = Phi(-sqrt(P / (P - 1)) t),   t = the (1 + level) / 2 quantile of Student's t, P - 1 degrees of freedom
/// ```
///
/// The tail `a` in the place of `(1 - level) / 2` is what makes the interval of few values wide enough: plain percentiles
/// have the variance of P - 1 values, and the quantiles of a normal distribution. Columns of one length have the same
/// resamples under one seed, so that their intervals are those of one experiment.
/// Shapes: values `[P]`. NaN for fewer than two values. Cost: `B P` hashes, one sort of B.
/// Reference: Efron 1979; Hesterberg 2015 (arXiv:1411.5279), section 5.4 (the expanded percentile interval).
///
/// # Errors
/// [`Error::NotFinite`](crate::Error::NotFinite) for a value that is; [`Error::Positive`](crate::Error::Positive) for no
/// resample; [`Error::Range`](crate::Error::Range) for a level outside 0 to 1.
pub fn bootstrap_mean(
    values: &[f64],
    level: f64,
    resamples: usize,
    seed: u64,
    threads: usize,
) -> Result<(f64, f64)> {
    check_finite("values", values)?;
    check_positive("resamples", resamples as f64)?;
    check_range("level", level, 0.0, 1.0)?;
    let count = values.len();
    if count < 2 {
        return Ok((f64::NAN, f64::NAN));
    }
    let hashes = Hashes::new(seed, Purpose::Resample);
    let run = |draws: Range<usize>| draws.map(|draw| resampled(values, &hashes, draw)).collect::<Vec<_>>();
    let mut means = in_parts(resamples, threads, run).concat();
    means.sort_unstable_by(f64::total_cmp);
    let tail = rank(resamples, expanded_tail(level, count as f64));
    Ok((means[tail - 1], means[resamples - tail]))
}

/// Return the share of resampled means below the interval of so many values.
fn expanded_tail(level: f64, count: f64) -> f64 {
    let z = (count / (count - 1.0)).sqrt() * student(level, count - 1.0);
    libm::erfc(z / std::f64::consts::SQRT_2) / 2.0
}

/// Return the `(1 + level) / 2` quantile of Student's t, by that of the Beta distribution of `f / (f + t^2)`.
fn student(level: f64, freedom: f64) -> f64 {
    let (a, b) = (freedom.min(NORMAL) / 2.0, 0.5);
    let ln_beta = libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b);
    let x = (1.0 - level).inv_inc_beta(a, b, ln_beta);
    (2.0 * a * (1.0 - x) / x).sqrt()
}

/// Return the mean of a resample: each place draws its row by a hash of (resample, place).
#[allow(clippy::cast_possible_truncation, reason = "the row is below the number of rows")]
fn resampled(values: &[f64], hashes: &Hashes, draw: usize) -> f64 {
    let row = |place: usize| {
        let hash = hashes.of(Key { id: draw as u128, ordinal: place as u64 });
        // The high half of the product is uniform over the rows, without a division (Lemire 2019).
        ((u128::from(hash) * values.len() as u128) >> 64) as usize
    };
    sum((0..values.len()).map(|place| values[row(place)])) / values.len() as f64
}

/// Return the rank, from 1, below which so large a share of draws lies.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a count, from 0 to it"
)]
fn rank(draws: usize, share: f64) -> usize {
    (((draws + 1) as f64 * share).floor() as usize).clamp(1, draws.div_ceil(2))
}
