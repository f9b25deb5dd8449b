//! Binding of `karl_transcripts::outcomes`.

use std::path::PathBuf;

use karl_log::format::Component;
use karl_log::input::source::Source;
use karl_transcripts::outcomes::reward::weight;
use karl_transcripts::outcomes::{OutcomesReport, OutcomesSettings, run};
use pyo3::prelude::*;

use crate::atomic_output::OutputTarget;
use crate::boundary::release_gil::enter;
use crate::convert::{ConversionFacts, FileFacts, kind_of};
use crate::protection::{PseudonymNames, protection};

/// The account of a run of outcomes, as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct OutcomesFacts {
    converted: Option<ConversionFacts>,
    files: Vec<FileFacts>,
    written: u64,
    dropped: Vec<(&'static str, u64)>,
    known: u64,
    rewarded: u64,
    components: Vec<(&'static str, u64, f64)>,
    repositories: u64,
    without_repository: Vec<(&'static str, u64)>,
    commits: u64,
    secrets: Vec<(&'static str, u64)>,
    size_bytes: u64,
    written_bytes: u64,
}

/// Return each component of an outcome, whether it enters a reward as 1 - x, and its weight in that of `--rate
/// outcomes`.
#[pyfunction]
pub(crate) fn outcome_components() -> Vec<(&'static str, bool, f64)> {
    Component::ALL.into_iter().map(|one| (one.name(), one.is_cost(), weight(one))).collect()
}

/// Find the outcomes of trajectories, and write these with them; `files` are as `read` takes them.
#[pyfunction]
#[pyo3(signature = (files, target, *, format=None, rate, reports, repositories, after_days, pull_requests, allow_secrets, pseudonyms=None, max_line_bytes, threads, progress=None))]
#[allow(clippy::too_many_arguments, reason = "one keyword a setting; the Python layer says what each means")]
pub(crate) fn outcomes(
    py: Python<'_>,
    files: Vec<(PathBuf, String, bool)>,
    target: &OutputTarget,
    format: Option<&str>,
    rate: bool,
    reports: Vec<PathBuf>,
    repositories: Vec<PathBuf>,
    after_days: u32,
    pull_requests: Vec<PathBuf>,
    allow_secrets: bool,
    pseudonyms: Option<PseudonymNames>,
    max_line_bytes: usize,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<OutcomesFacts> {
    let settings = OutcomesSettings {
        kind: kind_of(format)?,
        rate,
        reports,
        repositories,
        after_days,
        pull_requests,
        max_line_bytes,
        threads,
        protection: protection(!allow_secrets, pseudonyms),
    };
    let report = enter(py, progress.as_ref(), |watch| {
        let open = |(path, name, optional): (PathBuf, String, bool)| {
            Source::open(&path, &name).map(|source| Source { optional, ..source })
        };
        let sources = files.into_iter().map(open).collect::<karl_log::Result<Vec<_>>>()?;
        run(sources, &target.inner, &settings, watch)
    })?;
    Ok(OutcomesFacts::new(report))
}

impl OutcomesFacts {
    fn new(report: OutcomesReport) -> Self {
        let components = Component::ALL.into_iter().zip(report.components);
        Self {
            files: report
                .files
                .iter()
                .map(|(path, account)| FileFacts::of(path, "trajectory", account))
                .collect(),
            written: report.written,
            dropped: report.dropped.into_iter().collect(),
            known: report.known,
            rewarded: report.rewarded,
            components: components.map(|(one, (known, sum))| (one.name(), known, sum)).collect(),
            repositories: report.repositories,
            without_repository: report.without_repository.into_iter().collect(),
            commits: report.commits,
            secrets: report.secrets.into_iter().collect(),
            size_bytes: report.bytes,
            written_bytes: report.written_bytes,
            converted: report.converted.map(ConversionFacts::new),
        }
    }
}
