//! Bindings of `karl_core::reward::karl`.

use std::path::PathBuf;

use karl_core::Offsets;
use karl_core::reward::karl::{
    self, Columns, Component, Events, Fault, Node, Reward, Signal, Trajectory, Value, Version,
    longest_failure,
};
use karl_log::raw::{Raw, Stored, rewards, rewards_in, stored};
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::{PyAttributeError, PyOverflowError, PyTypeError, PyValueError, PyZeroDivisionError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyBytesMethods, PyDict};

use super::python::Object;
use crate::array::{Column, column, threads};
use crate::enter::{compute, enter};
use crate::error::ArgumentError;

const SCORES: [&str; 6] = [
    "outcome_score",
    "process_score",
    "efficiency_score",
    "verification_score",
    "consistency_score",
    "motion_score",
];

/// The reward of one record: a dict, or its JSON as bytes.
#[pyfunction]
pub(crate) fn karl_reward<'py>(
    py: Python<'py>,
    record: &Bound<'py, PyAny>,
    version: &str,
    weights: [f64; 3],
) -> PyResult<Bound<'py, PyDict>> {
    let version = parse(version)?;
    let reward = match record.extract::<&[u8]>() {
        Ok(text) => Raw::of(text).and_then(|record| karl::score(&record, version, weights)),
        Err(_) => karl::score(&Object(record.clone()), version, weights),
    };
    written(py, &reward.map_err(raised)?)
}

/// The rewards of the lines of a log; NaN where a line has none.
#[pyfunction]
pub(crate) fn karl_rewards<'py>(
    py: Python<'py>,
    text: &[u8],
    version: &str,
    weights: [f64; 3],
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let version = parse(version)?;
    Ok(py.detach(|| rewards(text, version, weights, threads())).into_pyarray(py))
}

/// The rewards of the lines of a file; NaN where a line has none.
#[pyfunction]
pub(crate) fn karl_rewards_in<'py>(
    py: Python<'py>,
    path: PathBuf,
    version: &str,
    weights: [f64; 3],
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let version = parse(version)?;
    Ok(enter(py, None, |watch| rewards_in(&path, version, weights, threads(), watch))?.into_pyarray(py))
}

/// The rewards of v1 of trajectories in columns.
#[pyfunction]
pub(crate) fn karl_column_rewards<'py>(
    py: Python<'py>,
    calls: [Bound<'py, PyAny>; 3],
    names: Vec<String>,
    flags: [Option<Bound<'py, PyAny>>; 4],
    seconds: Option<&Bound<'py, PyAny>>,
    weights: [f64; 3],
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    const FLAGS: [&str; 4] = ["correction", "redo", "build", "continued"];
    let [offsets, tools, success] = &calls;
    let (offsets, tools) = (column::<i64>("offsets", offsets)?, column::<i64>("tools", tools)?);
    let success = column::<i64>("success", success)?;
    let said = FLAGS
        .iter()
        .zip(&flags)
        .map(|(name, flag)| flag.as_ref().map(|it| column::<i64>(name, it)).transpose());
    let said = said.collect::<PyResult<Vec<Option<Column<'_, i64>>>>>()?;
    let seconds = seconds.map(|seconds| column::<f64>("seconds", seconds)).transpose()?;
    let mut flags = [None; 4];
    for (slot, flag) in flags.iter_mut().zip(&said) {
        *slot = flag.as_ref().map(Column::as_slice).transpose()?;
    }
    let (offsets, tools) = (offsets.as_slice()?, tools.as_slice()?);
    let (success, seconds) = (success.as_slice()?, seconds.as_ref().map(Column::as_slice).transpose()?);
    let out = compute(py, || {
        let offsets = Offsets::new("offsets", offsets, tools.len())?;
        karl::scores(&Columns { offsets, tools, success, names: &names, flags, seconds }, weights, threads())
    })?;
    Ok(out.into_pyarray(py))
}

/// Channel, domain and reward of each line of a store; None for a line that is not as nearly all are.
#[pyfunction]
pub(crate) fn karl_stored(
    py: Python<'_>,
    lines: Vec<Bound<'_, PyBytes>>,
    version: &str,
) -> PyResult<Vec<Option<StoredLine>>> {
    let version = parse(version)?;
    let lines: Vec<&[u8]> = lines.iter().map(PyBytesMethods::as_bytes).collect();
    let found = py.detach(|| stored(&lines, version, threads()));
    let line = |found: Option<Stored>| found.map(|line| (line.channel, line.domain, line.reward));
    Ok(found.into_iter().map(line).collect())
}

type StoredLine = (Option<String>, Option<String>, Option<f64>);

/// The outcome's score and components.
#[pyfunction]
pub(crate) fn karl_outcome<'py>(
    py: Python<'py>,
    outcome: Bound<'py, PyAny>,
) -> PyResult<(f64, Bound<'py, PyDict>)> {
    signal(py, karl::said(Some(&Object(outcome))).map(|flags| karl::outcome(&flags)))
}

