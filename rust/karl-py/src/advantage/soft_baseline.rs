//! Binding of `karl_core::advantage::partition_baseline`.

#![allow(clippy::doc_markdown, reason = "these are docstrings of Python")]

use super::Scores;
use crate::boundary::array::threads;
use crate::boundary::grouping::score;
use karl_core::advantage::{self};
use pyo3::prelude::*;

/// Compare each reward to the log-partition of its group, a soft maximum.
///
///     A_i = r_i - (1 / b) log( (1 / n) sum_j exp(b r_j) )
///
/// `exp(b A_i) / n` is the Boltzmann target of the group. The baseline lies between the mean (b to 0) and the largest reward.
///
/// Args:
///     rewards, group_ids, offsets: as in :func:`centre`.
///     inverse_temperature: b, above 0; the beta of OAPL is 1 / b.
///
/// Returns:
///     The advantages; degenerate cases as in :func:`centre`. [B]
///
/// Raises:
///     As :func:`centre`; ArgumentError for an inverse temperature that is not above 0.
///
/// References: DRO (arXiv:2405.19107); OAPL (arXiv:2602.19362).
#[pyfunction]
#[pyo3(signature = (rewards, group_ids=None, *, offsets=None, inverse_temperature))]
pub(crate) fn partition_baseline<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    group_ids: Option<&Bound<'py, PyAny>>,
    offsets: Option<&Bound<'py, PyAny>>,
    inverse_temperature: f64,
) -> PyResult<Scores<'py>> {
    score!(py, rewards, (group_ids, offsets), |values, layout| {
        advantage::partition_baseline(values, layout, inverse_temperature, threads())
    })
}
