//! Rows on their way from a file to columns, in the order that depends on the records alone.
//!
//! Each reading thread deals its rows into bins by the first bits of their id. Ids are hashes, so the bins are even,
//! and the order of all rows is the order of the bins and within each that of (id, digest): every bin is sorted alone
//! (`merge`), by whichever thread is free. A bin is freed as its rows reach their columns, so that the log is never
//! in memory twice (`chunked_vec`).

pub mod category;
mod chunked_vec;
mod locations;
mod merge;
mod sort;

pub(crate) use locations::{Laid, Records};
pub(crate) use merge::{Columns, columns};

use bytemuck::{Pod, Zeroable};
use chunked_vec::Growing;

use self::category::NONE;
use crate::intern::{Batch, Known, Recent};

/// How many bits of an id tell its bin.
const BIN_BITS: u32 = 5;

/// How many bits of a spot are the offset: 16 TiB a file, and a million files.
const OFFSET_BITS: u32 = 44;

/// Where a record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which file.
    pub input: usize,
    /// First byte in the unpacked file.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
}

/// File and offset in one word, which sorts as they do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(transparent)]
pub(crate) struct Spot(pub(crate) u64);

impl Spot {
    /// None beyond the millionth file, or beyond 16 TiB of one.
    pub(crate) fn new(input: usize, offset: u64) -> Option<Self> {
        let input = u64::try_from(input).ok().filter(|input| input >> (64 - OFFSET_BITS) == 0)?;
        (offset >> OFFSET_BITS == 0).then_some(Self(input << OFFSET_BITS | offset))
    }

    /// Which file.
    pub(crate) fn input(self) -> usize {
        usize::try_from(self.0 >> OFFSET_BITS).unwrap_or(usize::MAX)
    }

    pub(crate) fn place(self, length: u32) -> Place {
        Place { input: self.input(), offset: self.0 & ((1 << OFFSET_BITS) - 1), length }
    }
}

/// What nearly every record has beside its id; the rest is in [`Extras`] and in [`Records`].
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Held {
    reward: f64,
    group: u32,
    /// Its number among the [`Records`] of the thread.
    record: u32,
}

/// Columns that are empty in many logs.
#[derive(Debug, Default)]
struct Extras {
    /// The components of the reward after the first.
    components: Vec<Growing<f64>>,
    domain: Growing<u32>,
    partition: Growing<u32>,
    fingerprint: Growing<u128>,
}

#[derive(Debug, Default)]
struct Bin {
    ids: Growing<u128>,
    rows: Growing<Held>,
    extras: Extras,
}

/// The names of a log by column, which the threads that read it share.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    groups: Known,
    domains: Known,
    partitions: Known,
}

impl Vocabulary {
    /// No name yet.
    pub(crate) fn new() -> Self {
        Self { groups: Known::new(), domains: Known::new(), partitions: Known::new() }
    }
}

/// The rows that one thread reads.
#[derive(Debug)]
pub(crate) struct Rows<'v> {
    read: Read,
    unnamed: Unnamed,
    groups: &'v Known,
    domains: Recent<'v>,
    partitions: Recent<'v>,
}

/// The rows that one thread has read.
#[derive(Debug)]
pub(crate) struct Read {
    bins: Vec<Bin>,
    records: Records,
}

/// One record, as the scan found it.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    pub(crate) id: u128,
    pub(crate) digest: u64,
    pub(crate) spot: Spot,
    pub(crate) length: u32,
    /// The components of the reward; NaN where one is missing.
    pub(crate) rewards: &'a [f64],
    /// Names, in UTF-8.
    pub(crate) group: Option<&'a [u8]>,
    pub(crate) domain: Option<&'a [u8]>,
    pub(crate) partition: Option<&'a [u8]>,
    pub(crate) fingerprint: Option<u128>,
    /// Its bytes.
    pub(crate) record: &'a [u8],
}

/// Where the scan leaves rows.
pub(crate) trait Sink {
    fn push(&mut self, found: &Row<'_>);
}

impl<'v> Rows<'v> {
    /// None yet, with so many components of the reward.
    pub(crate) fn new(components: usize, vocabulary: &'v Vocabulary) -> Self {
        let extras = || Extras {
            components: vec![Growing::default(); components.saturating_sub(1)],
            ..Extras::default()
        };
        let bin = || Bin { extras: extras(), ..Bin::default() };
        Self {
            read: Read { bins: (0..1 << BIN_BITS).map(|_| bin()).collect(), records: Records::default() },
            unnamed: Unnamed::default(),
            groups: &vocabulary.groups,
            domains: Recent::new(&vocabulary.domains),
            partitions: Recent::new(&vocabulary.partitions),
        }
    }

    /// All of them, none of which waits for its group any more.
    pub(crate) fn done(mut self) -> Read {
        self.name();
        self.read
    }

    /// Gives their groups to the rows that wait for them.
    fn name(&mut self) {
        let Self { read, groups, unnamed, .. } = self;
        for (&(bin, row), code) in unnamed.rows.iter().zip(groups.codes(&unnamed.names)) {
            read.bins[bin].rows.get_mut(row).into_iter().for_each(|row| row.group = code);
        }
        unnamed.names.clear();
        unnamed.rows.clear();
    }
}

impl Sink for Rows<'_> {
    fn push(&mut self, found: &Row<'_>) {
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
        rows.push(Held { reward: *reward, group: NONE, record });
        if self.unnamed.rows.len() == Unnamed::MOST {
            self.name();
        }
    }
}

/// Rows that wait for the number of their group. In a log of many groups every look-up waits for memory: of many at once,
/// those in one part of the table wait together ([`Known::codes`]).
#[derive(Debug, Default)]
struct Unnamed {
    names: Batch,
    rows: Vec<(usize, usize)>,
}

impl Unnamed {
    const MOST: usize = 1 << 8;

    fn push(&mut self, group: &[u8], row: (usize, usize)) {
        self.names.push(group);
        self.rows.push(row);
    }
}

/// Adds a row's code after those of so many rows; a column begins with its first name, so that one without any is empty.
#[inline]
fn add(column: &mut Growing<u32>, before: usize, code: u32) {
    if code != NONE || !column.is_empty() {
        (column.len()..before).for_each(|_| column.push(NONE));
        column.push(code);
    }
}

/// The bin of an id.
fn bin(id: u128) -> usize {
    usize::try_from(id >> (u128::BITS - BIN_BITS)).unwrap_or(0)
}
