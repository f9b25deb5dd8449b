//! Binding of `karl_core::advantage::set_scores`.

use super::Scores;
use crate::boundary::array::{column, count};
use crate::boundary::release_gil::compute;
use karl_core::advantage::set_scores as set_scores_of;
use numpy::IntoPyArray;
use pyo3::prelude::*;

/// Score each set by the best of its candidates in each direction; arrays are flat.
#[pyfunction]
pub(crate) fn set_scores<'py>(
    py: Python<'py>,
    vectors: &Bound<'py, PyAny>,
    sets: &Bound<'py, PyAny>,
    directions: &Bound<'py, PyAny>,
    number: i64,
    samples: i64,
) -> PyResult<Scores<'py>> {
    let (vectors, sets) = (column::<f64>("vectors", vectors)?, column::<i64>("sets", sets)?);
    let directions = column::<f64>("directions", directions)?;
    let (vectors, sets, directions) = (vectors.as_slice()?, sets.as_slice()?, directions.as_slice()?);
    let (number, samples) = (count("number", number)?, count("samples", samples)?);
    Ok(compute(py, || set_scores_of(vectors, sets, directions, number, samples))?.into_pyarray(py))
}
