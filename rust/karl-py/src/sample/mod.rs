//! Bindings of `karl_core::sample`.

pub(crate) mod a_expj;
pub(crate) mod algorithm_l;
pub(crate) mod alias;
pub(crate) mod gumbel;
pub(crate) mod inclusion;
pub(crate) mod pps;
pub(crate) mod priority;
pub(crate) mod var_opt;

use karl_core::sample::{self, Ranking};
use karl_core::{Copies, Keys, Sampler, Weighted};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use crate::boundary::array::{column, keys, threads, widened};
use crate::boundary::error::UsageError;
use crate::boundary::release_gil::compute;

pub(crate) type RowArray<'py> = Bound<'py, PyArray1<i64>>;

/// Return the sampler of a name.
pub(crate) fn sampler_by_name(name: &str) -> PyResult<Sampler> {
    let names = || Sampler::ALL.map(Sampler::name).join(", ");
    Sampler::by_name(name)
        .ok_or_else(|| UsageError::new_err(format!("sampler is {name:?}, wanted one of {}", names())))
}

/// Return log-weight plus Gumbel noise of (seed, key) for each row.
#[pyfunction]
#[pyo3(signature = (log_weights, *, seed, keys=None))]
pub(crate) fn gumbel_keys<'py>(
    py: Python<'py>,
    log_weights: &Bound<'py, PyAny>,
    seed: u64,
    keys: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let log_weights = widened("log_weights", log_weights)?;
    let weights = log_weights.as_slice()?;
    let keys = self::keys(keys, weights.len())?;
    let out = compute(py, || sample::gumbel::keys(weights, &keys, seed))?;
    Ok(out.into_pyarray(py))
}

/// Return the rows of the largest keys, largest first; rows with a key of minus infinity are left out.
#[pyfunction]
pub(crate) fn top<'py>(py: Python<'py>, keys: &Bound<'py, PyAny>, count: usize) -> PyResult<RowArray<'py>> {
    let keys = column::<f64>("keys", keys)?.as_slice()?.to_vec();
    let rows = compute(py, || Ranking::of(keys, threads()).map(|mut ranking| ranking.take(count)))?;
    Ok(numbers(rows).into_pyarray(py))
}

/// Return the rows that a sampler draws by log-weights; a row drawn several times is repeated in adjacent places.
#[pyfunction]
#[pyo3(signature = (log_weights, count, *, sampler, seed, keys=None))]
pub(crate) fn draw<'py>(
    py: Python<'py>,
    log_weights: &Bound<'py, PyAny>,
    count: usize,
    sampler: &str,
    seed: u64,
    keys: Option<&Bound<'py, PyAny>>,
) -> PyResult<RowArray<'py>> {
    let log_weights = widened("log_weights", log_weights)?;
    let weights = log_weights.as_slice()?;
    let (keys, sampler) = (self::keys(keys, weights.len())?, sampler_by_name(sampler)?);
    let rows = compute(py, || {
        let weighted = Weighted::by_logs(weights, &keys)?;
        if !sampler.replaces() {
            return Ok(weighted.ranking(sampler, seed, threads())?.take(count));
        }
        Copies::new(weighted, sampler, count, seed, threads()).map(|copies| copies.drawn())
    })?;
    Ok(numbers(rows).into_pyarray(py))
}

/// Draw k of the numbers below `rows` by Algorithm L, in the order of the reservoir's places.
#[pyfunction]
#[pyo3(signature = (rows, k, *, seed))]
pub(crate) fn reservoir(py: Python<'_>, rows: u64, k: usize, seed: u64) -> PyResult<RowArray<'_>> {
    let drawn = compute(py, || {
        Ok::<_, karl_core::Error>(sample::algorithm_l::reservoir(
            0..rows,
            k,
            sample::algorithm_l::stream(seed),
        ))
    })?;
    Ok(drawn.into_iter().map(u64::cast_signed).collect::<Vec<i64>>().into_pyarray(py))
}

/// Draw k rows by A-ExpJ, by descending key.
#[pyfunction]
#[pyo3(signature = (log_weights, k, *, seed))]
pub(crate) fn weighted_reservoir<'py>(
    py: Python<'py>,
    log_weights: &Bound<'py, PyAny>,
    k: usize,
    seed: u64,
) -> PyResult<RowArray<'py>> {
    let log_weights = widened("log_weights", log_weights)?;
    let weights = log_weights.as_slice()?;
    let rows = compute(py, || sample::a_expj::by_logs(weights, k, seed))?;
    Ok(numbers(rows).into_pyarray(py))
}

pub(crate) fn numbers(rows: Vec<u32>) -> Vec<i64> {
    rows.into_iter().map(i64::from).collect()
}

type Floats<'py> = Bound<'py, PyArray1<f64>>;

/// Return a draw by weights, or by their logs, under the names that the arguments have, with the key of each row.
fn by_weights<'py, T: Send>(
    py: Python<'py>,
    (name, weights): (&'static str, &Bound<'py, PyAny>),
    keys: Option<&Bound<'py, PyAny>>,
    draw: impl FnOnce(&[f64], &Keys) -> karl_core::Result<T> + Send,
) -> PyResult<T> {
    let weights = widened(name, weights)?;
    let weights = weights.as_slice()?;
    let keys = self::keys(keys, weights.len())?;
    compute(py, || draw(weights, &keys))
}
