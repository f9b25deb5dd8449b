//! Binding of `karl_core::advantage::maxrl`.

#![allow(clippy::doc_markdown, reason = "these are docstrings of Python")]

use super::Scores;
use crate::boundary::array::threads;
use crate::boundary::grouping::score;
use karl_core::advantage::{self};
use pyo3::prelude::*;

/// Divide each centred reward by the mean of its group (MaxRL).
///
///     A_i = (r_i - mean_g) / (mean_g + eps)
///
/// Args:
///     rewards, group_ids, offsets: as in :func:`centre`; rewards are zero or more.
///     eps: added to the mean.
///
/// Returns:
///     The advantages; degenerate cases as in :func:`centre`. [B]
///
/// Raises:
///     ArgumentError: eps or a reward is negative (a mean below 0 would turn the sign round), or as in :func:`centre`.
///
/// Reference: MaxRL (arXiv:2602.02710).
#[pyfunction]
#[pyo3(signature = (rewards, group_ids=None, *, offsets=None, eps=1e-8))]
pub(crate) fn maxrl<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    group_ids: Option<&Bound<'py, PyAny>>,
    offsets: Option<&Bound<'py, PyAny>>,
    eps: f64,
) -> PyResult<Scores<'py>> {
    score!(py, rewards, (group_ids, offsets), |values, layout| {
        advantage::maxrl(values, layout, eps, threads())
    })
}
