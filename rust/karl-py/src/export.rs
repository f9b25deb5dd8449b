//! Binding of `karl_log::export`: from a selection to files.

use crate::atomic_output::OutputTarget;
use crate::boundary::array::{column, threads};
use crate::boundary::error::{UsageError, to_python};
use crate::boundary::release_gil::enter;
use crate::log::Log;
use crate::protection::{PseudonymNames, pseudonyms_of};
use crate::selection::Selection;
use karl_core::sample::strata::{Allocation, budgets_by_name};
use karl_core::{Ranking, Sampler, Verdict};
use karl_log::columns::category::Category;
use karl_log::conversation::Flaw;
use karl_log::data_set::{BadRow, RowProblem, RowTable, read_rows};
use karl_log::export::directory::{DirectoryFile, FileContent, SPLITS, TABLES, WrittenFile};
use karl_log::export::{Dealing, Draw, Ordinals, Prepared, Shape, Splits, Strata, directory};
use karl_log::intern::Names;
use karl_log::{Error, Place, export};
use karl_redact::Pseudonyms;
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

/// The rows of a data set before it is written.
#[pyclass(frozen, module = "karl_fast._core")]
pub(crate) struct Draft {
    inner: export::Draft,
    /// None where nothing is read again: it would be in memory for as long as the draft.
    log: Option<Py<Log>>,
    threads: usize,
    splits: Splits,
    failed: Vec<FailedRow>,
    strata: (Vec<Stratum>, usize),
}

