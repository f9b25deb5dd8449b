//! Binding of `karl_log`'s reading side.

mod facts;
pub(crate) mod read;
pub(crate) mod reward_function;
pub(crate) mod splits;

use self::facts::{DomainFacts, DuplicateFacts, InputFacts};
pub(crate) use self::facts::{RejectedRow, shown};
use crate::boundary::arrow;
use crate::boundary::arrow::frame::LogTable;
use crate::boundary::arrow::table::{self, Wanted};
use crate::boundary::error::{LogError, UsageError, to_python};
use crate::boundary::release_gil::enter;
use karl_core::Key;
use karl_core::correlation::Correlation;
use karl_log::columns::category::Category;
use karl_log::detect::Wishes;
use karl_log::duplicates::estimate_duplicates;
use karl_log::extract::Compare;
use karl_log::format::{Fields, Overrides, by_keys, by_name};
use karl_log::input::source::hash;
use karl_transcripts::outcomes::table::{ComponentFacts, OutcomeTable, outcome_table};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::Arc;

/// Every record of some files, as columns in the order of their ids.
#[pyclass(frozen, module = "karl_fast._core")]
pub(crate) struct Log {
    pub(crate) inner: Arc<karl_log::Log>,
    /// Log-weights that the caller made; NaN for a record without one. `[B]`
    pub(crate) log_weights: Option<Arc<Vec<f64>>>,
}

#[pymethods]
impl Log {
    fn __len__(&self) -> usize {
        self.inner.len()
    }

    /// Return the facts of each file.
    fn inputs(&self) -> Vec<InputFacts> {
        InputFacts::of(&self.inner)
    }

    /// Return the files that were skipped because they hold no records, each with the reason.
    fn skipped(&self) -> Vec<(String, String)> {
        shown(&self.inner.skipped)
    }

    /// Return the files that were rejected because their format is not supported, each with the reason.
    fn refused(&self) -> Vec<(String, String)> {
        shown(&self.inner.refused)
    }

    /// Return the XXH3-128 of each file, or of its first and last MiB; of a stream always the whole.
    fn hashes(&self, py: Python<'_>, whole: bool) -> PyResult<Vec<String>> {
        if let Some(streamed) = &self.inner.streamed {
            return Ok(vec![streamed.origin.hash.clone()]);
        }
        let inputs = &self.inner.inputs;
        enter(py, None, |watch| {
            inputs.iter().map(|input| hash(&input.source, whole, watch)).collect::<karl_log::Result<_>>()
        })
    }

