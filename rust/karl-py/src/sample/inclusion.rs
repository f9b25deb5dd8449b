//! Binding of `karl_core::sample::inclusion`.

use super::Floats;
use crate::boundary::array::{threads, widened};
use crate::boundary::release_gil::enter;
use karl_core::sample::inclusion as exact;
use numpy::IntoPyArray;
use pyo3::prelude::*;

/// Return the probability of each row to be among k drawn without replacement, over all draws.
#[pyfunction]
pub(crate) fn inclusion<'py>(
    py: Python<'py>,
    log_weights: &Bound<'py, PyAny>,
    k: usize,
) -> PyResult<Floats<'py>> {
    let log_weights = widened("log_weights", log_weights)?;
    let weights = log_weights.as_slice()?;
    let out =
        enter(py, None, |watch| exact::inclusion_while(weights, k, threads(), || watch.advance(0).is_ok()))?;
    // Without a result there is an exception, which has been raised.
    Ok(out.unwrap_or_default().into_pyarray(py))
}
