//! Bindings of `karl_core::reward`, of KARL's engine (`karl_reward`) and of KARL's store.

use crate::boundary::array::{Column, column, threads};
use crate::boundary::arrow::columns::Cell;
use crate::boundary::error::{ArgumentError, to_python};
use crate::boundary::release_gil::{compute, enter};
use ::karl_reward::{
    self as karl, Events, Fault, Node, Reward, Signal, SignalComponent, TrajectoryCalls, TrajectoryColumns,
    Value, Version, longest_failure,
};
use karl_core::Offsets;
use karl_core::reward::{self, AsymmetricScale};
use karl_log::Error;
use karl_log::karl_rewards::{
    Backfill, Raw, Stored, StoredReward, backfill, rewards, rewards_in, stored, stored_rewards, within,
};
use numpy::{Element, IntoPyArray, PyArray1};
use pyo3::exceptions::{PyAttributeError, PyOverflowError, PyTypeError, PyValueError, PyZeroDivisionError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyBytesMethods, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::collections::HashMap;
use std::path::PathBuf;

/// Return the weighted sum of reward components; missing where a component is missing.
///
/// Takes `NumPy` arrays, or Arrow columns, which are copied where they have nulls or several chunks.
#[pyfunction]
pub(crate) fn composite<'py>(
    py: Python<'py>,
    components: Vec<Bound<'py, PyAny>>,
    weights: Vec<f64>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let borrow = |component: &Bound<'py, PyAny>| column::<f64>("component", component);
    let columns = components.iter().map(borrow).collect::<PyResult<Vec<Column<'_, f64>>>>()?;
    let slices = columns.iter().map(|column| column.as_slice()).collect::<PyResult<Vec<&[f64]>>>()?;
    let out = compute(py, || reward::composite(&slices, &weights))?;
    Ok(out.into_pyarray(py))
}

/// Return the shaped rewards: `up` scales what is above the centre and `down` what is below; missing stays missing.
///
/// Takes a `NumPy` array, or an Arrow column, which is copied where it has nulls or several chunks.
#[pyfunction]
#[pyo3(signature = (rewards, *, up, down, centre))]
pub(crate) fn shaped<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    up: f64,
    down: f64,
    centre: f64,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let rewards = column::<f64>("rewards", rewards)?;
    let slice = rewards.as_slice()?;
    let out = compute(py, || AsymmetricScale::new(up, down, centre)?.apply(slice))?;
    Ok(out.into_pyarray(py))
}

/// Return a scale by its numbers: up, down and centre.
pub(crate) fn asymmetric(numbers: Option<(f64, f64, f64)>) -> PyResult<Option<AsymmetricScale>> {
    let scale = |(up, down, centre)| AsymmetricScale::new(up, down, centre);
    numbers.map(scale).transpose().map_err(|error| to_python(error.into()))
}

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

/// A dict and what is in it.
struct Object<'py>(Bound<'py, PyAny>);

impl<'py> Object<'py> {
    fn dict(&self) -> Result<&Bound<'py, PyDict>, Fault> {
        self.0.cast::<PyDict>().map_err(|_| Fault::Attribute)
    }

    fn truth(&self) -> bool {
        self.0.is_truthy().unwrap_or(true)
    }
}

fn text(text: &Bound<'_, PyString>) -> String {
    text.to_string_lossy().into_owned()
}

fn whole<'a>(number: &Bound<'_, PyAny>) -> Value<'a> {
    match (number.extract::<i64>(), number.extract::<f64>()) {
        (Ok(value), _) => Value::Int(value),
        (_, Ok(value)) => Value::Float(value),
        _ => Value::Vast { negative: number.lt(0).unwrap_or(false) },
    }
}

impl Node<'static> for Object<'_> {
    fn value(&self) -> Result<Value<'static>, Fault> {
        let object = &self.0;
        Ok(if object.is_none() {
            Value::Null
        } else if let Ok(value) = object.cast::<PyBool>() {
            Value::Bool(value.is_true())
        } else if object.is_instance_of::<PyInt>() {
            whole(object)
        } else if let Ok(value) = object.cast::<PyFloat>() {
            Value::Float(value.value())
        } else if let Ok(value) = object.cast::<PyString>() {
            Value::Text(text(value).into())
        } else if object.is_instance_of::<PyDict>() {
            Value::Object { some: self.truth() }
        } else {
            Value::List { some: self.truth() }
        })
    }

    fn fields<const N: usize>(&self, keys: [&str; N]) -> Result<[Option<Self>; N], Fault> {
        let dict = self.dict()?;
        Ok(keys.map(|key| dict.get_item(key).ok().flatten().map(Object)))
    }

    fn each(&self, mut visit: impl FnMut(Option<Self>) -> Result<(), Fault>) -> Result<(), Fault> {
        if let Ok(list) = self.0.cast::<PyList>() {
            return list.iter().try_for_each(|element| visit(Some(Object(element))));
        }
        if let Ok(tuple) = self.0.cast::<PyTuple>() {
            return tuple.iter().try_for_each(|element| visit(Some(Object(element))));
        }
        match self.value()? {
            Value::Text(_) | Value::Object { .. } => {
                (0..self.0.len().unwrap_or(0)).try_for_each(|_| visit(None))
            }
            _ => Err(Fault::Type),
        }
    }

    fn entries(&self, mut visit: impl FnMut(&str, Self) -> Result<(), Fault>) -> Result<(), Fault> {
        self.dict()?.iter().try_for_each(|(key, value)| {
            let name = key.cast::<PyString>().map(text).unwrap_or_default();
            visit(&name, Object(value))
        })
    }

    fn embedded<const N: usize>(&self, keys: [&str; N]) -> Result<Option<[Value<'static>; N]>, Fault> {
        let Value::Text(text) = self.value()? else { return Ok(None) };
        within(&text, keys)
    }
}

