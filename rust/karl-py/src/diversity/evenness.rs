//! Bindings of the evenness of categories of `karl_core::diversity`.

use crate::boundary::array::{count, reals, with_reals};
use crate::boundary::release_gil::compute;
use karl_core::diversity;
use pyo3::prelude::*;

/// Compute the entropy of categories, in nats.
///
/// ```text
/// H = -sum p ln p,   p = w / sum w
/// ```
///
/// Args:
///     weights: rows or weight of each category, 0 for one that was not used. float64 or float32. [K]
///
/// Returns:
///     0 (one category has everything) to ln K (all alike); NaN where nothing has weight.
///
/// Raises:
///     ArgumentError: a weight that is negative, NaN or infinite.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Shannon 1948.
#[pyfunction]
pub(crate) fn entropy(py: Python<'_>, weights: &Bound<'_, PyAny>) -> PyResult<f64> {
    with_reals!(&reals("weights", weights)?, |values| compute(py, || diversity::entropy(values)))
}

/// Compute the entropy as a share of the largest that the list of categories allows.
///
/// ```text
/// evenness = H / ln K
/// ```
///
/// K counts every category of the list. Over the used ones alone, a policy that forgets a category would look more
/// even.
///
/// Args:
///     weights: rows or weight of each category, 0 for one that was not used. float64 or float32. [K]
///
/// Returns:
///     0 to 1; 0 where K = 1, which leaves no choice; NaN where nothing has weight.
///
/// Raises:
///     ArgumentError: a weight that is negative, NaN or infinite.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Pielou 1966.
#[pyfunction]
pub(crate) fn evenness(py: Python<'_>, weights: &Bound<'_, PyAny>) -> PyResult<f64> {
    with_reals!(&reals("weights", weights)?, |values| compute(py, || diversity::evenness(values)))
}

/// Compute the effective number of categories (Hill number): as many equally used ones are as diverse.
///
/// ```text
/// order 0: number with weight,   1: exp(H),   2: 1 / sum p^2
/// ```
///
/// Args:
///     weights: rows or weight of each category, 0 for one that was not used. float64 or float32. [K]
///     order: 0, 1 or 2; 2 is the ESS of the weights.
///
/// Returns:
///     1 to the number of categories with weight; NaN where nothing has weight.
///
/// Raises:
///     ArgumentError: a weight that is negative, NaN or infinite, or another order.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Hill 1973.
#[pyfunction]
#[pyo3(signature = (weights, *, order=1))]
pub(crate) fn effective_number(py: Python<'_>, weights: &Bound<'_, PyAny>, order: i64) -> PyResult<f64> {
    let order = count("order", order)?;
    with_reals!(&reals("weights", weights)?, |values| compute(py, || diversity::effective_number(
        values, order
    )))
}

/// Compute the Gini coefficient of the weights of categories: half their mean absolute difference over their mean.
///
/// ```text
/// G = sum_i (2 i - K - 1) w_(i) / (K sum w),   w_(1) <= ... <= w_(K)
/// ```
///
/// Args:
///     weights: rows or weight of each category, 0 for one that was not used. float64 or float32. [K]
///
/// Returns:
///     0 (all alike) to (K - 1) / K (one has everything); NaN where nothing has weight.
///
/// Raises:
///     ArgumentError: a weight that is negative, NaN or infinite.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Gini 1912.
#[pyfunction]
pub(crate) fn gini(py: Python<'_>, weights: &Bound<'_, PyAny>) -> PyResult<f64> {
    with_reals!(&reals("weights", weights)?, |values| compute(py, || diversity::gini(values)))
}

/// Return the share of the given categories that have any weight.
///
/// ```text
/// coverage = (number of categories with w > 0) / K
/// ```
///
/// Args:
///     weights: rows or weight of each category, 0 for one that was not used. float64 or float32. [K]
///
/// Returns:
///     0 to 1; NaN for an empty list.
///
/// Raises:
///     ArgumentError: a weight that is negative, NaN or infinite.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
#[pyfunction]
pub(crate) fn coverage(py: Python<'_>, weights: &Bound<'_, PyAny>) -> PyResult<f64> {
    with_reals!(&reals("weights", weights)?, |values| compute(py, || diversity::coverage(values)))
}
