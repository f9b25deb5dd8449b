//! Record on its way to the columns.

use super::place::PackedPlace;

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
