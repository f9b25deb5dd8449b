//! Bins of rows, filled by each reading thread.

use bytemuck::{Pod, Zeroable};

use super::chunked_vec::ChunkedVec;
use super::place::{Locations, PackedPlace};
use crate::intern::{CachedInterner, NONE, NameBatch, SharedInterner};

/// Result of scanning one record.
#[derive(Debug)]
pub struct ScannedRow<'a> {
    /// Hash of its id, or of its bytes where it has none.
    pub id: u128,
    /// Hash of its bytes.
    pub digest: u64,
    /// File and offset.
    pub spot: PackedPlace,
    /// Length in bytes.
    pub length: u32,
    /// Components of the reward; NaN if missing.
    pub rewards: &'a [f64],
    /// Names, in UTF-8.
    pub group: Option<&'a [u8]>,
    pub(crate) domain: Option<&'a [u8]>,
    pub(crate) partition: Option<&'a [u8]>,
    pub(crate) fingerprint: Option<u128>,
    /// Bytes of the record.
    pub record: &'a [u8],
}

/// Consumer of scanned rows.
pub trait RowSink {
    /// Take the next row.
    fn push(&mut self, row: &ScannedRow<'_>);
}

/// Number of bits of an id that select its bin.
pub(super) const BIN_BITS: u32 = 5;

/// Columns that nearly every record has besides its id; the rest is in [`OptionalColumns`] and in
/// [`Locations`].
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct BinRow {
    pub(super) reward: f64,
    pub(super) group: u32,
    /// Index among the [`Locations`] of the thread.
    pub(super) record: u32,
}

/// Columns that are empty in many logs.
#[derive(Debug, Default)]
pub(super) struct OptionalColumns {
    /// Components of the reward after the first.
    pub(super) components: Vec<ChunkedVec<f64>>,
    pub(super) domain: ChunkedVec<u32>,
    pub(super) partition: ChunkedVec<u32>,
    pub(super) fingerprint: ChunkedVec<u128>,
}

#[derive(Debug, Default)]
pub(super) struct Bin {
    pub(super) ids: ChunkedVec<u128>,
    pub(super) rows: ChunkedVec<BinRow>,
    pub(super) extras: OptionalColumns,
}

/// Names of a log by column, shared by the reading threads.
#[derive(Debug)]
pub(crate) struct NameTables {
    pub(super) groups: SharedInterner,
    pub(super) domains: SharedInterner,
    pub(super) partitions: SharedInterner,
}

impl NameTables {
    /// Create empty tables.
    pub(crate) fn new() -> Self {
        Self {
            groups: SharedInterner::new(),
            domains: SharedInterner::new(),
            partitions: SharedInterner::new(),
        }
    }
}

/// Rows of one reading thread, under construction.
#[derive(Debug)]
pub(crate) struct RowBins<'v> {
    read: ThreadRows,
    unnamed: PendingGroups,
    groups: &'v SharedInterner,
    domains: CachedInterner<'v>,
    partitions: CachedInterner<'v>,
}

/// Rows of one reading thread, complete.
#[derive(Debug)]
pub(crate) struct ThreadRows {
    pub(super) bins: Vec<Bin>,
    pub(super) records: Locations,
}

impl<'v> RowBins<'v> {
    /// Create empty bins for so many components of the reward.
    pub(crate) fn new(components: usize, vocabulary: &'v NameTables) -> Self {
        let extras = || OptionalColumns {
            components: vec![ChunkedVec::default(); components.saturating_sub(1)],
            ..OptionalColumns::default()
        };
        let bin = || Bin { extras: extras(), ..Bin::default() };
        Self {
            read: ThreadRows {
                bins: (0..1 << BIN_BITS).map(|_| bin()).collect(),
                records: Locations::default(),
            },
            unnamed: PendingGroups::default(),
            groups: &vocabulary.groups,
            domains: CachedInterner::new(&vocabulary.domains),
            partitions: CachedInterner::new(&vocabulary.partitions),
        }
    }

    /// Return all rows, with their groups numbered.
    pub(crate) fn finish(mut self) -> ThreadRows {
        self.number_groups();
        self.read
    }

    /// Number the groups of the pending rows.
    fn number_groups(&mut self) {
        let Self { read, groups, unnamed, .. } = self;
        for (&(bin, row), code) in unnamed.rows.iter().zip(groups.codes(&unnamed.names)) {
            read.bins[bin].rows.get_mut(row).into_iter().for_each(|row| row.group = code);
        }
        unnamed.names.clear();
        unnamed.rows.clear();
    }
}

impl RowSink for RowBins<'_> {
    fn push(&mut self, found: &ScannedRow<'_>) {
        let record = self.read.records.push(found.spot, found.digest, found.length);
        let bin = bin(found.id);
        let Bin { ids, rows, extras } = &mut self.read.bins[bin];
        if let Some(group) = found.group {
            self.unnamed.push(group, (bin, rows.len()));
        }
        let (reward, more) = found.rewards.split_first().unwrap_or((&f64::NAN, &[]));
        extras.components.iter_mut().zip(more).for_each(|(column, &reward)| column.push(reward));
        add(&mut extras.domain, rows.len(), self.domains.code(found.domain));
        add(&mut extras.partition, rows.len(), self.partitions.code(found.partition));
        found.fingerprint.into_iter().for_each(|fingerprint| extras.fingerprint.push(fingerprint));
        ids.push(found.id);
        rows.push(BinRow { reward: *reward, group: NONE, record });
        if self.unnamed.rows.len() == PendingGroups::MOST {
            self.number_groups();
        }
    }
}

/// Rows with a group that is not yet numbered. In a log of many groups every look-up misses the cache:
/// batched look-ups in one part of the table overlap their misses ([`SharedInterner::codes`]).
#[derive(Debug, Default)]
struct PendingGroups {
    names: NameBatch,
    rows: Vec<(usize, usize)>,
}

impl PendingGroups {
    const MOST: usize = 1 << 8;

    fn push(&mut self, group: &[u8], row: (usize, usize)) {
        self.names.push(group);
        self.rows.push(row);
    }
}

/// Add a row's code after `before` rows; a column starts at its first name, so a column without names is
/// empty.
#[inline]
fn add(column: &mut ChunkedVec<u32>, before: usize, code: u32) {
    if code != NONE || !column.is_empty() {
        (column.len()..before).for_each(|_| column.push(NONE));
        column.push(code);
    }
}

/// Return the bin of an id.
fn bin(id: u128) -> usize {
    usize::try_from(id >> (u128::BITS - BIN_BITS)).unwrap_or(0)
}

/// Rows of one thread in a bin.
pub(super) struct BinPart<'a> {
    pub(super) bin: Bin,
    pub(super) records: &'a Locations,
    /// Index of the first of them among the rows of all threads.
    pub(super) first: u32,
}
