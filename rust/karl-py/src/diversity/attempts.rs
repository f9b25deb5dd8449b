//! Bindings of `karl_core::diversity` for success and reward of k attempts.

use karl_core::diversity;
use numpy::IntoPyArray;
use pyo3::prelude::*;

use super::Floats;
use crate::boundary::array::{column, count, reals, threads, with_reals};
use crate::boundary::grouping::{Grouping, OptionalArgument};
use crate::boundary::release_gil::compute;

/// Compute pass@k: the probability that at least one of k attempts at a prompt is right, from n of which c are.
///
/// ```text
/// pass@k = 1 - C(n - c, k) / C(n, k) = 1 - prod_{i=n-c+1}^{n} (1 - k / i)
/// ```
///
/// It is unbiased, where ``1 - (1 - c/n)^k`` is too low. It is computed as a product of min(c, k) factors.
///
/// Args:
///     rollouts: n of each prompt. [P]
///     successes: c of each prompt. [P]
///     k: 1 or more.
///
/// Returns:
///     A chance for each prompt; NaN where n < k, for so few attempts say nothing of k. [P]
///
/// Raises:
///     ArgumentError: a negative count, more successes than rollouts, columns that differ in length, or a k below 1.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Chen et al. 2021 (arXiv:2107.03374).
#[pyfunction]
#[pyo3(signature = (rollouts, successes, k))]
pub(crate) fn pass_at_k<'py>(
    py: Python<'py>,
    rollouts: &Bound<'py, PyAny>,
    successes: &Bound<'py, PyAny>,
    k: i64,
) -> PyResult<Floats<'py>> {
    let k = count("k", k)?;
    let rollouts = column::<i64>("rollouts", rollouts)?;
    let successes = column::<i64>("successes", successes)?;
    let (n, c) = (rollouts.as_slice()?, successes.as_slice()?);
    Ok(compute(py, || diversity::pass_at_k(n, c, k, threads()))?.into_pyarray(py))
}

/// Compute best@k: the expected largest reward of k rollouts of a group, drawn from it without replacement.
///
/// ```text
/// best@k = sum_{i=k}^{n} C(i - 1, k - 1) / C(n, k) * r_(i),   r_(1) <= ... <= r_(n)
/// ```
///
/// The n present rewards of a group count. k = 1 is the mean, k = n the largest; of rewards 0 and 1 it is pass@k.
///
/// Args:
///     rewards: one a rollout; NaN where missing. float64 or float32. [B]
///     group_ids: the prompt of each rollout, negative for none; or names, in an Arrow column. [B]
///     offsets: instead of ids, where each group begins, for groups end to end. [P + 1]
///     k: 1 or more.
///
/// Returns:
///     One number a group, in order of first appearance, or by row of the offsets; NaN where fewer than k rewards are
///     present. [P]
///
/// Raises:
///     ArgumentError: an infinite reward, columns that differ in length, or a k below 1.
///     UsageError: both or neither of group_ids and offsets.
///     DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.
///
/// Reference: the order statistics of Chen et al. 2021 (arXiv:2107.03374).
#[pyfunction]
#[pyo3(signature = (rewards, group_ids=None, *, offsets=None, k))]
pub(crate) fn best_at_k<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    group_ids: OptionalArgument<'_, 'py>,
    offsets: OptionalArgument<'_, 'py>,
    k: i64,
) -> PyResult<Floats<'py>> {
    let (k, rewards) = (count("k", k)?, reals("rewards", rewards)?);
    let grouping = Grouping::in_order(group_ids, offsets)?;
    let best = with_reals!(&rewards, |values| {
        let groups = grouping.codes("offsets", values.len())?;
        compute(py, || diversity::best_at_k(values, &groups, k, threads()))
    })?;
    Ok(best.into_pyarray(py))
}
