//! A whole log as columns: one row per record, in an order that depends only on the records.
//!
//! Rows are sorted by (id, hash of the record's bytes). Everything after reading folds, breaks ties and
//! numbers in that order, and so does not depend on how the records were distributed over files. Records with
//! one id are distinguished by their ordinal in it; records equal in id and bytes are interchangeable.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use karl_core::reward::{composite, composite_shared};
use karl_core::stream::StreamSummary;
use karl_core::{Key, Keys};

use crate::columns::category::{Category, LISTED};
use crate::columns::{LogColumns, Place, RowLocations};
use crate::detect::Input;
use crate::error::Result;
use crate::extract::Compare;
use crate::format::Fields;
use crate::input::pipe::PipeFacts;
use crate::input::prefetch::Prefetch;
use crate::rejects::{Bad, FileTally, OrderKinds, PLACES_KEPT, RejectReason};

/// Records of all files.
#[derive(Clone, Debug)]
pub struct Log {
    /// Files, in the order given.
    pub inputs: Vec<Input>,
    /// Counts of each file.
    pub accounts: Vec<Account>,
    /// Files skipped because they hold no records, and why.
    pub skipped: Vec<(PathBuf, String)>,
    /// Files skipped because their format is not supported, and why; they may hold records.
    pub refused: Vec<(PathBuf, String)>,
    records: RowLocations,
    /// Keys of each record's random numbers.
    pub keys: Keys,
    /// One column per component of the reward; NaN if missing.
    pub components: Vec<Vec<f64>>,
    /// Reward, if it is not the weighted sum of the components; NaN if missing. `[B]`
    pub reward: Option<Vec<f64>>,
    /// True for each component that is one of an outcome: the weight of a missing one goes to the others.
    pub shared: Vec<bool>,
    /// Task or prompt.
    pub group: Category,
    /// Category for reports.
    pub domain: Category,
    /// Category over which log Z is computed.
    pub partition: Category,
    /// Order of the records, if a field of it was named: a number, or seconds since 1970 of a time. `[B]`
    pub order: Option<Vec<f64>>,
    /// Part of each record that was hashed.
    pub compare: Option<Compare>,
    /// Hash, if requested.
    pub fingerprints: Option<Vec<u128>>,
    /// Summary of the stream, if these records were drawn from one.
    pub streamed: Option<Arc<Streamed>>,
    /// Function that brings records to this machine before they are read again; `None` if the files are here.
    pub prefetch: Option<Prefetch>,
}

impl Log {
    /// Create the log of files, of the tallies of each of their ranges, in order, and of the rows.
    ///
    /// # Errors
    /// [`Error::Draw`](crate::Error::Draw) for more rows than a `u32` can number.
    pub(crate) fn new(
        inputs: Vec<Input>,
        tallies: impl Iterator<Item = (usize, FileTally)>,
        columns: LogColumns,
        compare: Option<Compare>,
    ) -> Result<Self> {
        let (rows, wanted) = (columns.ids.len(), u32::MAX as usize);
        if rows > wanted {
            // A `u32` numbers the rows.
            return Err(karl_core::Error::Length { what: "log", got: rows, wanted }.into());
        }
        let mut accounts = vec![Account::default(); inputs.len()];
        let mut lines = vec![0; inputs.len()];
        for (input, tally) in tallies {
            accounts[input].add(&tally, lines[input]);
            lines[input] += tally.lines;
        }
        let fields = inputs.first().map(|input| input.fields.outcomes());
        Ok(Self {
            shared: fields.unwrap_or_default().iter().map(Option::is_some).collect(),
            inputs,
            accounts,
            skipped: Vec::new(),
            refused: Vec::new(),
            records: columns.records,
            keys: Keys::sorted(columns.ids),
            components: columns.components,
            reward: None,
            group: columns.group,
            domain: columns.domain,
            partition: columns.partition,
            order: None,
            compare,
            fingerprints: compare.map(|_| columns.fingerprints),
            streamed: None,
            prefetch: None,
        })
    }

