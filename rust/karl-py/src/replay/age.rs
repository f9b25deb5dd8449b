//! Weights by age.

use karl_core::replay::{self, Decay};
use numpy::IntoPyArray;
use pyo3::prelude::*;

use super::Floats;
use crate::boundary::array::{column, reals, threads, with_reals};
use crate::boundary::release_gil::compute;

fn decayed<'py>(ages: &Bound<'py, PyAny>, decay: Decay) -> PyResult<Floats<'py>> {
    let (py, ages) = (ages.py(), column::<i64>("ages", ages)?);
    let values = ages.as_slice()?;
    Ok(compute(py, || decay.log_weights(values, threads()))?.into_pyarray(py))
}

/// Compute log-weights by age: `-rate * age`.
#[pyfunction]
pub(crate) fn exponential_decay<'py>(ages: &Bound<'py, PyAny>, rate: f64) -> PyResult<Floats<'py>> {
    decayed(ages, Decay::Exponential(rate))
}

/// Compute log-weights by age: 0 up to `max_age`, minus infinity beyond it.
#[pyfunction]
pub(crate) fn window_decay<'py>(ages: &Bound<'py, PyAny>, max_age: i64) -> PyResult<Floats<'py>> {
    decayed(ages, Decay::Window(max_age))
}

/// Compute log-weights by age: `-exponent * log(1 + age)`.
#[pyfunction]
pub(crate) fn power_decay<'py>(ages: &Bound<'py, PyAny>, exponent: f64) -> PyResult<Floats<'py>> {
    decayed(ages, Decay::Power(exponent))
}

/// Compute mean age, effective sample size and quantiles of age under log-weights.
#[pyfunction]
pub(crate) fn age_distribution(
    py: Python<'_>,
    ages: &Bound<'_, PyAny>,
    log_weights: &Bound<'_, PyAny>,
    quantiles: Vec<f64>,
) -> PyResult<(f64, f64, Vec<i64>)> {
    let (ages, weights) = (column::<i64>("ages", ages)?, reals("log_weights", log_weights)?);
    let ages = ages.as_slice()?;
    let found =
        with_reals!(&weights, |logs| compute(py, || replay::age_distribution(ages, logs, &quantiles)))?;
    Ok((found.mean_age, found.ess, found.quantiles))
}
