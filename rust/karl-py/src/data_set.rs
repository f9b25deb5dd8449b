//! Binding of `karl_log::data_set`.

use std::path::PathBuf;

use karl_log::data_set::{BadRow, RowProblem, RowTable, read_rows};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use crate::boundary::array::threads;
use crate::boundary::release_gil::enter;

/// Columns of the rows of a file, or the first damaged row with the number of its line.
#[derive(IntoPyObject)]
pub(crate) struct RowColumns<'py> {
    bad: Option<(usize, &'static str)>,
    lines: Bound<'py, PyArray1<u64>>,
    bytes: Bound<'py, PyArray1<u64>>,
    messages: Bound<'py, PyArray1<i64>>,
    turns: Bound<'py, PyArray1<i64>>,
    records: Bound<'py, PyArray1<u64>>,
    groups: Bound<'py, PyArray1<u64>>,
    rewards: Bound<'py, PyArray1<f64>>,
}

/// Read numbers and hashes of every row of a file of a data set. Rows that are `stamped` have an object
/// `karl_fast` with their id, group and reward.
#[pyfunction]
pub(crate) fn data_set_rows(py: Python<'_>, path: PathBuf, stamped: bool) -> PyResult<RowColumns<'_>> {
    let found = enter(py, None, |watch| read_rows(&path, stamped, threads(), watch))?;
    Ok(match found {
        Ok(table) => columns(py, table, None),
        Err(BadRow { line, problem }) => {
            columns(py, RowTable::default(), Some((line, problem_name(problem))))
        }
    })
}

fn columns<'py>(py: Python<'py>, table: RowTable, bad: Option<(usize, &'static str)>) -> RowColumns<'py> {
    RowColumns {
        bad,
        lines: table.lines.into_pyarray(py),
        bytes: table.bytes.into_pyarray(py),
        messages: table.messages.into_pyarray(py),
        turns: table.turns.into_pyarray(py),
        records: table.records.into_pyarray(py),
        groups: table.groups.into_pyarray(py),
        rewards: table.rewards.into_pyarray(py),
    }
}

fn problem_name(problem: RowProblem) -> &'static str {
    match problem {
        RowProblem::NotUtf8 => "the row is not UTF-8",
        RowProblem::NoJson => "the row is not JSON",
        RowProblem::NotAnObject => "the row is not a JSON object",
        RowProblem::NoStamp => "the row has no object karl_fast with its id, group and reward",
    }
}