    /// Return the weighted sum of the components; no rewards for no components.
    ///
    /// # Errors
    /// As [`composite_shared`].
    pub fn composite(&self, weights: &[f64]) -> karl_core::Result<Vec<f64>> {
        let components: Vec<&[f64]> = self.components.iter().map(Vec::as_slice).collect();
        if components.is_empty() {
            return Ok(Vec::new());
        }
        if self.shared.len() == components.len() {
            composite_shared(&components, weights, &self.shared)
        } else {
            composite(&components, weights)
        }
    }

    /// Return the random key of a record with the hash of its bytes as ordinal in place of its rank: a
    /// sampler over a stream knows only the hash.
    #[must_use]
    pub fn key_by_digest(&self, row: u32) -> Key {
        let row = row as usize;
        Key { ordinal: self.records.digest(row), ..self.keys.get(row) }
    }

    /// Return the upper half of XXH3-128 of each record's bytes, row by row.
    #[must_use]
    pub fn digests(&self) -> Vec<u64> {
        (0..self.len()).map(|row| self.records.digest(row)).collect()
    }

    /// Return the place of a record, and the upper half of XXH3-128 of its bytes; `None` for a row out of
    /// range.
    pub(crate) fn record(&self, row: u32) -> Option<(Place, u64)> {
        self.records.place_and_digest(row as usize)
    }

    /// Return the place of a record; `None` for a row out of range.
    #[must_use]
    pub fn place(&self, row: u32) -> Option<Place> {
        self.records.place(row as usize)
    }

    /// Iterate over the place of each record, row by row.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        (0..self.len()).filter_map(|row| self.records.place(row))
    }

    /// Return consecutive rows from `first` on with at most so many bytes in total; one row if the first has
    /// more.
    #[must_use]
    pub fn window(&self, first: u32, bytes: u64) -> Vec<u32> {
        let mut sum = 0;
        let fits = |&row: &u32| {
            sum += self.place(row).map_or(0, |place| u64::from(place.length));
            row == first || sum <= bytes
        };
        (first..u32::try_from(self.len()).unwrap_or(u32::MAX)).take_while(fits).collect()
    }

    /// Return the fields of a row's record; the row has to be in range.
    pub(crate) fn fields(&self, row: u32) -> &Fields {
        &self.inputs[self.place(row).map_or(0, |place| place.input)].fields
    }

    /// Return the number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Count the records that share their id with an earlier one, and, if trajectories were hashed, those
    /// that share theirs with an earlier one of their group.
    #[must_use]
    pub fn duplicates(&self) -> (u64, Option<u64>) {
        let ids = self.keys.repeated() as u64;
        let trajectories = self.fingerprints.as_ref().map(|fingerprints| {
            let codes = self.group.codes();
            let distinct: HashSet<_> = codes.iter().zip(fingerprints).collect();
            (fingerprints.len() - distinct.len()) as u64
        });
        (ids, trajectories)
    }

    /// Return the lengths of records in bytes: smallest, median, ninetieth percentile, largest (nearest
    /// rank).
    #[must_use]
    pub fn lengths(&self) -> Option<[u64; 4]> {
        spread(self.records.lengths().map(u64::from).collect())
    }

    /// Return the bytes of each record, in the order of the log.
    pub fn record_lengths(&self) -> impl Iterator<Item = u32> {
        self.records.lengths()
    }

    /// Return the sizes of groups in rows, in the same four numbers.
    #[must_use]
    pub fn group_sizes(&self) -> Option<[u64; 4]> {
        spread(self.group.count(None).0)
    }

    /// Return whether there are no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Replace the reward by these components, and by a reward beside them.
    ///
    /// # Errors
    /// [`Error::Draw`](crate::Error::Draw) for a column of another length.
    pub fn with_components(mut self, components: Vec<Vec<f64>>, reward: Option<Vec<f64>>) -> Result<Self> {
        components.iter().chain(&reward).try_for_each(|column| self.check("reward", column.len()))?;
        self.shared.clear();
        self.components = components;
        self.reward = reward;
        Ok(self)
    }

    /// Replace the groups.
    ///
    /// # Errors
    /// As [`Log::with_components`].
    pub fn with_group(mut self, group: Category) -> Result<Self> {
        self.check("group", group.codes().len())?;
        self.group = group;
        Ok(self)
    }

    /// Replace the domains.
    ///
    /// # Errors
    /// As [`Log::with_components`].
    pub fn with_domain(mut self, domain: Category) -> Result<Self> {
        self.check("domain", domain.codes().len())?;
        self.domain = domain;
        Ok(self)
    }

    fn check(&self, what: &'static str, got: usize) -> Result<()> {
        let wanted = self.len();
        if got == wanted { Ok(()) } else { Err(karl_core::Error::Length { what, got, wanted }.into()) }
    }
}

