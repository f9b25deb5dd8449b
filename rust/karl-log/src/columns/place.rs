//! Place of a record in its file, and of the records of all rows.

use bytemuck::{Pod, Zeroable};

use super::chunked_vec::ChunkedVec;

/// Number of bits for the offset: 16 TiB per file, and a million files.
const OFFSET_BITS: u32 = 44;

/// Place of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index of the file.
    pub input: usize,
    /// Offset of the first byte in the unpacked file.
    pub offset: u64,
    /// Length in bytes.
    pub length: u32,
}

/// File and offset in one word, which sorts as they do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(transparent)]
pub struct PackedPlace(pub(crate) u64);

impl PackedPlace {
    /// Pack a file and an offset; `None` after the millionth file, or after 16 TiB of one.
    #[must_use]
    pub fn new(input: usize, offset: u64) -> Option<Self> {
        let input = u64::try_from(input).ok().filter(|input| input >> (64 - OFFSET_BITS) == 0)?;
        (offset >> OFFSET_BITS == 0).then_some(Self(input << OFFSET_BITS | offset))
    }

    /// Return the index of the file.
    #[must_use]
    pub fn input(self) -> usize {
        usize::try_from(self.0 >> OFFSET_BITS).unwrap_or(usize::MAX)
    }

    /// Return the place of a record of this length.
    #[must_use]
    pub fn place(self, length: u32) -> Place {
        Place { input: self.input(), offset: self.0 & ((1 << OFFSET_BITS) - 1), length }
    }
}

/// Location of one record and hash of its bytes. Side by side, because they are read together and so miss the
/// cache once; packed, because there are millions.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, packed(4))]
struct Location {
    spot: PackedPlace,
    digest: u64,
    length: u32,
}

/// Records of one thread, in reading order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Locations(ChunkedVec<Location>);

impl Locations {
    /// Add a record; return its number.
    pub(crate) fn push(&mut self, spot: PackedPlace, digest: u64, length: u32) -> u32 {
        let number = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0.push(Location { spot, digest, length });
        number
    }

    /// Return the sort key among records of one id.
    pub(crate) fn rank(&self, number: u32) -> Option<(u64, PackedPlace)> {
        self.0.get(number as usize).map(|record| (record.digest, record.spot))
    }
}

/// Records of all rows: few of them are needed.
///
/// A location stays where it was stored when the record was read, in any later order of rows: to move it would cost
/// more than all queries, because every move of millions of rows misses the cache.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowLocations {
    parts: Vec<Locations>,
    /// Number of each part's first record.
    starts: Vec<u32>,
    /// Record of each row.
    order: Vec<u32>,
}

impl RowLocations {
    /// Concatenate the records of several threads; the order of rows is set later.
    pub(crate) fn new(parts: Vec<Locations>) -> Self {
        let starts = starts(parts.iter().map(|part| part.0.len()));
        Self { parts, starts, order: Vec::new() }
    }

    /// Iterate over the records of each thread, with the number of the first.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&Locations, u32)> {
        self.parts.iter().zip(self.starts.iter().copied())
    }

    /// Set the record of each row.
    pub(crate) fn with_order(self, order: Vec<u32>) -> Self {
        Self { order, ..self }
    }

    /// Return a row's record; `None` for a row out of range.
    fn record(&self, row: usize) -> Option<Location> {
        let number = *self.order.get(row)?;
        let part = self.starts.partition_point(|&start| start <= number).checked_sub(1)?;
        self.parts[part].0.get((number - self.starts[part]) as usize)
    }

    /// Return the place of a row's record; `None` for a row out of range.
    pub(crate) fn place(&self, row: usize) -> Option<Place> {
        self.record(row).map(|record| record.spot.place(record.length))
    }

    /// Return the place and the hash of a row's record; `None` for a row out of range.
    pub(crate) fn place_and_digest(&self, row: usize) -> Option<(Place, u64)> {
        self.record(row).map(|record| (record.spot.place(record.length), record.digest))
    }

    /// Return the hash of a row's record; zero for a row out of range.
    pub(crate) fn digest(&self, row: usize) -> u64 {
        self.record(row).map_or(0, |record| record.digest)
    }

    /// Iterate over the lengths of all records, in no particular order.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = u32> {
        self.parts.iter().flat_map(|part| part.0.iter().map(|record| record.length))
    }
}

/// Return the start of each of several concatenated parts.
pub(super) fn starts(lengths: impl Iterator<Item = usize>) -> Vec<u32> {
    let start = |next: &mut u32, length: usize| {
        let after = next.saturating_add(u32::try_from(length).unwrap_or(u32::MAX));
        Some(std::mem::replace(next, after))
    };
    lengths.scan(0, start).collect()
}
