//! Bindings of `karl_core::sample`.

use karl_core::sample::{Ranking, gumbel};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use crate::array::{column, keys};
use crate::enter::enter;

/// Log-weight plus Gumbel noise of (seed, key), one a row.
#[pyfunction]
#[pyo3(signature = (log_weights, *, seed, keys=None))]
pub(crate) fn gumbel_keys<'py>(
    py: Python<'py>,
    log_weights: &Bound<'py, PyAny>,
    seed: u64,
    keys: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let log_weights = column::<f64>("log_weights", log_weights)?;
    let weights = log_weights.as_slice()?;
    let keys = self::keys(keys, weights.len())?;
    let out = enter(py, None, |_| gumbel::keys(weights, &keys, seed))?;
    Ok(out.into_pyarray(py))
}

/// The rows of the largest keys, largest first; rows whose key is minus infinity never come.
#[pyfunction]
pub(crate) fn top<'py>(
    py: Python<'py>,
    keys: &Bound<'py, PyAny>,
    count: usize,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let keys = column::<f64>("keys", keys)?.as_slice()?.to_vec();
    let rows = enter(py, None, |_| Ranking::new(keys).map(|mut ranking| ranking.take(count)))?;
    Ok(rows.into_iter().map(i64::from).collect::<Vec<i64>>().into_pyarray(py))
}
