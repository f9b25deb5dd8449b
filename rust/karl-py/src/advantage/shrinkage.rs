//! Binding of `karl_core::advantage::shrunk`.

#![allow(clippy::doc_markdown, reason = "these are docstrings of Python")]

use super::Scores;
use crate::boundary::array::{count, threads};
use crate::boundary::grouping::score;
use karl_core::advantage::{self, Shrunk};
use pyo3::prelude::*;

/// Compare each reward to a baseline between the mean of its group and that of all rows, for small and uneven groups.
///
///     b_g = (n mean_g + strength * mean) / (n + strength)
///     s_g = max(std_g, floor) where n >= min_count, else max(std, floor)
///     A_i = (r_i - b_g) / s_g
///
/// Deviations have ddof 0. The baseline uses other groups too: a group of one is compared to them, and its advantage
/// is not 0.
///
/// Args:
///     rewards, group_ids, offsets: as in :func:`centre`.
///     strength: number of rewards at the overall mean that are added to each group.
///     floor: the least deviation.
///     min_count: the least rewards for a group to have a deviation of its own.
///
/// Returns:
///     The advantages. [B]
///
/// Raises:
///     As :func:`centre`; ArgumentError for a negative strength, floor or min_count.
///
/// Reference: the reward engine of karl at c41d1c5; the defaults are its constants.
#[pyfunction]
#[pyo3(signature = (rewards, group_ids=None, *, offsets=None, strength=10.0, floor=0.02, min_count=5))]
pub(crate) fn shrunk<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    group_ids: Option<&Bound<'py, PyAny>>,
    offsets: Option<&Bound<'py, PyAny>>,
    strength: f64,
    floor: f64,
    min_count: i64,
) -> PyResult<Scores<'py>> {
    let min_count = u32::try_from(count("min_count", min_count)?).unwrap_or(u32::MAX);
    let how = Shrunk { strength, floor, min_count };
    score!(py, rewards, (group_ids, offsets), |values, layout| {
        advantage::shrunk(values, layout, how, threads())
    })
}
