//! Binding of `karl_core::sample::var_opt`.

use karl_core::sample::var_opt;
use pyo3::prelude::*;

use super::by_weights;
use super::pps::Estimated;

/// Draw k rows of a variance-optimal sample, in row order.
#[pyfunction]
#[pyo3(signature = (weights, k, *, seed, keys=None))]
pub(crate) fn draw_var_opt<'py>(
    py: Python<'py>,
    weights: &Bound<'py, PyAny>,
    k: usize,
    seed: u64,
    keys: Option<&Bound<'py, PyAny>>,
) -> PyResult<Estimated<'py>> {
    let drawn =
        by_weights(py, ("weights", weights), keys, |weights, keys| var_opt::draw(weights, k, keys, seed))?;
    Ok(Estimated::own(py, drawn))
}
