//! Bindings of `karl_core::reward`.

pub(crate) mod karl;
mod python;

use karl_core::reward;
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use crate::array::{Column, column};
use crate::enter::compute;

/// The weighted sum of reward components; missing where a component is missing.
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
