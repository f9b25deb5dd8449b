//! Evenness of the use of categories: one number from the weights of a list of them.
//!
//! A category that was available but not used has weight 0 in the list. Entropy measures the number of used
//! categories and their evenness, Gini their unevenness; neither measures whether the choice depends on the input
//! ([`mutual_information`](super::mutual_information)).

use crate::check::{check_finite, check_most, check_within};
use crate::error::{Error, Result};
use crate::numeric::float::Real;
use crate::numeric::sum::sum;

/// Compute the entropy of categories, in nats.
///
/// ```text
/// H = -sum p ln p,   p = w / sum w
/// ```
///
/// It lies between 0 (one category has everything) and ln K (all K alike); NaN where nothing has weight.
/// Shapes: weights `[K]`. Cost: one logarithm a category. Reference: Shannon 1948.
///
/// # Errors
/// [`Error::NotFinite`] for a weight that is NaN or infinite; [`Error::Number`] for a total beyond f64; [`Error::Outside`] for a
/// negative one.
pub fn entropy<R: Real>(weights: &[R]) -> Result<f64> {
    measured(weights, entropy_of)
}

/// Compute the entropy as a share of the largest that the list allows.
///
/// ```text
/// evenness = H / ln K
/// ```
///
/// K counts every category of the list, used or not: over those used alone, a policy that forgets a category would
/// look more even. One category has no choice in it: 0. NaN where nothing has weight. Reference: Pielou 1966.
///
/// # Errors
/// As [`entropy`].
pub fn evenness<R: Real>(weights: &[R]) -> Result<f64> {
    measured(weights, |shares| match shares.len() {
        1 => 0.0,
        count => (entropy_of(shares) / libm::log(count as f64)).min(1.0),
    })
}

/// Compute the effective number of categories (Hill number): as many equally used ones are as diverse.
///
/// ```text
/// order 0: number with weight,   1: exp(H),   2: 1 / sum p^2
/// ```
///
/// Order 2 is the ESS of the weights. NaN where nothing has weight. Reference: Hill 1973.
///
/// # Errors
/// As [`entropy`]; [`Error::Most`] for an order above 2.
pub fn effective_number<R: Real>(weights: &[R], order: usize) -> Result<f64> {
    check_most("order", order, 2)?;
    measured(weights, |shares| {
        let used = shares.iter().filter(|&&share| share > 0.0).count() as f64;
        let number = match order {
            0 => used,
            1 => libm::exp(entropy_of(shares)),
            _ => 1.0 / sum(shares.iter().map(|share| share * share)),
        };
        number.clamp(1.0, used)
    })
}

/// Compute the Gini coefficient of the weights of categories: half their mean absolute difference over their mean.
///
/// ```text
/// G = sum_i (2 i - K - 1) w_(i) / (K sum w),   w_(1) <= ... <= w_(K)
/// ```
///
/// 0 where all are equal, (K - 1) / K where one has everything; NaN where nothing has weight. Cost: one sort.
/// Reference: Gini 1912.
///
/// # Errors
/// As [`entropy`].
pub fn gini<R: Real>(weights: &[R]) -> Result<f64> {
    measured(weights, |shares| {
        let (mut sorted, count) = (shares.to_vec(), shares.len() as f64);
        sorted.sort_unstable_by(f64::total_cmp);
        let ranked = sorted.iter().enumerate().map(|(at, share)| (2.0 * at as f64 + 1.0 - count) * share);
        sum(ranked).max(0.0) / count
    })
}

/// Return the share of the given categories that have any weight; NaN for an empty list.
///
/// # Errors
/// As [`entropy`].
pub fn coverage<R: Real>(weights: &[R]) -> Result<f64> {
    check(weights)?;
    let used = weights.iter().filter(|weight| weight.widen() > 0.0).count();
    Ok(used as f64 / weights.len() as f64)
}

/// Return the entropy of shares that add up to one.
fn entropy_of(shares: &[f64]) -> f64 {
    let used = shares.iter().filter(|&&share| share > 0.0);
    sum(used.map(|share| -share * libm::log(*share)))
}

/// Return a number of the shares of the weights; NaN where there is no weight to share.
fn measured<R: Real>(weights: &[R], measure: impl Fn(&[f64]) -> f64) -> Result<f64> {
    check(weights)?;
    let total = sum(weights.iter().map(|weight| weight.widen()));
    if !total.is_finite() {
        return Err(Error::Number { what: "total of weights", value: total });
    }
    let shares: Vec<f64> = weights.iter().map(|weight| weight.widen() / total).collect();
    Ok(if total > 0.0 { measure(&shares) } else { f64::NAN })
}

fn check<R: Real>(weights: &[R]) -> Result<()> {
    check_finite("weights", weights)?;
    check_within("weights", weights, 0.0, f64::INFINITY)
}
