//! Rows on their way from a file to columns, in the order that depends on the records alone.
//!
//! Each reading thread deals its rows into bins by the first byte of their id. Ids are hashes, so the bins are
//! even, and the order of all rows is the order of the bins and within each the order of (id, digest): every bin is
//! sorted alone, in cache, by whichever thread is free. A bin is freed as its rows reach their columns, so that
//! the log is never in memory twice.

mod sorted;

pub(crate) use sorted::{Columns, columns};

use crate::category::{Batch, Known, NONE};

const BINS: usize = 256;

/// How many bits of a place are the offset: 16 TiB a file, and a million files.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot(u64);

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

/// What nearly every record has; the rest is in [`Extras`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) id: u128,
    pub(crate) digest: u64,
    pub(crate) spot: Spot,
    pub(crate) reward: f64,
    pub(crate) length: u32,
    pub(crate) group: u32,
}

/// Columns that are empty in most logs.
#[derive(Debug, Default)]
struct Extras {
    /// The components of the reward after the first.
    components: Vec<Vec<f64>>,
    domain: Vec<u32>,
    partition: Vec<u32>,
    fingerprint: Vec<u128>,
}

#[derive(Debug, Default)]
struct Bin {
    rows: Vec<Row>,
    extras: Extras,
}

/// Which columns a log has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Width {
    /// Components of the reward.
    pub(crate) components: usize,
    pub(crate) partition: bool,
    pub(crate) fingerprint: bool,
}

/// The rows that one thread has read.
#[derive(Debug)]
pub(crate) struct Rows {
    bins: Vec<Bin>,
    groups: Known,
    unnamed: Unnamed,
    domains: Known,
    partitions: Known,
    width: Width,
}

/// One record, as the scan found it.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    pub(crate) id: u128,
    pub(crate) digest: u64,
    pub(crate) spot: Spot,
    pub(crate) length: u32,
    /// The components of the reward; NaN where one is missing.
    pub(crate) rewards: &'a [f64],
    pub(crate) group: Option<&'a str>,
    pub(crate) domain: Option<&'a str>,
    pub(crate) partition: Option<&'a str>,
    pub(crate) fingerprint: Option<u128>,
}

impl Rows {
    /// None yet. Threads that read one log have to be given one seed.
    pub(crate) fn new(width: Width, seed: u64) -> Self {
        let extras = || Extras { components: vec![Vec::new(); width.components - 1], ..Extras::default() };
        let bins = (0..BINS).map(|_| Bin { rows: Vec::new(), extras: extras() }).collect();
        let known = || Known::new(seed);
        Self { bins, groups: known(), unnamed: Unnamed::default(), domains: known(), partitions: known(), width }
    }

    pub(crate) fn push(&mut self, found: &Found<'_>) {
        let Found { id, digest, spot, length, .. } = *found;
        let bin = bin(id);
        let Bin { rows, extras } = &mut self.bins[bin];
        if let Some(group) = found.group {
            self.unnamed.push(group, (bin, rows.len()));
        }
        rows.push(Row { id, digest, spot, reward: found.rewards[0], length, group: NONE });
        for (column, &reward) in extras.components.iter_mut().zip(&found.rewards[1..]) {
            column.push(reward);
        }
        extras.domain.push(self.domains.code(found.domain));
        if self.width.partition {
            extras.partition.push(self.partitions.code(found.partition));
        }
        extras.fingerprint.extend(found.fingerprint);
        if self.unnamed.rows.len() == Unnamed::MOST {
            self.name();
        }
    }

    /// Gives their groups to the rows that wait for them; to be called once more after the last row.
    pub(crate) fn name(&mut self) {
        let Self { bins, groups, unnamed, .. } = self;
        for (at, &(bin, row)) in unnamed.rows.iter().enumerate() {
            bins[bin].rows[row].group = groups.code(Some(unnamed.names.get(at)));
        }
        unnamed.names.clear();
        unnamed.rows.clear();
    }
}

/// Rows that wait for the number of their group. In a log of many groups every look-up waits for memory: made one after
/// the other, without a record to scan between them, they wait together.
#[derive(Debug, Default)]
struct Unnamed {
    names: Batch,
    rows: Vec<(usize, usize)>,
}

impl Unnamed {
    const MOST: usize = 1 << 8;

    fn push(&mut self, group: &str, row: (usize, usize)) {
        self.names.push(group);
        self.rows.push(row);
    }
}

/// The first byte of an id.
fn bin(id: u128) -> usize {
    usize::from(id.to_be_bytes()[0])
}
