//! Bindings of `karl_core::numeric` and `karl_core::reward`.

use karl_core::{numeric, reward};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::array::column;
use crate::enter::enter;

/// `log sum exp(values)`, shifted by the maximum.
#[pyfunction]
pub(crate) fn log_sum_exp(py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<f64> {
    let values = column::<f64>("values", values)?;
    let slice = values.as_slice()?;
    enter(py, None, |_| numeric::log_sum_exp(slice))
}

/// `log mean exp(values)`, shifted by the maximum.
#[pyfunction]
pub(crate) fn log_mean_exp(py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<f64> {
    let values = column::<f64>("values", values)?;
    let slice = values.as_slice()?;
    enter(py, None, |_| numeric::log_mean_exp(slice))
}

/// Effective sample size of log-weights, in rows.
#[pyfunction]
pub(crate) fn ess(py: Python<'_>, log_weights: &Bound<'_, PyAny>) -> PyResult<f64> {
    let log_weights = column::<f64>("log_weights", log_weights)?;
    let slice = log_weights.as_slice()?;
    enter(py, None, |_| numeric::ess(slice))
}

/// The weighted sum of reward components; missing where a component is missing.
#[pyfunction]
pub(crate) fn composite<'py>(
    py: Python<'py>,
    components: Vec<Bound<'py, PyAny>>,
    weights: Vec<f64>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let borrow = |component: &Bound<'py, PyAny>| column::<f64>("component", component);
    let columns = components.iter().map(borrow).collect::<PyResult<Vec<PyReadonlyArray1<'_, f64>>>>()?;
    let slices = columns.iter().map(|column| Ok(column.as_slice()?)).collect::<PyResult<Vec<&[f64]>>>()?;
    let out = enter(py, None, |_| reward::composite(&slices, &weights))?;
    Ok(out.into_pyarray(py))
}
