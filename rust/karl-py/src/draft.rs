//! Binding of `karl_log::emit`: from a selection to files.

use std::path::PathBuf;

use karl_core::Ranking;
use karl_log::emit::directory::{self, MANIFEST, Part, SPLITS};
use karl_log::emit::{self, Flaw, Shape};
use pyo3::prelude::*;

use crate::array::column;
use crate::enter::enter;
use crate::error::{ArgumentError, UsageError, to_python};
use crate::log::Log;
use crate::selection::Selection;

/// The rows of a data set before it is written.
#[pyclass(frozen, module = "karl_fast._core")]
pub(crate) struct Draft {
    inner: emit::Draft,
    splits: [Vec<usize>; 3],
    merged: [usize; 3],
}

/// How to make rows of records, and how to deal them into splits.
#[pyclass(frozen, module = "karl_fast._core")]
pub(crate) struct Export {
    settings: emit::Settings,
    fractions: [f64; 3],
    fewest: usize,
    seed: u64,
    judge: Option<Py<PyAny>>,
}

#[pymethods]
impl Export {
    /// `judge` gives the name of a rendered row's flaw, or None: `too_many_tokens`, `bad_template`.
    #[new]
    #[pyo3(signature = (*, shape, allow_secrets, fractions, fewest, seed, threads, max_per_group=None, judge=None))]
    #[allow(
        clippy::too_many_arguments,
        reason = "one keyword a setting; the Python layer holds them in one object"
    )]
    fn new(
        shape: &str,
        allow_secrets: bool,
        fractions: [f64; 3],
        fewest: usize,
        seed: u64,
        threads: usize,
        max_per_group: Option<usize>,
        judge: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let unknown = || {
            UsageError::new_err(format!("shape is {shape:?}, wanted chat, prompt-completion, text or raw"))
        };
        let settings = emit::Settings {
            shape: Shape::by_name(shape).ok_or_else(unknown)?,
            allow_secrets,
            max_per_group,
            threads,
        };
        Ok(Self { settings, fractions, fewest, seed, judge })
    }
}

