//! Bindings of `karl_core::sample::pps`.

use super::Floats;
use super::{RowArray, numbers};
use crate::boundary::array::widened;
use crate::boundary::release_gil::compute;
use karl_core::sample;
use karl_core::sample::pps;
use numpy::IntoPyArray;
use pyo3::prelude::*;

/// Rows with what each counts for, as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct Estimated<'py> {
    rows: RowArray<'py>,
    threshold: f64,
    estimates: Floats<'py>,
}

impl<'py> Estimated<'py> {
    pub(super) fn own(py: Python<'py>, drawn: sample::Estimated) -> Self {
        Self {
            rows: numbers(drawn.rows).into_pyarray(py),
            threshold: drawn.threshold,
            estimates: drawn.estimates.into_pyarray(py),
        }
    }
}

/// Return the threshold at which k rows are expected, and the probability of each row under it.
#[pyfunction]
pub(crate) fn threshold<'py>(
    py: Python<'py>,
    weights: &Bound<'py, PyAny>,
    k: usize,
) -> PyResult<(f64, Floats<'py>)> {
    let weights = widened("weights", weights)?;
    let slice = weights.as_slice()?;
    let (threshold, shares) = compute(py, || {
        let threshold = pps::threshold(slice, k)?;
        Ok((threshold, pps::shares(slice, threshold)))
    })?;
    Ok((threshold, shares.into_pyarray(py)))
}
