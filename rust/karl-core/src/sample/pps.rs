//! Fixed-size sampling in proportion to size: the threshold under which a row is drawn by its share.

use crate::check::{check_positive, check_total, check_weights};
use crate::error::Result;
use crate::numeric::sum::Compensated;

/// Rows from which the total weight of any set of rows can be estimated: by the sum of the estimates of those drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimated {
    /// The rows drawn. `[k]`
    pub rows: Vec<u32>,
    /// Rows of this weight and more were drawn for certain; 0 where all were.
    pub threshold: f64,
    /// Estimated weight of each drawn row: the larger of its weight and the threshold. `[k]`
    pub estimates: Vec<f64>,
}

/// Compute the threshold with an expected sample size of `k`.
///
/// ```text
/// sum_i min(1, w_i / tau) = k,      pi_i = min(1, w_i / tau)
/// ```
///
/// `pi_i` is the probability of row i to be in a sample of exactly k rows ([`VarOpt`](super::VarOpt)), and `max(w_i,
/// tau)` the estimated weight of a drawn row. 0 where no more than k rows have a weight: all of them are drawn.
/// Shapes: `[B]`. Cost: a partition, and a sort of k weights. References: Cohen et al. 2009 (arXiv:0803.0473).
///
/// ```
/// use karl_core::sample::pps::threshold;
/// assert_eq!(threshold(&[1.0, 2.0, 3.0, 4.0, 20.0], 3)?, 5.0);
/// assert_eq!(threshold(&[1.0, 0.0], 2)?, 0.0);
/// # Ok::<(), karl_core::Error>(())
/// ```
///
/// # Errors
/// [`Error::Weight`](crate::Error::Weight) for a weight that is negative, NaN or infinite;
/// [`Error::NotFinite`](crate::Error::NotFinite) for weights with a total that overflows;
/// [`Error::Positive`](crate::Error::Positive) for k = 0.
pub fn threshold(weights: &[f64], k: usize) -> Result<f64> {
    check_weights(weights)?;
    check_total(0.0, weights)?;
    check_positive("k", k as f64)?;
    let mut weights: Vec<f64> = weights.iter().copied().filter(|&weight| weight > 0.0).collect();
    if weights.len() <= k {
        return Ok(0.0);
    }
    weights.select_nth_unstable_by(k, |a, b| b.total_cmp(a));
    let (large, rest) = weights.split_at_mut(k);
    large.sort_unstable_by(f64::total_cmp);
    let mut total = Compensated::default();
    for &weight in &*rest {
        total.add(weight);
    }
    // The rows at or under the threshold are the rest and the smallest of the large, as long as they do not pass it.
    let mut share = 0.0;
    for &weight in &*large {
        if share > 0.0 && weight * share >= total.value() {
            break;
        }
        total.add(weight);
        share += 1.0;
    }
    Ok(total.value() / share)
}

/// Return the probability of a row to be drawn, `min(1, w / tau)`; 0 for a row without weight.
#[must_use]
pub fn share(weight: f64, threshold: f64) -> f64 {
    if weight <= 0.0 {
        0.0
    } else if weight > threshold {
        1.0
    } else {
        weight / threshold
    }
}

/// Return the probability of each row to be drawn. Shapes: `[B]`.
#[must_use]
pub fn shares(weights: &[f64], threshold: f64) -> Vec<f64> {
    weights.iter().map(|&weight| share(weight, threshold)).collect()
}
