//! Binding of `karl_transcripts::commits`.

use std::path::PathBuf;

use karl_transcripts::commits::convert_commits as run;
use karl_transcripts::convert::settings::{ConvertSettings, Rate};
use pyo3::prelude::*;

use crate::atomic_output::OutputTarget;
use crate::boundary::release_gil::enter;
use crate::convert::ConversionFacts;
use crate::protection::{PseudonymNames, protection};

/// Convert the commits of repositories to one file of synthetic trajectories.
#[pyfunction]
#[pyo3(signature = (repositories, target, *, allow_secrets, pseudonyms=None, max_line_bytes, threads, progress=None))]
#[allow(clippy::too_many_arguments, reason = "one keyword a setting; the Python layer says what each means")]
pub(crate) fn convert_commits(
    py: Python<'_>,
    repositories: Vec<PathBuf>,
    target: &OutputTarget,
    allow_secrets: bool,
    pseudonyms: Option<PseudonymNames>,
    max_line_bytes: usize,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<ConversionFacts> {
    let protection = protection(!allow_secrets, pseudonyms);
    let settings = ConvertSettings {
        kind: None,
        rate: Rate::Log,
        max_line_bytes,
        threads,
        abandoned: false,
        protection,
    };
    let report = enter(py, progress.as_ref(), |watch| run(&repositories, &target.inner, &settings, watch))?;
    Ok(ConversionFacts::new(report))
}
