//! Binding of `karl_core::sample::priority`.

use karl_core::sample::priority;
use pyo3::prelude::*;

use super::by_weights;
use super::pps::Estimated;
use crate::boundary::array::threads;

/// Draw k rows by priority, the largest first.
#[pyfunction]
#[pyo3(signature = (weights, k, *, seed, keys=None))]
pub(crate) fn draw_priority<'py>(
    py: Python<'py>,
    weights: &Bound<'py, PyAny>,
    k: usize,
    seed: u64,
    keys: Option<&Bound<'py, PyAny>>,
) -> PyResult<Estimated<'py>> {
    let drawn = by_weights(py, ("weights", weights), keys, |weights, keys| {
        priority::draw(weights, k, keys, seed, threads())
    })?;
    Ok(Estimated::own(py, drawn))
}
