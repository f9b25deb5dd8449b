//! Binding of what a reward function needs of a log, and of what it gives back.

use std::sync::Arc;

use karl_log::second_pass::reward_inputs;
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use super::Log;
use crate::boundary::array::column;
use crate::boundary::error::UsageError;
use crate::boundary::release_gil::{compute, enter};

/// Return rows from `first` on with `bytes` of records in total, at least one row, each as the text `[prompt,
/// completion, record]`; None for a damaged record.
#[pyfunction]
pub(crate) fn answered(
    py: Python<'_>,
    log: &Log,
    first: u32,
    bytes: u64,
    threads: usize,
) -> PyResult<Vec<Option<String>>> {
    let log = &log.inner;
    enter(py, None, |watch| reward_inputs(log, &log.window(first, bytes), threads, watch))
}

/// Return the file of a row, and where in it the record begins.
#[pyfunction]
pub(crate) fn place(log: &Log, row: u32) -> PyResult<(String, u64)> {
    let missing = || UsageError::new_err(format!("the log has no row {row}"));
    let place = log.inner.place(row).ok_or_else(missing)?;
    Ok((log.inner.inputs[place.input].source.name.clone(), place.offset))
}

/// Return the same records with these components and this reward. `[B]` each
#[pyfunction]
pub(crate) fn rewarded(
    py: Python<'_>,
    log: &Log,
    components: Vec<Bound<'_, PyAny>>,
    reward: &Bound<'_, PyAny>,
) -> PyResult<Log> {
    let own = |name: &str, object: &Bound<'_, PyAny>| {
        column::<f64>(name, object).and_then(|column| Ok(column.as_slice()?.to_vec()))
    };
    let components = components.iter().map(|one| own("component", one)).collect::<PyResult<Vec<_>>>()?;
    let reward = own("reward", reward)?;
    let read = log.inner.as_ref().clone();
    let inner = enter(py, None, |_| read.with_components(components, Some(reward)))?;
    Ok(Log { inner: Arc::new(inner), log_weights: log.log_weights.clone() })
}

/// Return the reward: the weighted sum of the components, or the one beside them. `[B]`
#[pyfunction]
pub(crate) fn rewards_of<'py>(
    py: Python<'py>,
    log: &Log,
    weights: Vec<f64>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let rewards = match &log.inner.reward {
        Some(reward) => reward.clone(),
        None => compute(py, || log.inner.composite(&weights))?,
    };
    Ok(rewards.into_pyarray(py))
}
