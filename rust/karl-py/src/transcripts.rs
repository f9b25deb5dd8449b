//! Bindings of `karl_transcripts`: conversion, outcomes, pairs, commits and the archive.

use crate::atomic_output::OutputTarget;
use crate::boundary::error::UsageError;
use crate::boundary::release_gil::enter;
use crate::log::{RejectedRow, shown};
use crate::protection::{PseudonymNames, protection};
use karl_log::format::Component;
use karl_log::input::source::Source;
use karl_log::log::Account;
use karl_reward::Version;
use karl_transcripts::archive::{AgentFile, Collected, FileForm};
use karl_transcripts::convert::report::{CountsByName, Mistyped};
use karl_transcripts::convert::{ConvertSettings, Rate};
use karl_transcripts::convert::{Report, TranscriptKind};
use karl_transcripts::karl_records::convert_to_karl;
use karl_transcripts::outcomes::outcome::weight;
use karl_transcripts::outcomes::{Report as OutcomesReport, Settings as OutcomesSettings};
use karl_transcripts::pairs::{PairShape, PairsReport, PairsSettings};
use pyo3::prelude::*;
use std::path::{Path, PathBuf};

/// The account of a conversion, as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct ConversionFacts {
    files: Vec<FileFacts>,
    refused: Vec<(String, String)>,
    skipped: Vec<(String, String)>,
    size_bytes: u64,
    lines_read: u64,
    lines_used: u64,
    types: Vec<(String, u64)>,
    blocks: Vec<(String, u64)>,
    duplicates: u64,
    dropped: Named,
    bad: Named,
    blank_lines: u64,
    welded_lines: u64,
    trajectories: u64,
    sub_agents: u64,
    rewarded: u64,
    records: u64,
    messages: Named,
    tool_calls: Named,
    notes: Named,
    secrets: Named,
    mistyped: Vec<MistypedFacts>,
    written_bytes: u64,
}

