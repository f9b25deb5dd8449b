//! Bindings of `karl_core::advantage`.

use karl_core::advantage;
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use crate::array::{column, groups, threads};
use crate::enter::compute;

type Column<'py> = Bound<'py, PyArray1<f64>>;

/// Reward less the mean of its group: `A_i = r_i - mean_g`.
///
/// Takes `NumPy` arrays, or Arrow columns, which are copied where they have nulls (a missing reward, no group) or several
/// chunks. Groups of an Arrow column may be names.
#[pyfunction]
#[pyo3(signature = (rewards, group_ids))]
pub(crate) fn centre<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    group_ids: &Bound<'py, PyAny>,
) -> PyResult<Column<'py>> {
    let rewards = column::<f64>("rewards", rewards)?;
    let groups = groups("group_ids", group_ids)?;
    let values = rewards.as_slice()?;
    let out = compute(py, || advantage::centre(values, &groups, threads()))?;
    Ok(out.into_pyarray(py))
}

/// Centred and scaled reward: `A_i = (r_i - mean_g) / (std_g + eps)`.
///
/// Takes `NumPy` arrays, or Arrow columns, which are copied where they have nulls (a missing reward, no group) or several
/// chunks. Groups of an Arrow column may be names.
#[pyfunction]
#[pyo3(signature = (rewards, group_ids, *, ddof=0, eps=1e-6))]
pub(crate) fn zscore<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    group_ids: &Bound<'py, PyAny>,
    ddof: u8,
    eps: f64,
) -> PyResult<Column<'py>> {
    let rewards = column::<f64>("rewards", rewards)?;
    let groups = groups("group_ids", group_ids)?;
    let values = rewards.as_slice()?;
    let out = compute(py, || advantage::zscore(values, &groups, ddof, eps, threads()))?;
    Ok(out.into_pyarray(py))
}

/// Reward less the mean of the others of its group (RLOO).
///
/// Takes `NumPy` arrays, or Arrow columns, which are copied where they have nulls (a missing reward, no group) or several
/// chunks. Groups of an Arrow column may be names.
#[pyfunction]
#[pyo3(signature = (rewards, group_ids))]
pub(crate) fn leave_one_out<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    group_ids: &Bound<'py, PyAny>,
) -> PyResult<Column<'py>> {
    let rewards = column::<f64>("rewards", rewards)?;
    let groups = groups("group_ids", group_ids)?;
    let values = rewards.as_slice()?;
    let out = compute(py, || advantage::leave_one_out(values, &groups, threads()))?;
    Ok(out.into_pyarray(py))
}
