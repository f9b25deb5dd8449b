//! Binding of `karl_core::sample::Alias`.

use super::Floats;
use super::{RowArray, numbers};
use crate::boundary::array::widened;
use crate::boundary::release_gil::compute;
use karl_core::sample;
use numpy::IntoPyArray;
use pyo3::prelude::*;

/// An alias table.
#[pyclass(frozen, module = "karl_fast._core")]
pub(crate) struct Alias {
    inner: sample::Alias,
}

#[pymethods]
impl Alias {
    #[new]
    fn new(py: Python<'_>, log_weights: &Bound<'_, PyAny>) -> PyResult<Self> {
        let log_weights = widened("log_weights", log_weights)?;
        let weights = log_weights.as_slice()?;
        Ok(Self { inner: compute(py, || sample::Alias::new(weights))? })
    }

    fn __len__(&self) -> usize {
        self.inner.len()
    }

    /// Return the probability of each row.
    fn probabilities<'py>(&self, py: Python<'py>) -> PyResult<Floats<'py>> {
        let out = compute(py, || Ok(self.inner.probabilities()))?;
        Ok(out.into_pyarray(py))
    }

    /// Return independent draws.
    #[pyo3(signature = (count, *, seed))]
    fn draw<'py>(&self, py: Python<'py>, count: usize, seed: u64) -> PyResult<RowArray<'py>> {
        let rows = compute(py, || Ok(self.inner.draw(count, seed)))?;
        Ok(numbers(rows).into_pyarray(py))
    }
}
