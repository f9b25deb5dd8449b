//! Binding of `karl_core::advantage::zscore`.

#![allow(clippy::doc_markdown, reason = "these are docstrings of Python")]

use super::{Scores, scored};
use crate::boundary::array::{freedom, threads};
use crate::boundary::error::UsageError;
use crate::boundary::grouping::score;
use karl_core::advantage::{self, DeviationScope, Score};
use pyo3::prelude::*;

/// Divide each centred reward by a standard deviation (GRPO).
///
///     A_i = (r_i - mean_g) / (std_g + eps),    std^2 = sum_j (r_j - mean)^2 / (n - ddof)
///
/// Args:
///     rewards, group_ids, offsets: as in :func:`centre`.
///     ddof: taken from the count under the variance: 0, or 1 as TRL, verl and OpenRLHF have it.
///     eps: added to the deviation. A tiny one blows nearly equal rewards up to advantages near 1.
///     scope: what the deviation is over. ``group``; ``batch``: all rows that have a reward and a group, with the mean of
///         the group (TRL's ``scale_rewards="batch"``); ``global``: the mean too is over all of them.
///
/// Returns:
///     The advantages. Equal rewards in a group have exactly 0, and with ``global`` equal rewards everywhere. [B]
///
/// Raises:
///     ArgumentError: as :func:`centre`; a negative eps; rewards that differ, but no more of them than ddof.
///     UsageError, DTypeError, LayoutError: as :func:`centre`; a scope that there is not.
///
/// Reference: Shao et al. 2024 (arXiv:2402.03300).
#[pyfunction]
#[pyo3(signature = (rewards, group_ids=None, *, offsets=None, ddof=0, eps=1e-6, scope="group"))]
pub(crate) fn zscore<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    group_ids: Option<&Bound<'py, PyAny>>,
    offsets: Option<&Bound<'py, PyAny>>,
    ddof: i64,
    eps: f64,
    scope: &str,
) -> PyResult<Scores<'py>> {
    let (extent, ddof) = (extent(scope)?, freedom(ddof)?);
    if extent == DeviationScope::Group {
        return scored(py, rewards, (group_ids, offsets), Score::ZScore { ddof, eps });
    }
    score!(py, rewards, (group_ids, offsets), |values, layout| {
        advantage::zscore_over(values, layout, extent, (ddof, eps), threads())
    })
}

fn extent(scope: &str) -> PyResult<DeviationScope> {
    match scope {
        "group" => Ok(DeviationScope::Group),
        "batch" => Ok(DeviationScope::Batch),
        "global" => Ok(DeviationScope::Global),
        _ => Err(UsageError::new_err(format!("scope is {scope:?}, wanted one of group, batch, global"))),
    }
}
