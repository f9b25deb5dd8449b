//! What is asked of few rows: where a record lies, and the hash of its bytes.
//!
//! It stays where it was put down when the record was read, whatever order rows come in later: to move it would cost more
//! than all that is ever asked of it, for every move of millions of rows waits for memory.

use bytemuck::{Pod, Zeroable};

use super::chunked_vec::ChunkedVec;
use super::{PackedPlace, Place};

/// Where one record lies, and what its bytes hash to. Side by side, for who asks for one of them asks for all, and waits
/// for memory once; packed, for there are millions.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, packed(4))]
struct Location {
    spot: PackedPlace,
    digest: u64,
    length: u32,
}

/// The records that one thread has read, in the order in which it did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Locations(ChunkedVec<Location>);

impl Locations {
    /// Adds a record; its number.
    pub(crate) fn push(&mut self, spot: PackedPlace, digest: u64, length: u32) -> u32 {
        let number = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0.push(Location { spot, digest, length });
        number
    }

    /// What tells records of one id apart.
    pub(crate) fn rank(&self, number: u32) -> Option<(u64, PackedPlace)> {
        self.0.get(number as usize).map(|record| (record.digest, record.spot))
    }
}

/// The records of all rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowLocations {
    parts: Vec<Locations>,
    /// The number of each part's first record.
    starts: Vec<u32>,
    /// The record of each row.
    order: Vec<u32>,
}

impl RowLocations {
    /// The records of several threads one after the other, in an order that is still to be told.
    pub(crate) fn new(parts: Vec<Locations>) -> Self {
        let starts = starts(parts.iter().map(|part| part.0.len()));
        Self { parts, starts, order: Vec::new() }
    }

    /// What each thread has read, with the number of its first record.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&Locations, u32)> {
        self.parts.iter().zip(self.starts.iter().copied())
    }

    /// Says which record each row has.
    pub(crate) fn ordered(self, order: Vec<u32>) -> Self {
        Self { order, ..self }
    }

    /// A row's record; none for a row that there is not.
    fn record(&self, row: usize) -> Option<Location> {
        let number = *self.order.get(row)?;
        let part = self.starts.partition_point(|&start| start <= number).checked_sub(1)?;
        self.parts[part].0.get((number - self.starts[part]) as usize)
    }

    /// Where a row's record lies; none for a row that there is not.
    pub(crate) fn place(&self, row: usize) -> Option<Place> {
        self.record(row).map(|record| record.spot.place(record.length))
    }

    /// Where a row's record lies, and its hash; none for a row that there is not.
    pub(crate) fn found(&self, row: usize) -> Option<(Place, u64)> {
        self.record(row).map(|record| (record.spot.place(record.length), record.digest))
    }

    /// The hash of a row's record; zero for a row that there is not.
    pub(crate) fn digest(&self, row: usize) -> u64 {
        self.record(row).map_or(0, |record| record.digest)
    }

    /// The length of every record, in no order.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = u32> {
        self.parts.iter().flat_map(|part| part.0.iter().map(|record| record.length))
    }
}

/// Where each of some stretches begins that stand one after the other.
pub(super) fn starts(lengths: impl Iterator<Item = usize>) -> Vec<u32> {
    let start = |next: &mut u32, length: usize| {
        let after = next.saturating_add(u32::try_from(length).unwrap_or(u32::MAX));
        Some(std::mem::replace(next, after))
    };
    lengths.scan(0, start).collect()
}
