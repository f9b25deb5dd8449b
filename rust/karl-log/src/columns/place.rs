//! Place of a record.

use bytemuck::{Pod, Zeroable};

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
