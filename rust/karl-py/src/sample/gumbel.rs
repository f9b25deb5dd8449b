//! Binding of the draw with inclusion probabilities of `karl_core::sample::gumbel`.

use super::{Floats, by_weights};
use super::{RowArray, numbers};
use crate::boundary::array::threads;
use karl_core::Weighted;
use karl_core::sample::gumbel;
use numpy::IntoPyArray;
use pyo3::prelude::*;

/// Rows with their inclusion probabilities, as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct Drawn<'py> {
    rows: RowArray<'py>,
    threshold: Option<f64>,
    inclusion: Floats<'py>,
}

/// Draw k rows by Gumbel keys, and return the probability of each given the first key not drawn.
#[pyfunction]
#[pyo3(signature = (log_weights, k, *, seed, keys=None))]
pub(crate) fn draw_with_inclusion<'py>(
    py: Python<'py>,
    log_weights: &Bound<'py, PyAny>,
    k: usize,
    seed: u64,
    keys: Option<&Bound<'py, PyAny>>,
) -> PyResult<Drawn<'py>> {
    let drawn = by_weights(py, ("log_weights", log_weights), keys, |weights, keys| {
        gumbel::draw_with_inclusion(Weighted::by_logs(weights, keys)?, k, seed, threads())
    })?;
    let rows = numbers(drawn.rows).into_pyarray(py);
    Ok(Drawn { rows, threshold: drawn.threshold, inclusion: drawn.inclusion.into_pyarray(py) })
}
