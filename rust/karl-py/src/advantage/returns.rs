//! Binding of the discounted returns of `karl_core::advantage`.

#![allow(clippy::doc_markdown, reason = "these are docstrings of Python")]

use super::Scores;
use crate::boundary::array::{column, reals, threads, with_reals};
use crate::boundary::grouping::ragged;
use crate::boundary::release_gil::compute;
use karl_core::advantage::{self};
use numpy::IntoPyArray;
use pyo3::prelude::*;

/// Compute the discounted return of each step.
///
///     R_k = r_k + gamma R_{k+1} within a row,    0 behind the last
///
/// Args:
///     rewards: the reward of each step, of all rows end to end; float64 or float32, NaN or null is missing. [T]
///     offsets: where the steps of each row begin. [B + 1]
///     gamma: the discount of a step, 0 to 1.
///
/// Returns:
///     The returns. A missing reward makes its own return NaN, and with gamma above 0 those before it. [T]
///
/// Raises:
///     ArgumentError: an infinite reward, a return beyond float64, or a gamma outside 0 to 1.
///     DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.
///
/// Reference: Sutton and Barto 2018, section 3.3.
#[pyfunction]
#[pyo3(signature = (rewards, offsets, *, gamma))]
pub(crate) fn discounted_returns<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    gamma: f64,
) -> PyResult<Scores<'py>> {
    let (rewards, offsets) = (reals("rewards", rewards)?, column::<i64>("offsets", offsets)?);
    let out = with_reals!(&rewards, |values| {
        let offsets = ragged("offsets", &offsets, values.len())?;
        compute(py, || advantage::discounted_returns(values, offsets, gamma, threads()))?
    });
    Ok(out.into_pyarray(py))
}
