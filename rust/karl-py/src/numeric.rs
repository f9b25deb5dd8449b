//! Bindings of `karl_core::numeric`.

use karl_core::numeric;
use pyo3::prelude::*;

use crate::array::column;
use crate::enter::compute;

/// `log sum exp(values)`, shifted by the maximum.
///
/// Takes a `NumPy` array, or an Arrow column, which is copied where it has several chunks; a null is refused.
#[pyfunction]
pub(crate) fn log_sum_exp(py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<f64> {
    let values = column::<f64>("values", values)?;
    let slice = values.as_slice()?;
    compute(py, || numeric::log_sum_exp(slice))
}

/// `log mean exp(values)`, shifted by the maximum.
///
/// Takes a `NumPy` array, or an Arrow column, which is copied where it has several chunks; a null is refused.
#[pyfunction]
pub(crate) fn log_mean_exp(py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<f64> {
    let values = column::<f64>("values", values)?;
    let slice = values.as_slice()?;
    compute(py, || numeric::log_mean_exp(slice))
}

/// Effective sample size of log-weights, in rows.
///
/// Takes a `NumPy` array, or an Arrow column, which is copied where it has several chunks; a null is refused.
#[pyfunction]
pub(crate) fn ess(py: Python<'_>, log_weights: &Bound<'_, PyAny>) -> PyResult<f64> {
    let log_weights = column::<f64>("log_weights", log_weights)?;
    let slice = log_weights.as_slice()?;
    compute(py, || numeric::ess(slice))
}
