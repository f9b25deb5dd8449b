//! Binding of `karl_transcripts::pairs`.

use std::path::PathBuf;

use karl_log::input::source::Source;
use karl_transcripts::pairs::{PairShape, PairsReport, PairsSettings, pairs as run};
use pyo3::prelude::*;

use crate::atomic_output::OutputTarget;
use crate::boundary::error::UsageError;
use crate::boundary::release_gil::enter;
use crate::convert::{ConversionFacts, Named, kind_of, named};
use crate::protection::{PseudonymNames, protection};

/// The account of a search for pairs, as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct PairFacts {
    converted: ConversionFacts,
    sessions: u64,
    candidates: Named,
    pairs: Named,
    dropped: Named,
    secrets: Named,
    written_bytes: u64,
}

/// Find preference pairs in transcripts, and write them to one file; `files` are as `read` takes them.
#[pyfunction]
#[pyo3(signature = (files, target, *, format=None, shape, allow_secrets, pseudonyms=None, max_line_bytes, threads, progress=None))]
#[allow(clippy::too_many_arguments, reason = "one keyword a setting; the Python layer says what each means")]
pub(crate) fn pairs(
    py: Python<'_>,
    files: Vec<(PathBuf, String, bool)>,
    target: &OutputTarget,
    format: Option<&str>,
    shape: &str,
    allow_secrets: bool,
    pseudonyms: Option<PseudonymNames>,
    max_line_bytes: usize,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<PairFacts> {
    let unknown = || {
        let known: Vec<_> = PairShape::ALL.into_iter().map(PairShape::name).collect();
        UsageError::new_err(format!("shape is {shape:?}, wanted {}", known.join(" or ")))
    };
    let shape = PairShape::by_name(shape).ok_or_else(unknown)?;
    let protection = protection(!allow_secrets, pseudonyms);
    let settings = PairsSettings { kind: kind_of(format)?, shape, protection, max_line_bytes, threads };
    let report = enter(py, progress.as_ref(), |watch| {
        let open = |(path, name, optional): (PathBuf, String, bool)| {
            Source::open(&path, &name).map(|source| Source { optional, ..source })
        };
        let sources = files.into_iter().map(open).collect::<karl_log::Result<Vec<_>>>()?;
        run(sources, &target.inner, &settings, watch)
    })?;
    Ok(PairFacts::new(report))
}

impl PairFacts {
    fn new(report: PairsReport) -> Self {
        Self {
            sessions: report.sessions,
            candidates: named(&report.candidates),
            pairs: named(&report.pairs),
            dropped: named(&report.dropped),
            secrets: named(&report.secrets),
            written_bytes: report.written_bytes,
            converted: ConversionFacts::new(report.converted),
        }
    }
}