/// Return smallest, median, ninetieth percentile and largest.
fn spread(mut values: Vec<u64>) -> Option<[u64; 4]> {
    values.sort_unstable();
    let last = values.len().checked_sub(1)?;
    Some([0, last / 2, last * 9 / 10, last].map(|at| values[at]))
}

/// Counts by name, of a limited number of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameCounts {
    /// Counts by name.
    pub named: BTreeMap<String, u64>,
    /// Count of all further names.
    pub other: u64,
    /// Count without a name.
    pub without: u64,
    bytes: usize,
}

impl NameCounts {
    pub(crate) fn add(&mut self, name: Option<&str>) {
        let Some(name) = name else { return self.without += 1 };
        let (names, bytes) = LISTED;
        if let Some(count) = self.named.get_mut(name) {
            *count += 1;
        } else if self.named.len() < names && self.bytes + name.len() <= bytes {
            self.bytes += name.len();
            self.named.insert(name.to_owned(), 1);
        } else {
            self.other += 1;
        }
    }
}

/// Counts of one file.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Number of rows: records and rejected rows.
    pub read: u64,
    /// Rejected rows, by reason.
    pub bad: BTreeMap<RejectReason, u64>,
    /// Places of the first of them.
    pub places: Vec<Bad>,
    /// Blank lines: not rows.
    pub blank: u64,
    /// Lines with several concatenated records; all were read.
    pub welded: u64,
    /// Records with a duplicate of a wanted key; the last one counts.
    pub duplicate_keys: u64,
    /// Records without an id, for which the hash of their bytes is used.
    pub without_id: u64,
    /// Records with a domain that is a list, an object or invalid text, if the caller did not name the
    /// domain: they have none.
    pub unusable_domains: u64,
    /// First place of each kind of order.
    pub orders: OrderKinds,
}

impl Account {
    /// Add the counts of the next range of the file.
    pub fn add(&mut self, tally: &FileTally, lines_before: u64) {
        self.read += tally.rows + tally.bad.values().sum::<u64>();
        for (&reason, &count) in &tally.bad {
            *self.bad.entry(reason).or_default() += count;
        }
        let room = PLACES_KEPT - self.places.len();
        self.places.extend(
            tally.places.iter().take(room).map(|bad| Bad { line: bad.line + lines_before, ..bad.clone() }),
        );
        self.blank += tally.blank;
        self.welded += tally.welded;
        self.duplicate_keys += tally.duplicate_keys;
        self.without_id += tally.without_id;
        self.unusable_domains += tally.unusable_domains;
        self.orders.add(tally.orders, lines_before);
    }
}

/// Summary of a stream beyond the records in its log.
#[derive(Clone, Debug, PartialEq)]
pub struct Streamed {
    /// Facts about the bytes of the stream.
    pub origin: PipeFacts,
    /// Rewards, and the target over them.
    pub facts: StreamSummary,
    /// Records by domain.
    pub domains: NameCounts,
    /// Records without a group.
    pub ungrouped: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_those_that_are_held_are_counted_together() {
        let mut counts = NameCounts::default();
        let (names, bytes) = LISTED;
        for at in 0..names + 7 {
            counts.add(Some(&at.to_string()));
            counts.add(Some("3"));
            counts.add(None);
        }
        assert_eq!((counts.named.len(), counts.other, counts.without), (names, 7, names as u64 + 7));
        assert_eq!(counts.named["3"], names as u64 + 8);
        let mut counts = NameCounts::default();
        counts.add(Some(&"x".repeat(bytes + 1)));
        assert_eq!((counts.named.len(), counts.other), (0, 1));
    }
}