    /// Return component `index` of the reward; NaN where it is missing. `[B]`
    fn component<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let missing = || LogError::new_err(format!("the log has no reward component {index}"));
        Ok(self.inner.components.get(index).ok_or_else(missing)?.clone().into_pyarray(py))
    }

    /// Number of components of the reward.
    #[getter]
    fn components(&self) -> usize {
        self.inner.components.len()
    }

    /// Return the key of each record's randomness: low and high half of its id, and its ordinal. `[B, 3]`
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<u64>>> {
        let flat: Vec<u64> = self.inner.keys.iter().flat_map(Key::words).collect();
        flat.into_pyarray(py).reshape([self.inner.len(), 3])
    }

    /// Return the order of each record; None if no field of it was named. `[B]`
    fn order<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f64>>> {
        self.inner.order.as_ref().map(|order| order.clone().into_pyarray(py))
    }

    /// Return a category (group, domain, partition) as codes; -1 where a record has none. `[B]`
    fn codes<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let code = |&code: &u32| if code == karl_log::intern::NONE { -1 } else { i64::from(code) };
        let codes: Vec<i64> = self.by_name(name)?.codes().iter().map(code).collect();
        Ok(codes.into_pyarray(py))
    }

    /// Return the names of a category by code.
    fn names(&self, name: &str) -> PyResult<Vec<String>> {
        Ok(names(self.by_name(name)?))
    }

    /// Count the records of each name of a category among some records, and those without a name.
    fn count_of(&self, name: &str, rows: Vec<u32>) -> PyResult<(Vec<u64>, u64)> {
        let (counts, none) = self.by_name(name)?.count(Some(&rows));
        Ok((counts.into_iter().filter(|&count| count > 0).collect(), none))
    }

    /// Count the records of each domain, and those among `rows` if given; long lists keep the domains with the most
    /// records.
    #[pyo3(signature = (rows=None))]
    fn domains(&self, rows: Option<Vec<u32>>) -> DomainFacts {
        DomainFacts::new(&self.inner, rows.as_deref())
    }

    /// Return the numbers that names of a category spell in several ways: how many, and the spellings of the first.
    /// Of a stream names are not known.
    fn mixed_numbers(&self, name: &str) -> PyResult<Option<(usize, Vec<String>)>> {
        let known = self.inner.streamed.is_none().then(|| self.by_name(name)).transpose()?;
        let mixed = known.and_then(|category| category.names().mixed());
        Ok(mixed.map(|mixed| (mixed.numbers, mixed.first)))
    }

    /// Return the number of different names of a category.
    fn distinct(&self, name: &str) -> PyResult<usize> {
        Ok(self.by_name(name)?.names().len())
    }

    /// Hashed part of each record, which `dedup` needs: `content` or `records`; None where nothing was hashed.
    #[getter]
    fn compared(&self) -> Option<&'static str> {
        self.inner.compare.map(Compare::name)
    }

    /// Number of held records of a stream, which are the rows of this log, and number of records with a domain that
    /// was not counted by name; None for a log that was read from files.
    #[getter]
    fn streamed(&self) -> Option<(usize, u64)> {
        self.inner.streamed.as_ref().map(|streamed| (streamed.facts.held, streamed.domains.other))
    }

    /// True if the caller made the log-weights.
    #[getter]
    fn weighted(&self) -> bool {
        self.log_weights.is_some()
    }

    /// Return the log as an Arrow stream of one record batch; `components` are the names of the reward's, where it
    /// has some.
    #[pyo3(signature = (*, components, weights, partition))]
    fn arrow_stream<'py>(
        &self,
        py: Python<'py>,
        components: Vec<String>,
        weights: Vec<f64>,
        partition: bool,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let wanted = Wanted { components, weights, partition };
        let (log, log_weights) = (&self.inner, self.log_weights.as_ref());
        let batch = enter(py, None, |_| Ok::<_, karl_log::Error>(table::rows(log, log_weights, &wanted)))?;
        arrow::stream(py, batch)
    }

    /// Return the type of what `arrow_stream` gives.
    #[pyo3(signature = (*, components, weights, partition))]
    fn arrow_schema<'py>(
        &self,
        py: Python<'py>,
        components: Vec<String>,
        weights: Vec<f64>,
        partition: bool,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let wanted = Wanted { components, weights, partition };
        arrow::schema(py, &table::schema(&self.inner, self.log_weights.as_ref(), &wanted))
    }

    /// Return the same records with columns of a table in the place of their own; also how many rows the table has,
    /// and whether they were matched by number.
    #[pyo3(signature = (frame, *, reward=None, group=None, domain=None, log_weight=None))]
    fn with_columns(
        &self,
        py: Python<'_>,
        frame: &Bound<'_, PyAny>,
        reward: Option<&str>,
        group: Option<&str>,
        domain: Option<&str>,
        log_weight: Option<&str>,
    ) -> PyResult<(Self, usize, bool)> {
        let frame = LogTable::new(frame, self.inner.len())?;
        let components = match reward {
            Some(name) => vec![frame.rewards(name)?],
            None => self.inner.components.iter().map(|column| frame.only_present(column)).collect(),
        };
        let sum = self.inner.reward.as_ref().filter(|_| reward.is_none());
        let sum = sum.map(|column| frame.only_present(column));
        let group = group.map(|name| frame.category(name)).transpose()?;
        let domain = domain.map(|name| frame.category(name)).transpose()?;
        let log_weights = match log_weight {
            Some(name) => Some(Arc::new(frame.log_weights(name)?)),
            None => self.log_weights.clone(),
        };
        let inner = enter(py, None, |_| replaced(&self.inner, (components, sum), group, domain))?;
        Ok((Self { inner: Arc::new(inner), log_weights }, frame.len(), frame.by_row()))
    }

    /// Count the records that share their id with another, and their trajectory with another of their group.
    fn duplicates(&self) -> (u64, Option<u64>) {
        self.inner.duplicates()
    }

    /// Estimate the records that share their trajectory with another of their group, from so many bytes of groups, and of
    /// rows without a group where they have no more.
    fn estimate_duplicates(
        &self,
        py: Python<'_>,
        seed: u64,
        bytes: u64,
        threads: usize,
    ) -> PyResult<DuplicateFacts> {
        let estimate =
            enter(py, None, |watch| estimate_duplicates(&self.inner, seed, bytes, threads, watch))?;
        Ok(DuplicateFacts {
            groups: estimate.groups,
            groups_compared: estimate.groups_compared,
            rows_compared: estimate.rows_compared,
            rows_left_out: estimate.rows_left_out,
            copies_compared: estimate.copies_compared,
            copies: estimate.copies,
            error_95: estimate.error_95,
        })
    }

    /// Return the smallest, median, 90th percentile and largest of record lengths in bytes.
    fn lengths(&self) -> Option<[u64; 4]> {
        self.inner.lengths()
    }

    /// Return the bytes of each record. `[B]`
    fn record_lengths<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.inner.record_lengths().map(f64::from).collect::<Vec<_>>().into_pyarray(py)
    }

    /// Return the outcomes at a glance; None if no record has one. Reads the records again.
    fn outcomes(&self, py: Python<'_>, threads: usize) -> PyResult<Option<OutcomeFacts>> {
        let table = enter(py, None, |watch| outcome_table(&self.inner, threads, watch))?;
        Ok(table.map(OutcomeFacts::from))
    }

    /// Return the smallest, median, 90th percentile and largest of group sizes in rows.
    fn group_sizes(&self) -> Option<[u64; 4]> {
        self.inner.group_sizes()
    }
}

