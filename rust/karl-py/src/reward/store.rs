//! Bindings of KARL's store: rewards that it holds, and rewards written into it.

use std::collections::HashMap;
use std::path::PathBuf;

use karl_log::Error;
use karl_log::karl_rewards::{Backfill, Stored, StoredReward, backfill, stored, stored_rewards};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyBytesMethods, PyDict, PyList};

use super::karl::parse;
use crate::boundary::array::threads;
use crate::boundary::release_gil::enter;

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
