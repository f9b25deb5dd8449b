//! Bindings of `karl_core::advantage`: the scores of a reward within its group. Those over tokens, steps and time stand in
//! files of their own.

#![allow(clippy::doc_markdown, reason = "these are docstrings of Python")]

pub(crate) mod baseline;
pub(crate) mod gdpo;
pub(crate) mod steps;
pub(crate) mod trainers;
pub(crate) mod whiten;

use karl_core::Scratch;
use karl_core::advantage::{self, Extent, Score, Shrunk};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::boundary::array::{count, freedom, fresh, reals, threads, with_reals};
use crate::boundary::enter::compute;
use crate::boundary::error::UsageError;
use crate::boundary::grouping::{Given, Grouping, score};

pub(crate) type Scores<'py> = Bound<'py, PyArray1<f64>>;

/// A point of the axis, in an array of its own.
fn scored<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    (group_ids, offsets): (Given<'_, 'py>, Given<'_, 'py>),
    score: Score,
) -> PyResult<Scores<'py>> {
    let (rewards, grouping) = (reals("rewards", rewards)?, Grouping::in_any_order(group_ids, offsets)?);
    with_reals!(&rewards, |values| {
        let layout = grouping.layout(values.len())?;
        let mut scores = fresh::<f64>(py, values.len())?;
        let (mut groups, mut dealt) = (fresh(py, layout.scratch_rows())?, fresh(py, layout.scratch_rows())?);
        let (column, room) =
            (scores.as_slice_mut()?, Scratch::new(groups.as_slice_mut()?, dealt.as_slice_mut()?));
        compute(py, || score.fill(values, layout, column, room, threads()))?;
        Ok((**scores).clone())
    })
}

/// Reward less the mean of its group (Dr. GRPO).
///
///     A_i = r_i - mean_g
///
/// Statistics are over the present rewards of a group. A group whose rewards are all equal has advantage exactly 0, and so
/// has a group of one; a missing reward (NaN) and a row without a group have NaN.
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

/// Centred reward over a standard deviation (GRPO).
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
    if extent == Extent::Group {
        return scored(py, rewards, (group_ids, offsets), Score::ZScore { ddof, eps });
    }
    score!(py, rewards, (group_ids, offsets), |values, layout| {
        advantage::zscore_over(values, layout, extent, (ddof, eps), threads())
    })
}

fn extent(scope: &str) -> PyResult<Extent> {
    match scope {
        "group" => Ok(Extent::Group),
        "batch" => Ok(Extent::Batch),
        "global" => Ok(Extent::Global),
        _ => Err(UsageError::new_err(format!("scope is {scope:?}, wanted one of group, batch, global"))),
    }
}

/// Reward less the mean of the others of its group (RLOO).
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

/// Centred reward over the mean of its group (MaxRL).
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

/// Reward against the log-partition of its group, a soft maximum.
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

/// Reward against a baseline between the mean of its group and that of all rows, for small and uneven groups.
///
///     b_g = (n mean_g + strength * mean) / (n + strength)
///     s_g = max(std_g, floor) where n >= min_count, else max(std, floor)
///     A_i = (r_i - b_g) / s_g
///
/// Deviations have ddof 0. The baseline is not the group's alone: a group of one is judged by the rest, and is not 0.
///
/// Args:
///     rewards, group_ids, offsets: as in :func:`centre`.
///     strength: how many rewards at the mean of all a group is given on top of its own.
///     floor: the least a deviation may be.
///     min_count: the least rewards for a group to have a deviation of its own.
///
/// Returns:
///     The advantages. [B]
///
/// Raises:
///     As :func:`centre`; ArgumentError for a negative strength, floor or min_count.
///
/// Reference: the reward engine of karl at c41d1c5, whose constants are the defaults.
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
