//! Bindings of `karl_core::learnability`.

#![allow(clippy::doc_markdown, reason = "docstrings are read in Python")]

use crate::boundary::array::{column, reals, threads, with_reals};
use crate::boundary::release_gil::compute;
use karl_core::Offsets;
use karl_core::learnability::{Learnability, learnability as learnability_of};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

type Floats<'py> = Bound<'py, PyArray1<f64>>;

/// Compute how far a student is from each trajectory: the mean gap of its tokens, their spike, and its learnability.
///
/// ```text
/// gap_t = max_a log p(a) - log p(a_t),    spike = (log sum_t exp(beta gap_t) - log T) / beta
/// learnability = exp(-lambda spike)
/// ```
///
/// Args:
///     gaps: of each token under the student, from 0 on. float32 or float64. [T]
///     offsets: where each trajectory begins, and where the last one ends. [B + 1]
///     beta: sharpness of the spike: the mean gap near 0, the largest gap for a large one.
///     lambda_: what a nat of the spike costs.
///
/// Returns:
///     gap, spike and learnability, float64; NaN for a trajectory without a token. [B] each
///
/// Raises:
///     ArgumentError: a gap below 0 or not finite; a beta that is not above 0, or a negative lambda.
///     DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.
///
/// Reference: noahziems.com/pedagogical-rl; rl-experiments @879294c, with beta 5 and lambda 0.5.
#[pyfunction]
#[pyo3(signature = (gaps, offsets, *, beta=5.0, lambda_=0.5))]
pub(crate) fn learnability<'py>(
    py: Python<'py>,
    gaps: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    beta: f64,
    lambda_: f64,
) -> PyResult<(Floats<'py>, Floats<'py>, Floats<'py>)> {
    let (gaps, offsets) = (reals("gaps", gaps)?, column::<i64>("offsets", offsets)?);
    let places = offsets.as_slice()?;
    let rows = with_reals!(&gaps, |values| compute(py, || {
        learnability_of(values, &Offsets::new("offsets", places, values.len())?, beta, lambda_, threads())
    }))?;
    let floats = |of: fn(&Learnability) -> f64| rows.iter().map(of).collect::<Vec<_>>().into_pyarray(py);
    Ok((floats(|row| row.gap), floats(|row| row.spike), floats(|row| row.learnability)))
}
