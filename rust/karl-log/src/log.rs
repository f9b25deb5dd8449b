//! A whole log as columns: one row a record, in an order that depends on the records alone.
//!
//! Rows are sorted by (id, hash of the record's bytes). Everything after reading folds, breaks ties and numbers in
//! that order, and so does not depend on how the records lay in files. Records with one id are told apart by their
//! ordinal in it; records equal in id and bytes are interchangeable.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use karl_core::rng::Key;

use crate::category::Category;
use crate::error::Result;
use crate::layout::Input;
use crate::read::Settings;
use crate::scan::{Bad, Chunk, PLACES_KEPT, Reason};

/// What was found in one file.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Records and whatever stood in place of one.
    pub read: u64,
    /// Rows that are no records, by reason.
    pub bad: BTreeMap<Reason, u64>,
    /// The first of them.
    pub places: Vec<Bad>,
    /// Blank lines: no rows.
    pub blank: u64,
    /// Lines on which several records had been welded together; all were read.
    pub welded: u64,
    /// Records in which a wanted key stood twice; the last one counts.
    pub duplicate_keys: u64,
    /// Records without an id, which have the hash of their bytes in its place.
    pub without_id: u64,
}

/// Where a record lies.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Which file.
    pub input: u32,
    /// First byte in the unpacked file.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
}

/// All records of all files.
#[derive(Debug)]
pub struct Log {
    /// The files, in the order given.
    pub inputs: Vec<Input>,
    /// What was found in each.
    pub accounts: Vec<Account>,
    /// Files that were passed over because they hold no records, and why.
    pub skipped: Vec<(PathBuf, String)>,
    /// Where each record lies.
    pub places: Vec<Place>,
    /// What each record's randomness is keyed by.
    pub keys: Vec<Key>,
    /// XXH3-128 of each record's bytes.
    pub digests: Vec<u128>,
    /// One column a component of the reward; NaN where it is missing.
    pub components: Vec<Vec<f64>>,
    /// The task or prompt.
    pub group: Category,
    /// The category for reports.
    pub domain: Category,
    /// The category that log Z is taken over.
    pub partition: Category,
    /// A hash of each trajectory, if it was asked for.
    pub fingerprints: Option<Vec<u128>>,
}

impl Log {
    /// Joins chunks, given with the file each is of, in the order of files and ranges.
    ///
    /// # Errors
    /// [`Error::Draw`](crate::Error::Draw) for more rows than a `u32` can number.
    pub(crate) fn join(inputs: Vec<Input>, chunks: Vec<(usize, Chunk)>, settings: &Settings) -> Result<Self> {
        let width = settings.wishes.overrides.reward.as_ref().map_or(1, Vec::len);
        let mut all = Chunk { components: vec![Vec::new(); width], ..Chunk::default() };
        let mut sources = Vec::new();
        let mut accounts = vec![Account::default(); inputs.len()];
        let mut lines = vec![0; inputs.len()];
        for (input, chunk) in chunks {
            accounts[input].add(&chunk, lines[input]);
            lines[input] += chunk.lines;
            sources.resize(sources.len() + chunk.id.len(), u32::try_from(input).unwrap_or(u32::MAX));
            all.append(chunk);
        }
        check_rows(all.id.len())?;
        Ok(Self::sorted(inputs, accounts, &all, &sources, settings.fingerprint))
    }

    fn sorted(
        inputs: Vec<Input>,
        accounts: Vec<Account>,
        all: &Chunk,
        sources: &[u32],
        fingerprint: bool,
    ) -> Self {
        let mut order: Vec<u32> = (0..u32::try_from(all.id.len()).unwrap_or(u32::MAX)).collect();
        order.sort_unstable_by_key(|&row| (all.id[row as usize], all.digest[row as usize]));
        let rows = || order.iter().map(|&row| row as usize);
        let place =
            |row: usize| Place { input: sources[row], offset: all.offset[row], length: all.length[row] };
        Self {
            inputs,
            accounts,
            skipped: Vec::new(),
            places: rows().map(place).collect(),
            keys: keys(rows().map(|row| all.id[row])),
            digests: rows().map(|row| all.digest[row]).collect(),
            components: all.components.iter().map(|column| rows().map(|row| column[row]).collect()).collect(),
            group: all.group.reorder(&order),
            domain: all.domain.reorder(&order),
            partition: all.partition.reorder(&order),
            fingerprints: fingerprint.then(|| rows().map(|row| all.fingerprint[row]).collect()),
        }
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
        let ids = self.keys.iter().filter(|key| key.ordinal > 0).count() as u64;
        let trajectories = self.fingerprints.as_ref().map(|fingerprints| {
            let distinct: HashSet<_> = self.group.codes().iter().zip(fingerprints).collect();
            (fingerprints.len() - distinct.len()) as u64
        });
        (ids, trajectories)
    }

    /// The lengths of records in bytes: smallest, median, ninetieth percentile, largest (nearest rank).
    #[must_use]
    pub fn lengths(&self) -> Option<[u64; 4]> {
        spread(self.places.iter().map(|place| u64::from(place.length)).collect())
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

/// Ids in order to keys: the ordinal counts the records of one id.
fn keys(ids: impl Iterator<Item = u128>) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    for id in ids {
        let ordinal = keys.last().filter(|last| last.id == id).map_or(0, |last| last.ordinal + 1);
        keys.push(Key { id, ordinal });
    }
    keys
}

impl Account {
    fn add(&mut self, chunk: &Chunk, lines_before: u64) {
        self.read += chunk.id.len() as u64 + chunk.bad.values().sum::<u64>();
        for (&reason, count) in &chunk.bad {
            *self.bad.entry(reason).or_default() += count;
        }
        let room = PLACES_KEPT - self.places.len();
        self.places
            .extend(chunk.places.iter().take(room).map(|bad| Bad { line: bad.line + lines_before, ..*bad }));
        self.blank += chunk.blank;
        self.welded += chunk.welded;
        self.duplicate_keys += chunk.duplicate_keys;
        self.without_id += chunk.without_id;
    }
}

impl Chunk {
    fn append(&mut self, other: Self) {
        self.offset.extend(other.offset);
        self.length.extend(other.length);
        self.id.extend(other.id);
        self.digest.extend(other.digest);
        self.components.iter_mut().zip(other.components).for_each(|(all, more)| all.extend(more));
        self.group.append(&other.group);
        self.domain.append(&other.domain);
        self.partition.append(&other.partition);
        self.fingerprint.extend(other.fingerprint);
    }
}

/// Smallest, median, ninetieth percentile and largest.
fn spread(mut values: Vec<u64>) -> Option<[u64; 4]> {
    values.sort_unstable();
    let last = values.len().checked_sub(1)?;
    Some([0, last / 2, last * 9 / 10, last].map(|at| values[at]))
}