/// The process' score and components.
#[pyfunction]
pub(crate) fn karl_process<'py>(
    py: Python<'py>,
    trajectory: Bound<'py, PyAny>,
    version: &str,
) -> PyResult<(f64, Bound<'py, PyDict>)> {
    let version = parse(version)?;
    let found = Trajectory::read(Some(&Object(trajectory)), version);
    signal(py, found.and_then(|trajectory| karl::process(&trajectory)))
}

/// The efficiency's score and components.
#[pyfunction]
pub(crate) fn karl_efficiency<'py>(
    py: Python<'py>,
    trajectory: Bound<'py, PyAny>,
    timing: Bound<'py, PyAny>,
    version: &str,
) -> PyResult<(f64, Bound<'py, PyDict>)> {
    let version = parse(version)?;
    let found = Trajectory::read(Some(&Object(trajectory)), version);
    signal(py, found.and_then(|trajectory| karl::efficiency(&trajectory, &duration(&Object(timing))?)))
}

/// The longest run of failed calls.
#[pyfunction]
pub(crate) fn karl_longest_failure(events: Bound<'_, PyAny>) -> PyResult<usize> {
    let events = Events::read(Some(&Object(events)), Version::V1).map_err(raised)?;
    events.all().map(longest_failure).map_err(raised)
}

fn duration(timing: &Object<'_>) -> Result<Value<'static>, Fault> {
    let [duration] = timing.fields(["duration_s"])?;
    duration.map_or(Ok(Value::Absent), |duration| duration.value())
}

fn parse(version: &str) -> PyResult<Version> {
    match version {
        "v1" => Ok(Version::V1),
        "v2" => Ok(Version::V2),
        _ => Err(ArgumentError::new_err(format!("version is {version:?}, and has to be 'v1' or 'v2'"))),
    }
}

fn raised(fault: Fault) -> PyErr {
    match fault {
        Fault::Attribute => {
            PyAttributeError::new_err("the record has another value where an object or a command has to be")
        }
        Fault::Type => {
            PyTypeError::new_err("the record has another value where a number, a list or a name has to be")
        }
        Fault::ZeroDivision => PyZeroDivisionError::new_err("a count of the record divides by zero"),
        Fault::Overflow => PyOverflowError::new_err("a whole number of the record is beyond every float"),
        Fault::Syntax => PyValueError::new_err("the record is not JSON"),
    }
}

fn signal(py: Python<'_>, found: Result<Signal, Fault>) -> PyResult<(f64, Bound<'_, PyDict>)> {
    let found = found.map_err(raised)?;
    Ok((found.score, parts(py, &found.components)?))
}

fn written<'py>(py: Python<'py>, reward: &Reward) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("reward_score", reward.score)?;
    for (name, score) in SCORES.iter().zip(&reward.signals) {
        dict.set_item(name, score)?;
    }
    dict.set_item("components", parts(py, &reward.components)?)?;
    Ok(dict)
}

#[allow(clippy::cast_possible_truncation, reason = "a count of four flags")]
fn parts<'py>(py: Python<'py>, components: &[Component]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for part in components {
        if part.whole {
            dict.set_item(part.name, part.value as i64)?;
        } else {
            dict.set_item(part.name, part.value)?;
        }
    }
    Ok(dict)
}