/// The numbers of a draft, as a dictionary.
#[derive(IntoPyObject)]
struct Facts {
    rows: Vec<u32>,
    shape: Option<&'static str>,
    dropped: Vec<(&'static str, u64)>,
    trimmed_rows: u64,
    trimmed_messages: u64,
    secrets: Vec<(&'static str, u64)>,
    splits: [usize; 3],
    merged_into_train: [usize; 3],
    threshold: Option<f64>,
    over_group_cap: u64,
}

#[pymethods]
impl Draft {
    /// The first `count` rows of a selection that can be written.
    #[staticmethod]
    fn of(py: Python<'_>, selection: &Selection, count: usize, export: &Export) -> PyResult<Self> {
        let facts = emit::Facts {
            rewards: &selection.rewards,
            scores: &selection.inner.scores,
            log_weights: &selection.inner.target.log_weights,
        };
        make(py, &selection.log.get().inner, facts, &selection.inner.ranking, count, export)
    }

    /// Rows that were chosen elsewhere, in that order, with a reward, score and log-weight for every row of the log.
    #[staticmethod]
    fn given(
        py: Python<'_>,
        log: &Log,
        rows: &Bound<'_, PyAny>,
        rewards: &Bound<'_, PyAny>,
        scores: &Bound<'_, PyAny>,
        log_weights: &Bound<'_, PyAny>,
        export: &Export,
    ) -> PyResult<Self> {
        let rows = column::<i64>("rows", rows)?;
        let (rewards, scores) = (column::<f64>("rewards", rewards)?, column::<f64>("scores", scores)?);
        let log_weights = column::<f64>("log_weights", log_weights)?;
        let facts = emit::Facts {
            rewards: rewards.as_slice()?,
            scores: scores.as_slice()?,
            log_weights: log_weights.as_slice()?,
        };
        refuse_copies(rows.as_slice()?)?;
        let ranking =
            Ranking::given(rows.as_slice()?, log.inner.len()).map_err(|error| to_python(error.into()))?;
        make(py, &log.inner, facts, &ranking, rows.as_slice()?.len(), export)
    }

    /// The numbers that a manifest holds.
    fn facts(&self) -> Facts {
        let draft = &self.inner;
        Facts {
            rows: draft.rows.clone(),
            shape: draft.shape.map(Shape::name),
            dropped: draft.dropped.iter().map(|(flaw, &count)| (flaw.name(), count)).collect(),
            trimmed_rows: draft.trimmed_rows,
            trimmed_messages: draft.trimmed_messages,
            secrets: draft.secrets.iter().map(|(&family, &count)| (family, count)).collect(),
            splits: [0, 1, 2].map(|split| self.splits[split].len()),
            merged_into_train: self.merged,
            threshold: draft.threshold,
            over_group_cap: draft.over_group_cap,
        }
    }

    /// The lines of one split (0 train, 1 valid, 2 test), in the order they are written.
    fn lines(&self, split: usize) -> Vec<&str> {
        self.splits.get(split).into_iter().flatten().map(|&line| self.inner.lines[line].as_str()).collect()
    }

    /// Writes the directory, whole or not at all.
    #[pyo3(signature = (target, manifest, *, force))]
    fn write(&self, py: Python<'_>, target: PathBuf, manifest: &str, force: bool) -> PyResult<()> {
        let lines = [0, 1, 2].map(|split| self.lines(split));
        let files =
            SPLITS.into_iter().zip(&lines).filter(|(name, lines)| *name == SPLITS[0] || !lines.is_empty());
        let mut parts: Vec<Part<'_>> = files.map(|(name, lines)| Part { name, lines }).collect();
        let manifest = [manifest];
        parts.push(Part { name: MANIFEST, lines: &manifest });
        enter(py, None, |watch| directory::write(&target, &parts, force, watch))
    }
}

/// Raises if a target may not be written: worth asking before any work is done.
#[pyfunction]
#[pyo3(signature = (target, *, force))]
pub(crate) fn check_target(py: Python<'_>, target: PathBuf, force: bool) -> PyResult<()> {
    enter(py, None, |_| directory::check_target(&target, force))
}

/// A text without what looks like a secret: for names from a log that go into a report.
#[pyfunction]
pub(crate) fn redacted(text: &str) -> String {
    emit::redact::redacted(text)
}

fn refuse_copies(rows: &[i64]) -> PyResult<()> {
    let mut sorted = rows.to_vec();
    sorted.sort_unstable();
    let copies = sorted.iter().zip(sorted.iter().skip(1)).find(|(row, next)| row == next);
    copies.map_or(Ok(()), |(row, _)| {
        let message = format!("rows holds {row} twice, wanted each row once: a data set has no copies yet");
        Err(ArgumentError::new_err(message))
    })
}

fn make(
    py: Python<'_>,
    log: &karl_log::Log,
    facts: emit::Facts<'_>,
    ranking: &Ranking,
    count: usize,
    export: &Export,
) -> PyResult<Draft> {
    let judge = export.judge.as_ref().map(|judge| move |line: &str| ask(judge, line));
    enter(py, None, |watch| {
        let judge = judge.as_ref().map(|judge| judge as emit::Judge<'_>);
        let inner = emit::draft(log, facts, ranking, count, export.settings, judge, watch)?;
        let (splits, merged) = inner.split(log, export.seed, &export.fractions, export.fewest)?;
        Ok::<_, karl_log::Error>(Draft { inner, splits, merged })
    })
}

fn ask(judge: &Py<PyAny>, line: &str) -> Result<Option<Flaw>, String> {
    let flaw = Python::attach(|py| judge.call1(py, (line,))?.extract::<Option<String>>(py));
    Ok(flaw.map_err(|error| error.to_string())?.and_then(|name| Flaw::by_name(&name)))
}
