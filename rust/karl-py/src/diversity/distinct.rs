//! Binding of distinct n-grams of `karl_core::diversity`.

use karl_core::diversity::{self};
use pyo3::prelude::*;

use super::ngram::Ragged;
use crate::boundary::array::{count, threads};

/// Compute distinct-n: the share of different n-grams among all of them, pooled over the sequences.
///
/// ```text
/// distinct_n = (number of different n-grams) / (number of n-grams)
/// ```
///
/// An n-gram never spans two sequences. The larger a set is, the lower the number, at the same variety: compare sets of
/// like size.
///
/// Args:
///     tokens: ids of tokens, tools or actions, end to end, none below 0; or names, in an Arrow column. [T]
///     offsets: where each sequence begins, and where the last one ends. [B + 1]
///     n: the length of an n-gram, 1 or more.
///
/// Returns:
///     A number in (0, 1]; NaN where no sequence has n tokens.
///
/// Raises:
///     ArgumentError: a token id below 0 or null, or an n below 1.
///     DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.
///
/// Reference: Li et al. 2016 (arXiv:1510.03055).
#[pyfunction]
#[pyo3(signature = (tokens, offsets, n=2))]
pub(crate) fn distinct_n(
    py: Python<'_>,
    tokens: &Bound<'_, PyAny>,
    offsets: &Bound<'_, PyAny>,
    n: i64,
) -> PyResult<f64> {
    let n = count("n", n)?;
    Ragged::new(tokens, offsets)?.compute(py, |rows| diversity::distinct_n(rows, n, threads()))
}
