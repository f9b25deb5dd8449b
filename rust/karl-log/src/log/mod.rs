//! A whole log as columns: one row a record, in an order that depends on the records alone.
//!
//! Rows are sorted by (id, hash of the record's bytes). Everything after reading folds, breaks ties and numbers in
//! that order, and so does not depend on how the records lay in files. Records with one id are told apart by their
//! ordinal in it; records equal in id and bytes are interchangeable.

mod account;
mod name_counts;
mod replace;
mod streamed;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use karl_core::{Key, Keys};

pub use account::Account;
pub use name_counts::NameCounts;
pub use streamed::Streamed;

use crate::columns::category::Category;
use crate::columns::{Columns, Place, RowLocations};
use crate::detect::Input;
use crate::error::Result;
use crate::extract::Compare;
use crate::format::Fields;
use crate::rejects::Tally;

/// All records of all files.
#[derive(Clone, Debug)]
pub struct Log {
    /// The files, in the order given.
    pub inputs: Vec<Input>,
    /// What was found in each.
    pub accounts: Vec<Account>,
    /// Files that were passed over because they hold no records, and why.
    pub skipped: Vec<(PathBuf, String)>,
    /// Files that were passed over because nothing here reads them, and why; they may hold records.
    pub refused: Vec<(PathBuf, String)>,
    records: RowLocations,
    /// What each record's randomness is keyed by.
    pub keys: Keys,
    /// One column a component of the reward; NaN where it is missing.
    pub components: Vec<Vec<f64>>,
    /// The reward, where it is not the weighted sum of the components; NaN where it is missing. `[B]`
    pub reward: Option<Vec<f64>>,
    /// The task or prompt.
    pub group: Category,
    /// The category for reports.
    pub domain: Category,
    /// The category that log Z is taken over.
    pub partition: Category,
    /// What of each record was hashed.
    pub compare: Option<Compare>,
    /// That hash, if it was asked for.
    pub fingerprints: Option<Vec<u128>>,
    /// What went by, where these are the records that were held of a stream.
    pub streamed: Option<Arc<Streamed>>,
}

impl Log {
    /// A log of files, of what was found beside rows in each of their ranges, in order, and of the rows.
    ///
    /// # Errors
    /// [`Error::Draw`](crate::Error::Draw) for more rows than a `u32` can number.
    pub(crate) fn new(
        inputs: Vec<Input>,
        tallies: impl Iterator<Item = (usize, Tally)>,
        columns: Columns,
        compare: Option<Compare>,
    ) -> Result<Self> {
        check_rows(columns.ids.len())?;
        let mut accounts = vec![Account::default(); inputs.len()];
        let mut lines = vec![0; inputs.len()];
        for (input, tally) in tallies {
            accounts[input].add(&tally, lines[input]);
            lines[input] += tally.lines;
        }
        Ok(Self {
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
            compare,
            fingerprints: compare.map(|_| columns.fingerprints),
            streamed: None,
        })
    }

    /// What a record is to the random numbers, the ordinal being the hash of its bytes and not its rank: what a sampler
    /// that goes over a stream can know of it.
    #[must_use]
    pub fn key_by_digest(&self, row: u32) -> Key {
        let row = row as usize;
        Key { ordinal: self.records.digest(row), ..self.keys.get(row) }
    }

    /// The upper half of XXH3-128 of each record's bytes, row by row.
    #[must_use]
    pub fn digests(&self) -> Vec<u64> {
        (0..self.len()).map(|row| self.records.digest(row)).collect()
    }

    /// Where a record lies, and the upper half of XXH3-128 of its bytes; none for a row that the log does not have.
    pub(crate) fn record(&self, row: u32) -> Option<(Place, u64)> {
        self.records.found(row as usize)
    }

    /// Where a record lies; none for a row that the log does not have.
    #[must_use]
    pub fn place(&self, row: u32) -> Option<Place> {
        self.records.place(row as usize)
    }

    /// Where each record lies, row by row.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        (0..self.len()).filter_map(|row| self.records.place(row))
    }

    /// Rows from one on, in order, whose records have so many bytes together; one where the first has more.
    #[must_use]
    pub fn window(&self, first: u32, bytes: u64) -> Vec<u32> {
        let mut sum = 0;
        let fits = |&row: &u32| {
            sum += self.place(row).map_or(0, |place| u64::from(place.length));
            row == first || sum <= bytes
        };
        (first..u32::try_from(self.len()).unwrap_or(u32::MAX)).take_while(fits).collect()
    }

    /// Where a row's record keeps things; the row has to be one of the log.
    pub(crate) fn fields(&self, row: u32) -> &Fields {
        &self.inputs[self.place(row).map_or(0, |place| place.input)].fields
    }

    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// How many records share their id with an earlier one, and, where trajectories were hashed, how many share
    /// theirs with an earlier one of their group.
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

    /// The lengths of records in bytes: smallest, median, ninetieth percentile, largest (nearest rank).
    #[must_use]
    pub fn lengths(&self) -> Option<[u64; 4]> {
        spread(self.records.lengths().map(u64::from).collect())
    }

    /// The sizes of groups in rows, in the same four numbers.
    #[must_use]
    pub fn group_sizes(&self) -> Option<[u64; 4]> {
        spread(self.group.count(None).0)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// Rows are numbered by `u32` everywhere.
fn check_rows(rows: usize) -> Result<()> {
    let wanted = u32::MAX as usize;
    let refused = karl_core::Error::Length { what: "log", got: rows, wanted };
    if rows > wanted { Err(refused.into()) } else { Ok(()) }
}

/// Smallest, median, ninetieth percentile and largest.
fn spread(mut values: Vec<u64>) -> Option<[u64; 4]> {
    values.sort_unstable();
    let last = values.len().checked_sub(1)?;
    Some([0, last / 2, last * 9 / 10, last].map(|at| values[at]))
}
