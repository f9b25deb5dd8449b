//! Bindings of `karl_core::reward`.

pub(crate) mod karl;
mod python_object;
pub(crate) mod store;

use karl_core::reward::{self, AsymmetricScale};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use crate::boundary::array::{Column, column};
use crate::boundary::error::to_python;
use crate::boundary::release_gil::compute;

/// Return the weighted sum of reward components; missing where a component is missing.
///
/// Takes `NumPy` arrays, or Arrow columns, which are copied where they have nulls or several chunks.
#[pyfunction]
pub(crate) fn composite<'py>(
    py: Python<'py>,
    components: Vec<Bound<'py, PyAny>>,
    weights: Vec<f64>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let borrow = |component: &Bound<'py, PyAny>| column::<f64>("component", component);
    let columns = components.iter().map(borrow).collect::<PyResult<Vec<Column<'_, f64>>>>()?;
    let slices = columns.iter().map(|column| column.as_slice()).collect::<PyResult<Vec<&[f64]>>>()?;
    let out = compute(py, || reward::composite(&slices, &weights))?;
    Ok(out.into_pyarray(py))
}

/// Return the shaped rewards: `up` scales what is above the centre and `down` what is below; missing stays missing.
///
/// Takes a `NumPy` array, or an Arrow column, which is copied where it has nulls or several chunks.
#[pyfunction]
#[pyo3(signature = (rewards, *, up, down, centre))]
pub(crate) fn shaped<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    up: f64,
    down: f64,
    centre: f64,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let rewards = column::<f64>("rewards", rewards)?;
    let slice = rewards.as_slice()?;
    let out = compute(py, || AsymmetricScale::new(up, down, centre)?.apply(slice))?;
    Ok(out.into_pyarray(py))
}

/// Return a scale by its numbers: up, down and centre.
pub(crate) fn asymmetric(numbers: Option<(f64, f64, f64)>) -> PyResult<Option<AsymmetricScale>> {
    let scale = |(up, down, centre)| AsymmetricScale::new(up, down, centre);
    numbers.map(scale).transpose().map_err(|error| to_python(error.into()))
}
