//! Binding of `karl_core::advantage::leave_one_out`.

#![allow(clippy::doc_markdown, reason = "these are docstrings of Python")]

use super::{Scores, scored};
use karl_core::advantage::Score;
use pyo3::prelude::*;

/// Subtract the mean of the others of its group from each reward (RLOO).
///
///     A_i = r_i - mean of r_j, j != i  =  n / (n - 1) * (r_i - mean_g)
///
/// Args:
///     rewards, group_ids, offsets: as in :func:`centre`.
///
/// Returns:
///     The advantages; degenerate cases as in :func:`centre`. [B]
///
/// Raises:
///     As :func:`centre`.
///
/// Reference: Ahmadian et al. 2024 (arXiv:2402.14740).
#[pyfunction]
#[pyo3(signature = (rewards, group_ids=None, *, offsets=None))]
pub(crate) fn leave_one_out<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    group_ids: Option<&Bound<'py, PyAny>>,
    offsets: Option<&Bound<'py, PyAny>>,
) -> PyResult<Scores<'py>> {
    scored(py, rewards, (group_ids, offsets), Score::LeaveOneOut)
}
