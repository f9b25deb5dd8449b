//! Log-sum-exp of groups whose values stand in any order.

use super::anchor;
use crate::check::{check_length, check_logs};
use crate::error::Result;
use crate::exp::{exp, ln_in_place};
use crate::group::Groups;
use crate::numeric::Compensated;
use crate::real::Real;

/// `log(sum_i exp(x_i))` of each group, in the order of their codes; minus infinity for one without rows. A row without a
/// group is left out.
///
/// Shapes: values `[B]`, result `[P]`. Cost: two passes, one exponential a value; each value finds its group's state, so
/// many groups in a random order wait for memory. Values that stand by group are faster as rows:
/// [`log_sum_exp_rows`](super::log_sum_exp_rows).
///
/// # Errors
/// [`Error::Length`](crate::Error::Length) where values and groups differ in rows;
/// [`Error::NotFinite`](crate::Error::NotFinite) for a NaN or plus infinity.
pub fn log_sum_exp_by<T: Real>(values: &[T], groups: &Groups<'_>, threads: usize) -> Result<Vec<f64>> {
    check_length("values", values.len(), groups.rows())?;
    check_logs("log_sum_exp value", values)?;
    let tops = groups.fold(threads, f64::NEG_INFINITY, |top, _, row| *top = top.max(values[row].widen()));
    let sums = groups.fold(threads, Compensated::default(), |sum: &mut Compensated, group, row| {
        sum.add(exp(values[row].widen() - anchor(tops[group])));
    });
    let mut logs: Vec<f64> = sums.into_iter().map(Compensated::value).collect();
    ln_in_place(&mut logs);
    logs.iter_mut().zip(&tops).for_each(|(log, top)| *log += top);
    Ok(logs)
}
