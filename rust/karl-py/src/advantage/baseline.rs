//! Bindings of the baselines that do not come from the rewards they are taken off.

#![allow(clippy::doc_markdown, reason = "these are docstrings of Python")]

use karl_core::advantage::{self, Ema};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use super::Scores;
use crate::boundary::array::{Column, column, reals, with_reals};
use crate::boundary::error::UsageError;
use crate::boundary::grouping::{OptionalArgument, ragged};
use crate::boundary::release_gil::compute;

/// Subtract a number from each reward.
///
///     A_i = (r_i - baseline) / temperature
///
/// Args:
///     rewards: float64 or float32, an array of NumPy or an Arrow column; NaN or null is missing. [B]
///     baseline: the number; 0.5 is that of karl 1.0.0.
///     temperature: what the difference is divided by, above 0.
///
/// Returns:
///     The advantages; NaN where the reward is missing. [B]
///
/// Raises:
///     ArgumentError: an infinite reward, a baseline that is not finite, or a temperature that is not above 0.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: karl 1.0.0, ``reward_engine.compute_advantage``.
#[pyfunction]
#[pyo3(signature = (rewards, *, baseline=0.5, temperature=1.0))]
pub(crate) fn fixed_baseline<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    baseline: f64,
    temperature: f64,
) -> PyResult<Scores<'py>> {
    let rewards = reals("rewards", rewards)?;
    let out = with_reals!(&rewards, |values| {
        compute(py, || advantage::fixed_baseline(values, baseline, temperature))?
    });
    Ok(out.into_pyarray(py))
}

/// Result of ema_baseline, as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct Running<'py> {
    advantages: Scores<'py>,
    ids: Bound<'py, PyArray1<i64>>,
    baselines: Scores<'py>,
}

/// Subtract a running mean of the earlier rewards of its group from each reward.
#[pyfunction]
#[pyo3(signature = (rewards, group_ids, *, offsets, alpha, start, ids, baselines))]
#[allow(clippy::too_many_arguments, reason = "keywords of Python")]
pub(crate) fn ema_baseline<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    group_ids: OptionalArgument<'_, 'py>,
    offsets: OptionalArgument<'_, 'py>,
    alpha: f64,
    start: f64,
    ids: &Bound<'py, PyAny>,
    baselines: &Bound<'py, PyAny>,
) -> PyResult<Running<'py>> {
    let rewards = reals("rewards", rewards)?;
    let ids: Column<'_, i64> = column("ids", ids)?;
    let baselines: Column<'_, f64> = column("baselines", baselines)?;
    let state = Ema { ids: ids.as_slice()?.to_vec(), baselines: baselines.as_slice()?.to_vec() };
    let (advantages, state) = with_reals!(&rewards, |values| {
        let groups = numbers(group_ids, offsets, values.len())?;
        let groups = groups.as_slice()?;
        compute(py, || advantage::ema_baseline(values, groups, (alpha, start), state))?
    });
    Ok(Running {
        advantages: advantages.into_pyarray(py),
        ids: state.ids.into_pyarray(py),
        baselines: state.baselines.into_pyarray(py),
    })
}

/// Return the number by which a state knows the group of each row: its id, or its row of the offsets.
fn numbers<'py>(
    group_ids: OptionalArgument<'_, 'py>,
    offsets: OptionalArgument<'_, 'py>,
    rows: usize,
) -> PyResult<Column<'py, i64>> {
    match (group_ids, offsets) {
        (Some(ids), None) => column("group_ids", ids),
        (None, Some(offsets)) => {
            let offsets = column("offsets", offsets)?;
            let offsets = ragged("offsets", &offsets, rows)?;
            let numbers = offsets.rows().zip(0..).flat_map(|(rows, number)| rows.map(move |_| number));
            Ok(Column::Arrow(numbers.collect()))
        }
        _ => Err(UsageError::new_err("give either group_ids or offsets")),
    }
}
