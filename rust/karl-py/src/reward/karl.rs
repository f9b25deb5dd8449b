//! Bindings of `karl_reward`.

use std::path::PathBuf;

use ::karl_reward::{
    self as karl, Events, Fault, Node, Reward, Signal, SignalComponent, TrajectoryCalls, TrajectoryColumns,
    Value, Version, longest_failure,
};
use karl_core::Offsets;
use karl_log::karl_rewards::{Raw, rewards, rewards_in};
use numpy::{Element, IntoPyArray, PyArray1};
use pyo3::exceptions::{PyAttributeError, PyOverflowError, PyTypeError, PyValueError, PyZeroDivisionError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::python_object::Object;
use crate::boundary::array::{Column, column, threads};
use crate::boundary::arrow::columns::Cell;
use crate::boundary::error::ArgumentError;
use crate::boundary::release_gil::{compute, enter};

/// Return the reward of one record: a dict, or its JSON as bytes.
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

/// Return the rewards of the lines of a log; NaN where a line has none.
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

/// Return the rewards of the lines of a file; NaN where a line has none.
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

/// Return the rewards of trajectories in columns, which are the attributes of Python's `Calls`.
#[pyfunction]
pub(crate) fn karl_column_rewards<'py>(
    py: Python<'py>,
    calls: &Bound<'py, PyAny>,
    version: &str,
    weights: [f64; 3],
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let version = parse(version)?;
    let of = |name: &str| column::<i64>(name, &calls.getattr(name)?);
    let (offsets, tools, success) = (of("offsets")?, of("tools")?, of("success")?);
    // v1 asks for neither, and does not look.
    let v2 = |name: &str| if version == Version::V2 { some::<i64>(calls, name) } else { Ok(None) };
    let (files, commands) = (v2("files")?, v2("commands")?);
    let [no, redo] = [some::<i64>(calls, "correction")?, some(calls, "redo")?];
    let [build, continued] = [some::<i64>(calls, "build")?, some(calls, "continued")?];
    let seconds = some::<f64>(calls, "seconds")?;
    let texts = |name: &str| calls.getattr(name)?.extract::<Vec<String>>();
    let names = &texts("names")?;
    let texts = &if commands.is_some() { texts("texts")? } else { Vec::new() };
    let (offsets, tools, success) = (offsets.as_slice()?, tools.as_slice()?, success.as_slice()?);
    let (files, commands, seconds) =
        (slice(files.as_ref())?, slice(commands.as_ref())?, slice(seconds.as_ref())?);
    let flags =
        [slice(no.as_ref())?, slice(redo.as_ref())?, slice(build.as_ref())?, slice(continued.as_ref())?];
    let out = compute(py, || {
        let offsets = Offsets::new("offsets", offsets, tools.len())?;
        let columns =
            TrajectoryColumns { offsets, tools, success, names, files, commands, texts, flags, seconds };
        karl::scores(&columns, version, weights, threads())
    })?;
    Ok(out.into_pyarray(py))
}

/// Return a column that may be None.
fn some<'py, T: Element + Cell>(calls: &Bound<'py, PyAny>, name: &str) -> PyResult<Option<Column<'py, T>>> {
    let found = calls.getattr(name)?;
    if found.is_none() { Ok(None) } else { column(name, &found).map(Some) }
}

fn slice<'a, T: Element + Cell>(column: Option<&'a Column<'_, T>>) -> PyResult<Option<&'a [T]>> {
    column.map(Column::as_slice).transpose()
}

/// Return the outcome's score and components.
#[pyfunction]
pub(crate) fn karl_outcome<'py>(
    py: Python<'py>,
    outcome: Bound<'py, PyAny>,
) -> PyResult<(f64, Bound<'py, PyDict>)> {
    signal(py, karl::read_outcome(Some(&Object(outcome))).map(|flags| karl::outcome(&flags)))
}

/// Return the process' score and components.
#[pyfunction]
pub(crate) fn karl_process<'py>(
    py: Python<'py>,
    trajectory: Bound<'py, PyAny>,
    version: &str,
) -> PyResult<(f64, Bound<'py, PyDict>)> {
    let version = parse(version)?;
    let found = TrajectoryCalls::read(Some(&Object(trajectory)), version);
    signal(py, found.and_then(|trajectory| karl::process(&trajectory)))
}

/// Return the efficiency's score and components.
#[pyfunction]
pub(crate) fn karl_efficiency<'py>(
    py: Python<'py>,
    trajectory: Bound<'py, PyAny>,
    timing: Bound<'py, PyAny>,
    version: &str,
) -> PyResult<(f64, Bound<'py, PyDict>)> {
    let version = parse(version)?;
    let found = TrajectoryCalls::read(Some(&Object(trajectory)), version);
    signal(py, found.and_then(|trajectory| karl::efficiency(&trajectory, &duration(&Object(timing))?)))
}

/// Return the longest run of failed calls.
#[pyfunction]
pub(crate) fn karl_longest_failure(events: Bound<'_, PyAny>) -> PyResult<usize> {
    let events = Events::read(Some(&Object(events)), Version::V1).map_err(raised)?;
    events.all().map(longest_failure).map_err(raised)
}

fn duration(timing: &Object<'_>) -> Result<Value<'static>, Fault> {
    let [duration] = timing.fields(["duration_s"])?;
    duration.map_or(Ok(Value::Absent), |duration| duration.value())
}

pub(super) fn parse(version: &str) -> PyResult<Version> {
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
    for (name, score) in karl::SCORES.iter().zip(&reward.signals) {
        dict.set_item(name, score)?;
    }
    dict.set_item("components", parts(py, &reward.components)?)?;
    Ok(dict)
}

#[allow(clippy::cast_possible_truncation, reason = "a count of four flags")]
fn parts<'py>(py: Python<'py>, components: &[SignalComponent]) -> PyResult<Bound<'py, PyDict>> {
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
