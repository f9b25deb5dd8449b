//! Rows in bins, as each thread reads them.

use bytemuck::{Pod, Zeroable};

use super::chunked_vec::Growing;
use super::locations::Records;
use super::row::{Row, Sink};
use crate::intern::{Batch, Known, NONE, Recent};

/// How many bits of an id tell its bin.
pub(super) const BIN_BITS: u32 = 5;

/// What nearly every record has beside its id; the rest is in [`Extras`] and in [`Records`].
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Held {
    pub(super) reward: f64,
    pub(super) group: u32,
    /// Its number among the [`Records`] of the thread.
    pub(super) record: u32,
}

/// Columns that are empty in many logs.
#[derive(Debug, Default)]
pub(super) struct Extras {
    /// The components of the reward after the first.
    pub(super) components: Vec<Growing<f64>>,
    pub(super) domain: Growing<u32>,
    pub(super) partition: Growing<u32>,
    pub(super) fingerprint: Growing<u128>,
}

#[derive(Debug, Default)]
pub(super) struct Bin {
    pub(super) ids: Growing<u128>,
    pub(super) rows: Growing<Held>,
    pub(super) extras: Extras,
}

/// The names of a log by column, which the threads that read it share.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    pub(super) groups: Known,
    pub(super) domains: Known,
    pub(super) partitions: Known,
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
    pub(super) bins: Vec<Bin>,
    pub(super) records: Records,
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

/// What one thread has left in a bin.
pub(super) struct Part<'a> {
    pub(super) bin: Bin,
    pub(super) records: &'a Records,
    /// The number of the first of them among those of all threads.
    pub(super) first: u32,
}
