//! Binding of `karl_transcripts::archive`.

use std::path::PathBuf;

use karl_transcripts::archive::{AgentFile, Collected, FileForm, collect as run};
use pyo3::prelude::*;

use crate::boundary::error::UsageError;
use crate::boundary::release_gil::enter;

/// The account of a collection, as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct CollectedFacts {
    files: u64,
    grown: u64,
    unchanged: u64,
    reread: u64,
    lines: u64,
    duplicates: u64,
    size_bytes: u64,
    written_bytes: u64,
    failed: Vec<(String, String)>,
}

/// Add what is new in agents' files to an archive. Each file is its agent, its path, its name in the archive, the form
/// of its content (`lines`, `document` or `rows`), and for rows the file of lines that they were exported to.
#[pyfunction]
#[pyo3(signature = (files, archive, *, progress=None))]
pub(crate) fn collect(
    py: Python<'_>,
    files: Vec<(String, PathBuf, String, String, Option<PathBuf>)>,
    archive: PathBuf,
    progress: Option<Py<PyAny>>,
) -> PyResult<CollectedFacts> {
    let file = |(agent, path, name, form, rows): (String, PathBuf, String, String, Option<PathBuf>)| {
        Ok(AgentFile { agent, path, name, form: form_of(&form, rows)? })
    };
    let files = files.into_iter().map(file).collect::<PyResult<Vec<_>>>()?;
    let collected = enter(py, progress.as_ref(), |watch| run(&files, &archive, watch))?;
    Ok(CollectedFacts::new(collected))
}

fn form_of(name: &str, rows: Option<PathBuf>) -> PyResult<FileForm> {
    match (name, rows) {
        ("lines", None) => Ok(FileForm::Lines),
        ("document", None) => Ok(FileForm::Document),
        ("rows", Some(rows)) => Ok(FileForm::Rows(rows)),
        _ => {
            Err(UsageError::new_err(format!("form is {name:?}, wanted lines, document, or rows with a file")))
        }
    }
}

impl CollectedFacts {
    fn new(collected: Collected) -> Self {
        Self {
            files: collected.files,
            grown: collected.grown,
            unchanged: collected.unchanged,
            reread: collected.reread,
            lines: collected.lines,
            duplicates: collected.duplicates,
            size_bytes: collected.bytes,
            written_bytes: collected.packed_bytes,
            failed: collected.failed,
        }
    }
}
