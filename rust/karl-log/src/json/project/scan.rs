//! Scan of one object, and of the objects of a log.

use std::ops::Range;

use super::cursor::RecordCursor;
use super::fault::{ScanFault, ScanResult};
use super::key_order::KeyOrder;
use super::paths::PathTree;

/// Findings of one scan besides the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scanned {
    /// Position of the first byte after the object.
    pub end: usize,
    /// True if a wanted key was duplicated in its object.
    pub duplicate: bool,
}

/// Scan the object that begins at `bytes[0]` and store the position of each wanted value in its slot.
///
/// # Errors
/// The [`ScanFault`] that stopped the scan; `values` is then meaningless.
pub fn scan(
    bytes: &[u8],
    wanted: &PathTree,
    values: &mut [Option<Range<usize>>],
) -> std::result::Result<Scanned, ScanFault> {
    walk(bytes, wanted, &mut KeyOrder::default(), values)
}

/// [`scan`] for the records of one log: faster with the keys of earlier records, with equal results.
#[derive(Debug)]
pub struct Scan {
    wanted: PathTree,
    habits: KeyOrder,
}

impl Scan {
    /// Create the scan, with no record seen yet.
    #[must_use]
    pub fn new(wanted: PathTree) -> Self {
        Self { wanted, habits: KeyOrder::default() }
    }

    /// Scan one object as [`scan`] does.
    ///
    /// # Errors
    /// As [`scan`].
    pub fn object(
        &mut self,
        bytes: &[u8],
        values: &mut [Option<Range<usize>>],
    ) -> std::result::Result<Scanned, ScanFault> {
        self.habits.restart();
        walk(bytes, &self.wanted, &mut self.habits, values)
    }
}

fn walk(
    bytes: &[u8],
    wanted: &PathTree,
    habits: &mut KeyOrder,
    values: &mut [Option<Range<usize>>],
) -> ScanResult<Scanned> {
    values.fill(None);
    if bytes.first() != Some(&b'{') {
        return Err(ScanFault::NotAnObject);
    }
    let mut cursor = RecordCursor { bytes, at: 0, duplicate: false, habits };
    cursor.object(&wanted.root, values)?;
    Ok(Scanned { end: cursor.at, duplicate: cursor.duplicate })
}