pub(crate) type Named = Vec<(&'static str, u64)>;

/// A value of a wrong type, and its place.
#[derive(IntoPyObject)]
pub(crate) struct MistypedFacts {
    path: String,
    offset: u64,
    field: String,
    came: &'static str,
    wanted: String,
}

/// Facts of one file.
#[derive(IntoPyObject)]
pub(crate) struct FileFacts {
    path: String,
    format: &'static str,
    lines_read: u64,
    bad: Named,
    bad_lines: Vec<RejectedRow>,
}

/// Return the name of each kind of transcript and what it reads.
#[pyfunction]
pub(crate) fn transcripts() -> Vec<(&'static str, &'static str)> {
    TranscriptKind::ALL.into_iter().map(|kind| (kind.name(), kind.about())).collect()
}

/// Return the kind of the transcripts with these keys in their lines, or in the document that fills a file, and what
/// they are if they are not read; None for each that they are not.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, reason = "a list is taken as a vector")]
pub(crate) fn transcript_by_keys(
    keys: Vec<String>,
    fills_file: bool,
) -> (Option<&'static str>, Option<String>) {
    match TranscriptKind::by_keys(&keys, fills_file) {
        Ok(kind) => (kind.map(TranscriptKind::name), None),
        Err(why) => (None, Some(why.into_owned())),
    }
}

/// Convert transcripts to one file of trajectories, or of KARL's records; `files` are as `read` takes them.
#[pyfunction]
#[pyo3(signature = (files, target, *, format=None, to, rate, weights, allow_secrets, pseudonyms=None, max_line_bytes, threads, progress=None))]
#[allow(clippy::too_many_arguments, reason = "one keyword a setting; the Python layer says what each means")]
pub(crate) fn convert(
    py: Python<'_>,
    files: Vec<(PathBuf, String, bool)>,
    target: &OutputTarget,
    format: Option<&str>,
    to: &str,
    rate: &str,
    weights: [f64; 3],
    allow_secrets: bool,
    pseudonyms: Option<PseudonymNames>,
    max_line_bytes: usize,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<ConversionFacts> {
    let kind = kind_of(format)?;
    let to_karl = is_karl(to)?;
    let rate = rate_of(rate, weights)?;
    let protection = protection(!allow_secrets, pseudonyms);
    let settings = ConvertSettings { kind, rate, max_line_bytes, threads, abandoned: false, protection };
    let report = enter(py, progress.as_ref(), |watch| {
        let open = |(path, name, optional): (PathBuf, String, bool)| {
            Source::open(&path, &name).map(|source| Source { optional, ..source })
        };
        let sources = files.into_iter().map(open).collect::<karl_log::Result<Vec<_>>>()?;
        if to_karl {
            convert_to_karl(sources, &target.inner, &settings, watch)
        } else {
            karl_transcripts::convert::convert(sources, &target.inner, &settings, watch)
        }
    })?;
    Ok(ConversionFacts::new(report))
}

/// Return the kind of transcripts of a name.
pub(crate) fn kind_of(format: Option<&str>) -> PyResult<Option<TranscriptKind>> {
    let unknown = |name: &str| {
        let known: Vec<_> = TranscriptKind::ALL.into_iter().map(TranscriptKind::name).collect();
        UsageError::new_err(format!("format is {name:?}, wanted {}", known.join(", ")))
    };
    format.map(|name| TranscriptKind::by_name(name).ok_or_else(|| unknown(name))).transpose()
}

/// Return whether KARL's records are written, by the name of the format.
fn is_karl(to: &str) -> PyResult<bool> {
    match to {
        "trajectory" => Ok(false),
        "karl" => Ok(true),
        _ => Err(UsageError::new_err(format!("to is {to:?}, wanted trajectory or karl"))),
    }
}

fn rate_of(name: &str, weights: [f64; 3]) -> PyResult<Rate> {
    match name {
        "log" => Ok(Rate::Log),
        "result" => Ok(Rate::Result),
        "karl-v1" => Ok(Rate::Karl(Version::V1, weights)),
        "karl-v2" => Ok(Rate::Karl(Version::V2, weights)),
        _ => Err(UsageError::new_err(format!(
            "rate is {name:?}, wanted log, result, karl-v1, karl-v2 or outcomes"
        ))),
    }
}

impl ConversionFacts {
    pub(crate) fn new(report: Report) -> Self {
        let accounts = || report.counts.files.iter().map(|(_, _, account)| account);
        let mut bad = CountsByName::new();
        for (reason, count) in accounts().flat_map(|account| &account.bad) {
            *bad.entry(reason.name()).or_default() += count;
        }
        Self {
            refused: shown(&report.refused),
            skipped: shown(&report.skipped),
            size_bytes: report.bytes,
            lines_read: accounts().map(|account| account.read).sum(),
            lines_used: report.counts.used,
            duplicates: report.counts.duplicates,
            dropped: named(&report.counts.dropped),
            bad: named(&bad),
            blank_lines: accounts().map(|account| account.blank).sum(),
            welded_lines: accounts().map(|account| account.welded).sum(),
            trajectories: report.counts.trajectories,
            sub_agents: report.counts.sub_agents,
            rewarded: report.counts.rewarded,
            records: report.counts.records,
            messages: named(&report.counts.messages),
            tool_calls: named(&report.counts.calls),
            notes: named(&report.counts.notes),
            secrets: named(&report.counts.secrets),
            mistyped: report.counts.mistyped.iter().map(MistypedFacts::new).collect(),
            written_bytes: report.written,
            files: report
                .counts
                .files
                .iter()
                .map(|(path, format, account)| FileFacts::of(path, format, account))
                .collect(),
            types: report.counts.types.into_iter().collect(),
            blocks: report.counts.blocks.into_iter().collect(),
        }
    }
}

impl MistypedFacts {
    fn new(found: &Mistyped) -> Self {
        Self {
            path: found.path.display().to_string(),
            offset: found.offset,
            field: found.field.clone(),
            came: found.came,
            wanted: found.wanted.clone(),
        }
    }
}

impl FileFacts {
    pub(crate) fn of(path: &Path, format: &'static str, account: &Account) -> Self {
        Self {
            path: path.display().to_string(),
            format,
            lines_read: account.read,
            bad: account.bad.iter().map(|(reason, &count)| (reason.name(), count)).collect(),
            bad_lines: account.places.iter().map(RejectedRow::new).collect(),
        }
    }
}

pub(crate) fn named(counts: &CountsByName) -> Named {
    counts.iter().map(|(&name, &count)| (name, count)).collect()
}

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
        karl_transcripts::outcomes::run(sources, &target.inner, &settings, watch)
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
        karl_transcripts::pairs::pairs(sources, &target.inner, &settings, watch)
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
    let report = enter(py, progress.as_ref(), |watch| {
        karl_transcripts::commits::convert_commits(&repositories, &target.inner, &settings, watch)
    })?;
    Ok(ConversionFacts::new(report))
}

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
    let collected =
        enter(py, progress.as_ref(), |watch| karl_transcripts::archive::collect(&files, &archive, watch))?;
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
