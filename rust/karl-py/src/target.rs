//! Binding of `karl_core::target`.

use karl_core::{Scopes, Temperature, target};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use crate::array::{column, groups, threads};
use crate::enter::compute;
use crate::error::UsageError;

/// What `boltzmann` found, as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct Target<'py> {
    inverse_temperature: f64,
    wanted_ess: Option<f64>,
    reached_ess: f64,
    reached_share: f64,
    note: Option<&'static str>,
    log_z: Bound<'py, PyArray1<f64>>,
    log_weights: Bound<'py, PyArray1<f64>>,
}

/// How sharply: exactly one of the two is given.
pub(crate) fn temperature(ess: Option<f64>, inverse_temperature: Option<f64>) -> PyResult<Temperature> {
    match (ess, inverse_temperature) {
        (Some(share), None) => Ok(Temperature::Ess(share)),
        (None, Some(given)) => Ok(Temperature::Inverse(given)),
        _ => Err(UsageError::new_err("give either ess or inverse_temperature")),
    }
}

/// The Boltzmann target of scores: `log w_i = b s_i - log Z(scope of i)`.
#[pyfunction]
#[pyo3(signature = (scores, scope_ids=None, *, ess=None, inverse_temperature=None))]
pub(crate) fn boltzmann<'py>(
    py: Python<'py>,
    scores: &Bound<'py, PyAny>,
    scope_ids: Option<&Bound<'py, PyAny>>,
    ess: Option<f64>,
    inverse_temperature: Option<f64>,
) -> PyResult<Target<'py>> {
    let scores = column::<f64>("scores", scores)?;
    let partition = scope_ids.map(|ids| groups("scope_ids", ids)).transpose()?;
    let temperature = temperature(ess, inverse_temperature)?;
    let values = scores.as_slice()?;
    let target = compute(py, || {
        let within = partition.as_ref().map_or(Scopes::Whole, Scopes::Of);
        target::boltzmann(values, within, temperature, threads())
    })?;
    Ok(Target {
        inverse_temperature: target.inverse_temperature,
        wanted_ess: target.wanted_ess,
        reached_ess: target.reached_ess,
        reached_share: target.reached_share,
        note: target.note.map(target::Note::name),
        log_z: target.log_z.into_pyarray(py),
        log_weights: target.log_weights.into_pyarray(py),
    })
}
