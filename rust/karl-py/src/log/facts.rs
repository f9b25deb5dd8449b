//! Facts of the files of a log, as dictionaries.

use std::collections::HashMap;
use std::path::PathBuf;

use karl_log::Log;
use karl_log::detect::Input;
use karl_log::detect::SidecarNumber;
use karl_log::input::pipe::PipeFacts;
use karl_log::log::Account;
use karl_log::rejects::{Bad, OrderKinds};
use karl_redact::secrets::redacted;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Return each path as text, with its reason.
pub(crate) fn shown(files: &[(PathBuf, String)]) -> Vec<(String, String)> {
    files.iter().map(|(path, why)| (path.display().to_string(), why.clone())).collect()
}

/// Facts of one file.
#[derive(IntoPyObject)]
pub(super) struct InputFacts {
    path: String,
    codec: &'static str,
    layout: String,
    format: &'static str,
    fields: Vec<(&'static str, String)>,
    beside: Option<BesideFacts>,
    keys: Vec<String>,
    size_bytes: u64,
    modified_seconds: f64,
    rows_read: u64,
    dropped: Vec<(&'static str, u64)>,
    bad_rows: Vec<RejectedRow>,
    blank_lines: u64,
    welded_lines: u64,
    duplicate_keys: u64,
    without_id: u64,
    unusable_domains: u64,
    /// Kinds of order that its records have, each with the line and the offset of the first.
    orders: Vec<(&'static str, u64, u64)>,
}

/// A number that a format took from a file beside the log, or why it could not.
#[derive(IntoPyObject)]
pub(super) struct BesideFacts {
    path: String,
    key: &'static str,
    number: Option<u64>,
    problem: Option<String>,
}

impl BesideFacts {
    fn new(beside: &SidecarNumber) -> Self {
        Self {
            path: beside.path.display().to_string(),
            key: beside.key,
            number: beside.number.as_ref().ok().copied(),
            problem: beside.number.as_ref().err().cloned(),
        }
    }
}

/// Limits of the listed keys of a record, which may have any number: keys, and their bytes in total.
const KEYS_TOLD: (usize, usize) = (100, 1 << 14);

/// Return the first keys of a record.
fn told(keys: &[String]) -> impl Iterator<Item = &String> {
    let (most, mut left) = KEYS_TOLD;
    let fits = move |key: &&String| left.checked_sub(key.len()).map(|rest| left = rest).is_some();
    keys.iter().take(most).filter(fits)
}

/// Copies in a sample of groups, and in all by estimate, as a dictionary.
#[derive(IntoPyObject)]
pub(super) struct DuplicateFacts {
    pub(super) groups: usize,
    pub(super) groups_compared: usize,
    pub(super) rows_compared: usize,
    /// Rows without a group that were not compared.
    pub(super) rows_left_out: usize,
    pub(super) copies_compared: u64,
    pub(super) copies: f64,
    /// Half the width of the 95 % interval of the estimate.
    pub(super) error_95: f64,
}

/// Number of records of each domain, as a dictionary.
#[derive(IntoPyObject)]
pub(super) struct DomainFacts {
    /// Name, records of all, and of those that were asked for.
    listed: Vec<(String, u64, u64)>,
    /// Number of domains that are not listed; None if unknown.
    others: Option<usize>,
    /// Number of records of the domains that are not listed.
    other_rows: u64,
}

impl DomainFacts {
    pub(super) fn new(log: &Log, rows: Option<&[u32]>) -> Self {
        let (column, names) = (&log.domain, log.domain.names());
        let (after, _) = rows.map_or_else(Default::default, |rows| column.count(Some(rows)));
        let after_of = |code: u32| after.get(code as usize).copied().unwrap_or(0);
        if let Some(streamed) = &log.streamed {
            let code_of: HashMap<&str, u32> = names.iter().zip(0..).collect();
            let drawn = |name: &str| code_of.get(name).map_or(0, |&code| after_of(code));
            let counted = streamed.domains.named.iter();
            let listed = counted.map(|(name, &count)| (name.clone(), count, drawn(name))).collect();
            let other_rows = streamed.domains.other;
            return Self { listed, others: (other_rows == 0).then_some(0), other_rows };
        }
        let (before, _) = column.count(None);
        let largest = column.largest(&before);
        let entry = |&code: &u32| Some((names.get(code)?.to_owned(), before[code as usize], after_of(code)));
        let listed: Vec<(String, u64, u64)> = largest.iter().filter_map(entry).collect();
        let other_rows = before.iter().sum::<u64>() - listed.iter().map(|(_, count, _)| count).sum::<u64>();
        let others = before.iter().filter(|&&count| count > 0).count() - listed.len();
        Self { listed, others: Some(others), other_rows }
    }
}

/// The place of a row that is not a record.
pub(crate) struct RejectedRow {
    reason: &'static str,
    line: u64,
    offset: u64,
    key: Option<String>,
    value: Option<String>,
}

impl RejectedRow {
    pub(crate) fn new(bad: &Bad) -> Self {
        let key = bad.key.as_deref().map(redacted);
        let value = bad.value.as_deref().map(redacted);
        Self { reason: bad.reason.name(), line: bad.line, offset: bad.offset, key, value }
    }
}

impl<'py> IntoPyObject<'py> for RejectedRow {
    type Target = PyDict;
    type Output = Bound<'py, PyDict>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let facts = PyDict::new(py);
        facts.set_item("reason", self.reason)?;
        facts.set_item("line", self.line)?;
        facts.set_item("offset", self.offset)?;
        if let Some(key) = self.key {
            facts.set_item("key", key)?;
        }
        if let Some(value) = self.value {
            facts.set_item("value", value)?;
        }
        Ok(facts)
    }
}

/// Return the kinds of order that there are, each with its first place.
fn kinds(orders: OrderKinds) -> Vec<(&'static str, u64, u64)> {
    let all = [("number", orders.number), ("time", orders.time)];
    all.into_iter().filter_map(|(kind, place)| place.map(|(line, offset)| (kind, line, offset))).collect()
}

impl InputFacts {
    /// Return the facts of each file of a log; those of a stream have its own codec and size.
    pub(super) fn of(log: &Log) -> Vec<Self> {
        let facts = log.inputs.iter().zip(&log.accounts).map(Self::new);
        let Some(streamed) = &log.streamed else { return facts.collect() };
        let PipeFacts { codec, size, .. } = streamed.origin;
        let as_it_came = |facts| Self { codec: codec.name(), size_bytes: size, ..facts };
        facts.map(as_it_came).collect()
    }

    fn new((input, account): (&Input, &Account)) -> Self {
        Self {
            path: input.source.name.clone(),
            codec: input.source.codec.name(),
            layout: input.layout.name(),
            format: input.format.name,
            fields: input.fields.paths(),
            beside: input.beside.as_ref().map(BesideFacts::new),
            keys: told(&input.keys).map(|key| redacted(key)).collect(),
            size_bytes: input.source.size,
            modified_seconds: input.source.modified_seconds,
            rows_read: account.read,
            dropped: account.bad.iter().map(|(reason, &count)| (reason.name(), count)).collect(),
            bad_rows: account.places.iter().map(RejectedRow::new).collect(),
            blank_lines: account.blank,
            welded_lines: account.welded,
            duplicate_keys: account.duplicate_keys,
            without_id: account.without_id,
            unusable_domains: account.unusable_domains,
            orders: kinds(account.orders),
        }
    }
}
