//! Bindings of `karl_core::resampling`.

#![allow(clippy::doc_markdown, reason = "docstrings are read in Python")]

use karl_core::Offsets;
use karl_core::resampling;
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use crate::boundary::array::{column, count, threads, widened};
use crate::boundary::release_gil::compute;

/// Compute the bootstrap interval of the mean of values, such as one number a prompt.
///
/// ```text
/// m_b  = mean of P values drawn with replacement,   b = 1 .. resamples
/// low  = m_(k),  high = m_(resamples + 1 - k),   k = floor((resamples + 1) a)
/// a    = Phi(-sqrt(P / (P - 1)) t),   t = the (1 + level) / 2 quantile of Student's t, P - 1 degrees of freedom
/// ```
///
/// Columns of one length have the same resamples under one seed.
///
/// Args:
///     values: one a prompt, finite. float64 or float32. [P]
///     level: of confidence, 0 to 1.
///     resamples: 1 or more.
///     seed: of the resamples.
///
/// Returns:
///     The lower and the upper end; NaN for fewer than two values.
///
/// Raises:
///     ArgumentError: a value that is not finite, a level outside 0 to 1, or no resample.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Efron 1979; Hesterberg 2015 (arXiv:1411.5279), the expanded percentile interval.
#[pyfunction]
#[pyo3(signature = (values, *, level=0.95, resamples=9999, seed=0))]
pub(crate) fn bootstrap_mean(
    py: Python<'_>,
    values: &Bound<'_, PyAny>,
    level: f64,
    resamples: i64,
    seed: u64,
) -> PyResult<(f64, f64)> {
    let (values, resamples) = (widened("values", values)?, count("resamples", resamples)?);
    let values = values.as_slice()?;
    compute(py, || resampling::bootstrap_mean(values, level, resamples, seed, threads()))
}

/// Test rows of paired differences for a mean above 0, one-sided.
///
/// ```text
/// p = (number of subsets S with sum_{i in S} d_i <= 0) / 2^P            P <= 40, every subset
/// p = (1 + number of drawn subsets with such a sum) / (1 + draws)       otherwise
/// ```
///
/// Flipping the signs of S leaves a sum of at least the observed one exactly there. The test is valid at any P where
/// differences are symmetric about a mean of at most 0; to test for more than a margin, subtract it first.
///
/// Args:
///     differences: rows of them, end to end, finite. float64 or float32. [T]
///     offsets: where each row begins, and where the last one ends. int64. [B + 1]
///     draws: drawn subsets of a row of more than 40.
///     seed: of the subsets.
///
/// Returns:
///     A p-value a row; 1 for an empty one. [B]
///
/// Raises:
///     ArgumentError: a difference that is not finite, or no draw.
///     DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.
///
/// Reference: Fisher 1935, The Design of Experiments; Phipson & Smyth 2010 (the 1 in both parts).
#[pyfunction]
#[pyo3(signature = (differences, offsets, *, draws=999_999, seed=0))]
pub(crate) fn sign_flip<'py>(
    py: Python<'py>,
    differences: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    draws: i64,
    seed: u64,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let (differences, draws) = (widened("differences", differences)?, count("draws", draws)?);
    let offsets = column::<i64>("offsets", offsets)?;
    let (differences, offsets) = (differences.as_slice()?, offsets.as_slice()?);
    let found = compute(py, || {
        let offsets = Offsets::new("offsets", offsets, differences.len())?;
        resampling::sign_flip(differences, offsets, draws, seed, threads())
    })?;
    Ok(found.into_pyarray(py))
}

/// Compute the one-sided lower confidence limit of a mean difference: the sign-flip test of anything below it rejects.
///
/// ```text
/// limit = sup {m: p(d - m w) <= alpha},   p of sign_flip
/// ```
///
/// With weights of 1 it bounds ``mean d``, with others ``sum d / sum w``, such as nats a token. The mirrored limit of
/// ``-d`` is the upper one.
///
/// Args:
///     differences: finite. float64 or float32. [P]
///     weights: above 0. float64 or float32. [P]
///     alpha: the error, above 0 and up to 1.
///     draws: drawn subsets for more than 40 differences.
///     seed: of the subsets.
///
/// Returns:
///     The limit; minus infinity where so few differences exclude nothing.
///
/// Raises:
///     ArgumentError: a number out of range, or columns that differ in length.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Hartigan 1969 (limits are order statistics of subset means).
#[pyfunction]
#[pyo3(signature = (differences, weights, *, alpha=0.05, draws=999_999, seed=0))]
pub(crate) fn sign_flip_limit(
    py: Python<'_>,
    differences: &Bound<'_, PyAny>,
    weights: &Bound<'_, PyAny>,
    alpha: f64,
    draws: i64,
    seed: u64,
) -> PyResult<f64> {
    let (differences, weights) = (widened("differences", differences)?, widened("weights", weights)?);
    let (differences, weights) = (differences.as_slice()?, weights.as_slice()?);
    let draws = count("draws", draws)?;
    compute(py, || resampling::sign_flip_limit(differences, weights, alpha, draws, seed, threads()))
}