impl Log {
    pub(crate) fn by_name(&self, name: &str) -> PyResult<&Category> {
        match name {
            "group" => Ok(&self.inner.group),
            "domain" => Ok(&self.inner.domain),
            "partition" => Ok(&self.inner.partition),
            _ => Err(UsageError::new_err(format!("category is {name:?}, wanted group, domain or partition"))),
        }
    }
}

/// Return a copy of a log with some of its columns replaced.
fn replaced(
    log: &karl_log::Log,
    (components, reward): (Vec<Vec<f64>>, Option<Vec<f64>>),
    group: Option<Category>,
    domain: Option<Category>,
) -> karl_log::Result<karl_log::Log> {
    let mut log = log.clone().with_components(components, reward)?;
    if let Some(group) = group {
        log = log.with_group(group)?;
    }
    if let Some(domain) = domain {
        log = log.with_domain(domain)?;
    }
    Ok(log)
}

fn names(category: &Category) -> Vec<String> {
    category.names().iter().map(str::to_owned).collect()
}

/// The columns of a table that are looked into; none where records are known by all of theirs, for want of an id.
#[pyfunction]
#[pyo3(signature = (
    columns, *, format=None, id=None, group=None, reward=None, messages=None, prompt=None, completion=None, system=None, tools=None, domain=None, partition=None, order=None
))]
#[allow(clippy::too_many_arguments, reason = "as those of read")]
pub(crate) fn columns_needed(
    columns: Vec<String>,
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
) -> PyResult<Option<Vec<String>>> {
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
    let wishes = wishes(format, overrides, 0)?;
    let format = wishes.format.unwrap_or_else(|| by_keys(&columns));
    let fields = Fields::new(format, &wishes.overrides, Some(1)).map_err(to_python)?;
    let identified = fields.id.iter().any(|path| columns.iter().any(|column| *column == path.segments()[0]));
    Ok(identified.then(|| fields.roots().into_iter().map(str::to_owned).collect()))
}

/// Outcomes of a log, as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct OutcomeFacts {
    rows: u64,
    rows_known: u64,
    components: Vec<OneComponent>,
    correlations: Vec<Together>,
}

/// Facts about one component.
#[derive(IntoPyObject)]
pub(crate) struct OneComponent {
    name: &'static str,
    known: u64,
    mean: f64,
    constant: bool,
    /// Rows, and correlation with the length of the conversation.
    length: Option<(u64, f64)>,
}

/// Correlation of two components.
#[derive(IntoPyObject)]
pub(crate) struct Together {
    components: (&'static str, &'static str),
    rows: u64,
    correlation: f64,
}

impl From<OutcomeTable> for OutcomeFacts {
    fn from(table: OutcomeTable) -> Self {
        let together = |(one, other, found): (_, _, Correlation)| Together {
            components: (one, other),
            rows: found.count,
            correlation: found.coefficient,
        };
        Self {
            rows: table.rows,
            rows_known: table.rows_known,
            components: table.components.into_iter().map(OneComponent::from).collect(),
            correlations: table.correlations.into_iter().map(together).collect(),
        }
    }
}

impl From<ComponentFacts> for OneComponent {
    fn from(facts: ComponentFacts) -> Self {
        Self {
            name: facts.name,
            known: facts.known.count,
            mean: facts.known.mean,
            constant: facts.known.constant,
            length: facts.length.map(|found| (found.count, found.coefficient)),
        }
    }
}

/// Return the caller's settings for reading the files.
pub(crate) fn wishes(format: Option<&str>, overrides: Overrides, max_line_bytes: usize) -> PyResult<Wishes> {
    let unknown = |name: &str| UsageError::new_err(format!("unknown format {name:?}"));
    let format = format.map(|name| by_name(name).ok_or_else(|| unknown(name))).transpose()?;
    Ok(Wishes { format, overrides, max_line_bytes })
}

/// Parse the name of the part of records to compare.
fn compared(name: Option<&str>) -> PyResult<Option<Compare>> {
    let unknown = |name: &str| UsageError::new_err(format!("compare is {name:?}, wanted content or records"));
    name.map(|name| Compare::by_name(name).ok_or_else(|| unknown(name))).transpose()
}
