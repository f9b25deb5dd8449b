//! Values of success rates.

use std::cmp::Ordering;

use crate::check::{check_length, check_range, check_within};
use crate::error::{Error, Result};
use crate::group::{check_rows, numbered};
use crate::numeric::float::Real;
use crate::numeric::parallel;

/// Return the probability that a group of rollouts is not all right and not all wrong.
///
/// ```text
/// M(q, K) = 1 - q^K - (1 - q)^K = -expm1(K log1p(-m)) - m^K,   m = min(q, 1 - q)
/// ```
///
/// The second form keeps all digits of a rate near 0 or 1. M is symmetric, largest at 1/2, and 0 for a group of one.
/// A missing rate (NaN) stays missing. Shapes: rates and result `[P]`. Cost: three elementary functions a rate.
///
/// # Errors
/// [`Error::Outside`] for a rate outside [0, 1]; [`Error::Positive`] for a size of 0.
pub fn mixed_group_probability<R: Real>(rates: &[R], size: u32, threads: usize) -> Result<Vec<f64>> {
    check_rates(rates)?;
    if size == 0 {
        return Err(Error::Positive { what: "size", value: 0.0 });
    }
    let k = f64::from(size);
    let one = |rate: f64| {
        let rarer = if rate > 0.5 { 1.0 - rate } else { rate };
        if size == 1 { 0.0 * rate } else { -libm::expm1(k * libm::log1p(-rarer)) - libm::pow(rarer, k) }
    };
    Ok(mapped(rates, threads, one))
}

/// Return the variance of one rollout's outcome: `p (1 - p)`, largest where success and failure are equally likely.
///
/// A missing rate (NaN) stays missing. Shapes: rates and result `[P]`. Cost: one pass.
///
/// # Errors
/// [`Error::Outside`] for a rate outside [0, 1].
pub fn outcome_variance<R: Real>(rates: &[R], threads: usize) -> Result<Vec<f64>> {
    check_rates(rates)?;
    Ok(mapped(rates, threads, |rate| rate * (1.0 - rate)))
}

/// Return the prompts with rates nearest to a target, nearest first.
///
/// ```text
/// the k least |rate_i - target|;   ties: the smaller id, and without ids the earlier row
/// ```
///
/// A missing rate (NaN) is never chosen. Shapes: rates and ids `[P]`, result up to `[k]`. Cost: linear, and a sort of
/// the k. Reference: PACED-RL (arXiv:2602.12642), which takes the prompts nearest to 1/2.
///
/// # Errors
/// [`Error::Outside`] for a rate outside [0, 1]; [`Error::Range`] for such a target; [`Error::Length`] where ids and
/// rates differ in rows.
pub fn nearest<R: Real>(rates: &[R], ids: Option<&[i64]>, target: f64, k: usize) -> Result<Vec<u32>> {
    check_rows(rates.len())?;
    check_rates(rates)?;
    check_range("target", target, 0.0, 1.0)?;
    let names = ids.unwrap_or_default();
    if ids.is_some() {
        check_length("ids", names.len(), rates.len())?;
    }
    let distance = |row: u32| (rates[row as usize].widen() - target).abs();
    let name = |row: u32| names.get(row as usize).copied().unwrap_or_default();
    let order = |&a: &u32, &b: &u32| -> Ordering {
        distance(a).total_cmp(&distance(b)).then(name(a).cmp(&name(b))).then(a.cmp(&b))
    };
    let mut rows: Vec<u32> = (0..numbered(rates.len())).filter(|&row| !distance(row).is_nan()).collect();
    if k < rows.len() {
        rows.select_nth_unstable_by(k, order);
        rows.truncate(k);
    }
    rows.sort_unstable_by(order);
    Ok(rows)
}

fn mapped<R: Real>(rates: &[R], threads: usize, one: impl Fn(f64) -> f64 + Sync) -> Vec<f64> {
    let mut values = vec![0.0; rates.len()];
    parallel::fill(&mut values, threads, |first, block| {
        block.iter_mut().zip(&rates[first..]).for_each(|(value, rate)| *value = one(rate.widen()));
    });
    values
}

/// Reject rates outside [0, 1]; NaN passes, because it says "missing".
fn check_rates<R: Real>(rates: &[R]) -> Result<()> {
    check_within("rates", rates, 0.0, 1.0)
}
