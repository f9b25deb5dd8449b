//! Binding of `karl_core::rng`.

use karl_core::rng::{Purpose, uniform};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use crate::boundary::array::keys;
use crate::boundary::error::ArgumentError;
use crate::boundary::release_gil::compute;

/// Return one uniform of (seed, key, purpose) for each row.
#[pyfunction]
#[pyo3(signature = (rows, *, seed, purpose, keys=None))]
pub(crate) fn uniforms<'py>(
    py: Python<'py>,
    rows: usize,
    seed: u64,
    purpose: &str,
    keys: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let purpose = by_name(purpose)?;
    let keys = self::keys(keys, rows)?;
    let draw = || keys.iter().map(|key| uniform(seed, key, purpose)).collect::<Vec<f64>>();
    let out = compute(py, || Ok::<_, karl_core::Error>(draw()))?;
    Ok(out.into_pyarray(py))
}

fn by_name(name: &str) -> PyResult<Purpose> {
    match name {
        "draw" => Ok(Purpose::Draw),
        "order" => Ok(Purpose::Order),
        "split" => Ok(Purpose::Split),
        _ => Err(ArgumentError::new_err(format!("purpose is {name:?}, wanted draw, order or split"))),
    }
}
