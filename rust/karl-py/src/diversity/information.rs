//! Binding of the mutual information of `karl_core::diversity`.

use crate::boundary::array::{groups, threads};
use crate::boundary::release_gil::compute;
use karl_core::diversity;
use pyo3::prelude::*;

/// Result of `mutual_information`, as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct Information {
    rows: usize,
    mutual_nats: f64,
    input_entropy_nats: f64,
    output_entropy_nats: f64,
    within_entropy_nats: f64,
    bias_nats: f64,
}

/// Compute the mutual information of inputs and outputs, over the rows that have both.
#[pyfunction]
pub(crate) fn mutual_information(
    py: Python<'_>,
    inputs: &Bound<'_, PyAny>,
    outputs: &Bound<'_, PyAny>,
) -> PyResult<Information> {
    let inputs = groups("inputs", inputs)?;
    let outputs = groups("outputs", outputs)?;
    let found = compute(py, || diversity::mutual_information(&inputs, &outputs, threads()))?;
    Ok(Information {
        rows: found.rows,
        mutual_nats: found.mutual,
        input_entropy_nats: found.input_entropy,
        output_entropy_nats: found.output_entropy,
        within_entropy_nats: found.within_entropy,
        bias_nats: found.bias,
    })
}
