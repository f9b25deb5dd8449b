//! Binding of `karl_core::advantage::centre`.

#![allow(clippy::doc_markdown, reason = "these are docstrings of Python")]

use super::{Scores, scored};
use karl_core::advantage::Score;
use pyo3::prelude::*;

/// Subtract the mean of its group from each reward (Dr. GRPO).
///
///     A_i = r_i - mean_g
///
/// Statistics are over the present rewards of a group. A group of equal rewards has advantage exactly 0, and so has a
/// group of one; a missing reward (NaN) and a row without a group have NaN.
///
/// Args:
///     rewards: float64 or float32, an array of NumPy or an Arrow column; NaN or null is missing. [B]
///     group_ids: the group of each row in any order, negative for none; or names, in an Arrow column. [B]
///     offsets: instead of ids, where each group begins, for groups end to end. [P + 1]
///
/// Returns:
///     The advantages. [B]
///
/// Raises:
///     ArgumentError: an infinite reward, columns that differ in rows, or an advantage beyond float64.
///     UsageError: both or neither of group_ids and offsets.
///     DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.
///
/// Reference: Liu et al. 2025 (arXiv:2503.20783).
#[pyfunction]
#[pyo3(signature = (rewards, group_ids=None, *, offsets=None))]
pub(crate) fn centre<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    group_ids: Option<&Bound<'py, PyAny>>,
    offsets: Option<&Bound<'py, PyAny>>,
) -> PyResult<Scores<'py>> {
    scored(py, rewards, (group_ids, offsets), Score::Centre)
}