/// The numbers of a draft, as a dictionary.
#[derive(IntoPyObject)]
struct DraftFacts {
    rows: Vec<u32>,
    shape: Option<&'static str>,
    dropped: Vec<(&'static str, u64)>,
    trimmed_rows: u64,
    trimmed_messages: u64,
    reasoning_left_out: u64,
    label_above: Option<f64>,
    doubled_rows: u64,
    secrets: Vec<(&'static str, u64)>,
    splits: [usize; 3],
    split_quotas: [f64; 3],
    split_groups: [usize; 3],
    merged_into_train: [usize; 3],
    larger_split: Option<([f64; 3], [usize; 3])>,
    duplicates: u64,
    threshold: Option<f64>,
    over_group_cap: u64,
    strata: Vec<Stratum>,
    strata_count: usize,
}

#[pymethods]
impl Draft {
    /// `count` rows of a selection that can be written, as far as it is known of them.
    #[staticmethod]
    fn of(py: Python<'_>, selection: &Selection, count: usize, export: &Export) -> PyResult<Self> {
        let mut strata = strata(selection, count, export.per.as_ref())?;
        let budgets = strata.as_ref().map(StrataDraw::limits);
        let ordinals = match selection.settings.sampler {
            Sampler::WeightedReservoir => Ordinals::Digests,
            _ => Ordinals::Ranks,
        };
        let log = &selection.log;
        let mut draft = make(py, export, log, ordinals, |judge, watch| {
            selection.with(|population| {
                let rows = selection.inner.rows(population);
                let log_weight = |row| selection.inner.target.log_weight(&rows, row);
                let facts = export::SelectionValues {
                    rewards: population.rewards,
                    scores: selection.inner.scores(population.rewards),
                    log_weight: &log_weight,
                };
                let draw = if selection.settings.sampler.replaces() {
                    Draw::Copied(selection.inner.copies(population, &selection.settings, count)?)
                } else {
                    let ranking = selection.inner.ranking(population, &selection.settings)?;
                    Draw::Ranked { ranking, count, strata: budgets }
                };
                export::draft(&log.get().inner, facts, draw, export.settings(), judge, watch)
            })
        })?;
        if selection.settings.sampler == Sampler::WeightedReservoir {
            // Its keys are taken before log Z; a threshold is compared with log weights.
            let log_z = selection.inner.target.log_z().next().unwrap_or_default();
            let passed = log.get().inner.streamed.as_ref().and_then(|streamed| streamed.facts.threshold);
            draft.inner.threshold = draft.inner.threshold.map(|threshold| threshold - log_z).or(passed);
        }
        draft.strata = strata.as_mut().map(|strata| strata.tell(&draft.inner.rows)).unwrap_or_default();
        Ok(draft)
    }

    /// Return an export of given rows, in their order, with a reward, score and log-weight for every row of the log.
    /// A repeated row is written as often.
    #[staticmethod]
    fn given(
        py: Python<'_>,
        log: Py<Log>,
        rows: &Bound<'_, PyAny>,
        rewards: &Bound<'_, PyAny>,
        scores: &Bound<'_, PyAny>,
        log_weights: &Bound<'_, PyAny>,
        export: &Export,
    ) -> PyResult<Self> {
        let rows = column::<i64>("rows", rows)?;
        let (rewards, scores) = (column::<f64>("rewards", rewards)?, column::<f64>("scores", scores)?);
        let log_weights = column::<f64>("log_weights", log_weights)?;
        let (rows, logs) = (rows.as_slice()?, log_weights.as_slice()?);
        let log_weight = |row: usize| logs.get(row).copied().unwrap_or(f64::NAN);
        let facts = export::SelectionValues {
            rewards: rewards.as_slice()?,
            scores: scores.as_slice()?,
            log_weight: &log_weight,
        };
        let ranking = Ranking::given(rows, log.get().inner.len()).map_err(|error| to_python(error.into()))?;
        let draw = Draw::Ranked { ranking, count: rows.len(), strata: None };
        make(py, export, &log, Ordinals::Ranks, |judge, watch| {
            let mut draft = export::draft(&log.get().inner, facts, draw, export.settings(), judge, watch)?;
            let mut copies: HashMap<i64, u32> = HashMap::new();
            for &row in rows {
                *copies.entry(row).or_default() += 1;
            }
            draft.copy(|row| copies.get(&i64::from(row)).copied().unwrap_or(1));
            Ok(draft)
        })
    }

    /// Return the numbers that a manifest holds.
    fn facts(&self) -> DraftFacts {
        let draft = &self.inner;
        DraftFacts {
            rows: draft.drawn(),
            shape: draft.shape.map(Shape::name),
            dropped: draft.dropped.iter().map(|(flaw, &count)| (flaw.name(), count)).collect(),
            trimmed_rows: draft.trimmed_rows,
            trimmed_messages: draft.trimmed_messages,
            reasoning_left_out: draft.reasoning_left_out,
            label_above: draft.label_above,
            doubled_rows: draft.doubled_rows,
            secrets: draft.secrets.iter().map(|(&family, &count)| (family, count)).collect(),
            splits: [0, 1, 2].map(|split| self.splits.lines[split].len()),
            split_quotas: self.splits.quotas,
            split_groups: self.splits.groups,
            merged_into_train: self.splits.merged,
            larger_split: self.splits.larger,
            duplicates: draft.duplicates,
            threshold: draft.threshold,
            over_group_cap: draft.over_group_cap,
            strata: self.strata.0.clone(),
            strata_count: self.strata.1,
        }
    }

    /// The first chosen records that could not be written, by place; none of a stream.
    #[getter]
    fn failed_rows(&self) -> Vec<FailedRow> {
        self.failed.clone()
    }

    /// Chosen records that could not be written because of media beside the conversation, by the kind of media.
    #[getter]
    fn media(&self) -> BTreeMap<&'static str, u64> {
        self.inner.media.clone()
    }

    /// Return the size in bytes of the lines of all splits, with line ends.
    #[getter]
    fn size_bytes(&self) -> u64 {
        self.splits.lines.iter().map(|lines| self.inner.bytes(self.log(), lines)).sum()
    }

    /// Return the lines of one split (0 train, 1 valid, 2 test), in the order they are written, from number `first` on
    /// with so many bytes in total, one line if the first has more; those that are not held are read again from the log.
    fn lines(&self, py: Python<'_>, split: usize, first: usize, bytes: u64) -> PyResult<Vec<Cow<'_, str>>> {
        let lines = self.splits.lines.get(split).and_then(|lines| lines.get(first..)).unwrap_or_default();
        let mut sum = 0;
        let fits = |(number, line): &(usize, &usize)| {
            sum += self.inner.bytes(self.log(), std::slice::from_ref(line));
            *number == 0 || sum <= bytes
        };
        let count = lines.iter().enumerate().take_while(fits).count();
        enter(py, None, |watch| self.inner.texts(self.log(), &lines[..count], self.threads, watch))
    }

    /// Return the row of the log of each line of a split, in the order of `lines`.
    fn line_rows(&self, split: usize) -> Vec<u32> {
        let lines = self.splits.lines.get(split).map_or(&[][..], Vec::as_slice);
        lines.iter().map(|&line| self.inner.rows[line]).collect()
    }

    /// Write the directory, whole or not at all, with the manifest that a function gives for the names, sizes and
    /// hashes of the files, and with the files given by `beside`: its description, or tables, which take the place of
    /// the files of rows. False, and nothing is written, where a record that was taken unread turns out to be no row:
    /// the draft is to be made again of judged ones.
    #[pyo3(signature = (target, manifest, beside, *, progress = None))]
    fn write(
        &self,
        py: Python<'_>,
        target: &OutputTarget,
        manifest: Py<PyAny>,
        beside: BTreeMap<String, Vec<u8>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<bool> {
        let mut raised = None;
        let written = enter(py, progress.as_ref(), |watch| {
            let splits = self.splits.lines.each_ref().map(|lines| self.inner.written(self.log(), lines));
            let in_tables = beside.contains_key(TABLES[0]);
            let files = SPLITS
                .into_iter()
                .zip(&splits)
                .filter(|(name, lines)| !in_tables && (*name == SPLITS[0] || !lines.is_empty()));
            let files = files.map(|(name, lines)| DirectoryFile { name, content: FileContent::Lines(lines) });
            let more = beside.iter().map(|(name, bytes)| (name.as_str(), FileContent::Bytes(bytes)));
            let parts: Vec<DirectoryFile<'_>> =
                files.chain(more.map(|(name, content)| DirectoryFile { name, content })).collect();
            let describe = |written: &[WrittenFile]| {
                let text = ask_manifest(&manifest, &parts, written);
                text.map(Some).map_err(|error| {
                    raised = Some(error);
                    Error::Interrupted
                })
            };
            match directory::write_with(&target.inner, &parts, self.threads, watch, describe) {
                Err(Error::Unwritable { .. }) => Ok(false),
                written => written.map(|()| true),
            }
        });
        raised.map_or(written, Err)
    }
}

impl Draft {
    fn log(&self) -> Option<&karl_log::Log> {
        self.log.as_ref().map(|log| log.get().inner.as_ref())
    }
}

/// Return a text without what looks like a secret: for names from a log that go into a report.
#[pyfunction]
pub(crate) fn redacted(text: &str) -> String {
    karl_redact::secrets::redacted(text)
}

/// Return the size of a file, and its XXH3-128 as 32 hexadecimal digits.
#[pyfunction]
pub(crate) fn file_digest(py: Python<'_>, path: PathBuf) -> PyResult<(u64, String)> {
    enter(py, None, |_| directory::read_back(&path)).map(|file| (file.size, file.hash))
}

fn make(
    py: Python<'_>,
    export: &Export,
    log: &Py<Log>,
    ordinals: Ordinals,
    work: impl FnOnce(Option<export::Judge<'_>>, &karl_log::Watch) -> karl_log::Result<export::Draft> + Send,
) -> PyResult<Draft> {
    let judge = export.judge.as_ref().map(|judge| move |line: &str| ask(judge, line));
    let (inner, splits) = enter(py, None, |watch| {
        let judge = judge.as_ref().map(|judge| judge as export::Judge<'_>);
        let inner = work(judge, watch)?;
        let splits = inner.split(&log.get().inner, ordinals, export.dealing)?;
        Ok::<_, karl_log::Error>((inner, splits))
    })?;
    let failed = inner.failed.iter().map(|&failed| FailedRow::new(&log.get().inner, failed)).collect();
    let log = (!inner.holds_all()).then(|| log.clone_ref(py));
    Ok(Draft { inner, log, threads: export.settings.threads, splits, failed, strata: (Vec::new(), 0) })
}

/// Return the text of a manifest, by the name, the size and the hash of each file.
fn ask_manifest(
    manifest: &Py<PyAny>,
    parts: &[DirectoryFile<'_>],
    written: &[WrittenFile],
) -> PyResult<String> {
    let files = parts.iter().zip(written).map(|(part, file)| (part.name, file.size, &file.hash[..]));
    let files: Vec<_> = files.collect();
    Python::attach(|py| manifest.call1(py, (files,))?.extract(py))
}

fn ask(judge: &Py<PyAny>, line: &str) -> Result<Option<Flaw>, String> {
    let flaw = Python::attach(|py| judge.call1(py, (line,))?.extract::<Option<String>>(py));
    Ok(flaw.map_err(|error| error.to_string())?.and_then(|name| Flaw::by_name(&name)))
}

/// A chosen record that could not be written, and its place in a file.
#[derive(Clone, IntoPyObject)]
struct FailedRow {
    reason: &'static str,
    path: String,
    offset: u64,
}

impl FailedRow {
    fn new(log: &karl_log::Log, (flaw, place): (Flaw, Place)) -> Self {
        let path = log.inputs[place.input].source.name.clone();
        Self { reason: flaw.name(), path, offset: place.offset }
    }
}

/// Settings of the rows to make of records, and of the splits of these rows.
#[pyclass(frozen, module = "karl_fast._core")]
pub(crate) struct Export {
    settings: export::ExportSettings<'static>,
    pseudonyms: Option<Pseudonyms>,
    dealing: Dealing,
    judge: Option<Py<PyAny>>,
    per: Option<(String, Allocation)>,
}

#[pymethods]
impl Export {
    /// `judge` gives the name of a rendered row's flaw, or None: `too_many_tokens`, `bad_template`.
    #[new]
    #[pyo3(signature = (*, shape, allow_secrets, pseudonyms=None, prepared, fractions, fewest, seed, threads, max_per_group=None, judge=None, per=None))]
    #[allow(
        clippy::too_many_arguments,
        reason = "one keyword a setting; the Python layer holds them in one object"
    )]
    fn new(
        shape: &str,
        allow_secrets: bool,
        pseudonyms: Option<PseudonymNames>,
        prepared: &str,
        fractions: [f64; 3],
        fewest: usize,
        seed: u64,
        threads: usize,
        max_per_group: Option<usize>,
        judge: Option<Py<PyAny>>,
        per: Option<(String, String)>,
    ) -> PyResult<Self> {
        let unknown = || {
            UsageError::new_err(format!("shape is {shape:?}, wanted one of {}", Shape::names().join(", ")))
        };
        let not_prepared =
            || UsageError::new_err(format!("prepared is {prepared:?}, wanted held, judged or unread"));
        let settings = export::ExportSettings {
            shape: Shape::by_name(shape).ok_or_else(unknown)?,
            allow_secrets,
            pseudonyms: None,
            prepared: Prepared::by_name(prepared).ok_or_else(not_prepared)?,
            max_per_group,
            dealt: fractions[0] < 1.0,
            seed,
            threads,
        };
        let dealing = Dealing { fractions, fewest, seed };
        let unknown = |name: &str| {
            UsageError::new_err(format!("per deals {name:?}, wanted equal, proportional or sqrt"))
        };
        let deal = |(field, deal): (String, String)| {
            Ok((field, Allocation::by_name(&deal).ok_or_else(|| unknown(&deal))?))
        };
        let per = per.map(deal).transpose().map_err(|error: PyErr| error)?;
        let pseudonyms = pseudonyms.map(pseudonyms_of);
        Ok(Self { settings, pseudonyms, dealing, judge, per })
    }

    /// Return the same with every record read and judged before it is written.
    fn judged(&self, py: Python<'_>) -> Self {
        let settings = export::ExportSettings { prepared: self.settings.prepared.judged(), ..self.settings };
        let judge = self.judge.as_ref().map(|judge| judge.clone_ref(py));
        let (pseudonyms, per) = (self.pseudonyms.clone(), self.per.clone());
        Self { settings, pseudonyms, judge, per, dealing: self.dealing }
    }
}

impl Export {
    /// Return the settings, with the replacement of personal data.
    fn settings(&self) -> export::ExportSettings<'_> {
        export::ExportSettings { pseudonyms: self.pseudonyms.as_ref(), ..self.settings }
    }
}

/// Budget and drawn rows of one stratum, as a dictionary.
#[derive(Clone, IntoPyObject)]
struct Stratum {
    name: Option<String>,
    kept: u64,
    budget: u64,
    drawn: u64,
}

/// A budget dealt over the strata of a log.
struct StrataDraw<'a> {
    column: &'a Category,
    codes: Cow<'a, [u32]>,
    kept: Vec<u64>,
    budgets: Vec<u64>,
}

/// Return the strata that `export` asks for; rows without a name are a stratum of their own, the last.
fn strata<'a>(
    selection: &'a Selection,
    count: usize,
    per: Option<&(String, Allocation)>,
) -> PyResult<Option<StrataDraw<'a>>> {
    let Some((field, allocation)) = per else { return Ok(None) };
    let column = selection.log.get().by_name(field)?;
    let names = column.names();
    let codes = column.codes();
    let strata = Strata { codes: &codes, budgets: vec![0; names.len() + 1] };
    let mut kept = strata.budgets.clone();
    for (row, &verdict) in (0..).zip(&selection.inner.verdicts) {
        kept[strata.of(row)] += u64::from(verdict == Verdict::Kept);
    }
    // Rows without a name come last.
    let ordered = |code| name(names, code).map_or((true, ""), |name| (false, name));
    let order: Vec<(bool, &str)> = (0..kept.len()).map(ordered).collect();
    let budgets = budgets_by_name(&kept, &order, count as u64, *allocation);
    Ok(Some(StrataDraw { column, codes, kept, budgets }))
}

fn name(names: &Names, code: usize) -> Option<&str> {
    names.get(u32::try_from(code).ok()?)
}

impl StrataDraw<'_> {
    fn limits(&self) -> Strata<'_> {
        Strata { codes: &self.codes, budgets: self.budgets.clone() }
    }

    /// Return the draw from each stratum that has rows, by name, or of the largest ones if there are many; and their
    /// number.
    fn tell(&self, rows: &[u32]) -> (Vec<Stratum>, usize) {
        let (limits, mut drawn) = (self.limits(), vec![0; self.kept.len()]);
        for &row in rows {
            drawn[limits.of(row)] += 1;
        }
        let stratum = |code: usize| Stratum {
            name: name(self.column.names(), code).map(str::to_owned),
            kept: self.kept[code],
            budget: self.budgets[code],
            drawn: drawn[code],
        };
        let unnamed = self.kept.len() - 1;
        let named = self.column.largest(&self.kept).into_iter().map(|code| code as usize);
        let told = named.chain((self.kept[unnamed] > 0).then_some(unnamed)).map(stratum).collect();
        (told, self.kept.iter().filter(|&&kept| kept > 0).count())
    }
}

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