type StoredLine = (Option<String>, Option<String>, Option<f64>);

/// Return channel, domain and reward of each line of a store; None for a line that is not as nearly all are.
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

/// Return domain and reward of each rewarded line of a store, and for each line a byte that is 1 if it has a reward.
///
/// `odd` reads a line that is not as nearly all are: whether it has a reward, and domain and reward if they count.
#[pyfunction]
pub(crate) fn karl_stored_rewards(
    py: Python<'_>,
    path: PathBuf,
    version: &str,
    odd: Py<PyAny>,
) -> PyResult<(Py<PyList>, Py<PyBytes>)> {
    let version = parse(version)?;
    let (rewards, mut rewarded) = (PyList::empty(py).unbind(), Vec::new());
    let mut raised = None;
    let read = enter(py, None, |watch| {
        stored_rewards(&path, version, threads(), watch, |found| {
            let read = |py: Python<'_>| {
                let list = rewards.bind(py);
                found.iter().try_for_each(|(line, reward)| {
                    rewarded.push(u8::from(keep(list, line, reward, odd.bind(py))?));
                    Ok(())
                })
            };
            Python::attach(read).map_err(|error| stop(&mut raised, error))
        })
    });
    raised.map_or(read, Err)?;
    Ok((rewards, PyBytes::new(py, &rewarded).unbind()))
}

/// Append domain and reward of a line to the list; return whether it has a reward.
fn keep(
    list: &Bound<'_, PyList>,
    line: &[u8],
    reward: &StoredReward,
    odd: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    match reward {
        StoredReward::None => Ok(false),
        StoredReward::Of(domain, reward) => {
            list.append((domain.as_deref().unwrap_or("_global"), reward)).map(|()| true)
        }
        StoredReward::Odd => {
            let (has, pair): (bool, Option<Bound<'_, PyAny>>) = odd.call1((line,))?.extract()?;
            pair.map_or(Ok(()), |pair| list.append(pair)).map(|()| has)
        }
    }
}

/// Write the lines of a store, with rewards, to the end of another file; return the counts of lines, of scored ones and
/// of those that had a reward.
///
/// `rewarded` is what [`karl_stored_rewards`] returned; `line` returns the new line for a line that Python decides, which
/// is counted as a line alone. A domain without an entry in `baselines` has the baseline .5 and the deviation 1.
#[pyfunction]
#[pyo3(signature = (path, new, *, version, weights, force, baselines, rewarded, line))]
#[allow(clippy::too_many_arguments, reason = "each has its name in Python")]
pub(crate) fn karl_backfill(
    py: Python<'_>,
    path: PathBuf,
    new: PathBuf,
    version: &str,
    weights: [f64; 3],
    force: bool,
    baselines: &Bound<'_, PyDict>,
    rewarded: &[u8],
    line: Py<PyAny>,
) -> PyResult<(usize, usize, usize)> {
    let version = parse(version)?;
    let baselines = &by_name(baselines)?;
    let settings = Backfill { version, weights, force, baselines, rewarded };
    let mut raised = None;
    let counts = enter(py, None, |watch| {
        backfill(&path, &new, &settings, threads(), watch, |odd| {
            let written = |py: Python<'_>| line.bind(py).call1((PyBytes::new(py, odd),))?.extract();
            Python::attach(written).map_err(|error| stop(&mut raised, error))
        })
    });
    let counts = raised.map_or(counts, Err)?;
    Ok((counts.total, counts.scored, counts.skipped))
}

/// Return baseline and deviation of the domains that are texts; those of others are left to Python.
fn by_name(baselines: &Bound<'_, PyDict>) -> PyResult<HashMap<String, (f64, f64)>> {
    let named = baselines.iter().filter_map(|(name, pair)| Some((name.extract::<String>().ok()?, pair)));
    named.map(|(name, pair)| Ok((name, pair.extract()?))).collect()
}

/// Keep what Python raised, and stop the work.
fn stop(raised: &mut Option<PyErr>, error: PyErr) -> Error {
    *raised = Some(error);
    Error::Interrupted
}
