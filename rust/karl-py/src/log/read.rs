//! Binding of `karl_log::read`, and the formats that it knows.

use std::path::PathBuf;
use std::sync::Arc;

use karl_log::extract;
use karl_log::format::{FORMATS, Overrides};
use karl_log::input::source::Source;
use karl_log::read::ReadSettings;
use pyo3::prelude::*;

use super::Log;
use super::{compared, wishes};
use crate::boundary::release_gil::enter;

/// Return the name of each format and what it reads.
#[pyfunction]
pub(crate) fn formats() -> Vec<(&'static str, &'static str)> {
    FORMATS.into_iter().map(|format| (format.name, format.about)).collect()
}

/// Reads files into columns; `files` are a path, the name to call it by, and whether it may hold no records.
#[pyfunction]
#[pyo3(signature = (
    files, *, format=None, id=None, group=None, reward=None, messages=None, prompt=None, completion=None, system=None, tools=None, domain=None, partition=None,
    order=None, max_line_bytes, compare=None, domain_asked, strict, threads, progress=None
))]
#[allow(
    clippy::too_many_arguments,
    reason = "one keyword a setting; the Python layer holds them in one object"
)]
pub(crate) fn read(
    py: Python<'_>,
    files: Vec<(PathBuf, String, bool)>,
    format: Option<&str>,
    id: Option<String>,
    group: Option<String>,
    reward: Option<Vec<String>>,
    messages: Option<String>,
    prompt: Option<String>,
    completion: Option<String>,
    system: Option<String>,
    tools: Option<String>,
    domain: Option<String>,
    partition: Option<String>,
    order: Option<String>,
    max_line_bytes: usize,
    compare: Option<&str>,
    domain_asked: bool,
    strict: bool,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<Log> {
    let overrides = Overrides {
        id,
        group,
        reward,
        messages,
        prompt,
        completion,
        system,
        tools,
        domain,
        partition,
        order,
    };
    let scan = extract::ScanSettings { compare: compared(compare)?, domain_asked, strict };
    let settings = ReadSettings { wishes: wishes(format, overrides, max_line_bytes)?, scan, threads };
    let inner = enter(py, progress.as_ref(), |watch| {
        let open = |(path, name, optional): (PathBuf, String, bool)| {
            Source::open(&path, &name).map(|source| Source { optional, ..source })
        };
        let sources = files.into_iter().map(open).collect::<karl_log::Result<Vec<_>>>()?;
        karl_log::read::read(sources, &settings, watch)
    })?;
    Ok(Log { inner: Arc::new(inner), log_weights: None })
}
