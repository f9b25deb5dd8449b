//! Record on its way to the columns.

use super::place::PackedPlace;

/// Result of scanning one record.
#[derive(Debug)]
pub(crate) struct ScannedRow<'a> {
    pub(crate) id: u128,
    pub(crate) digest: u64,
    pub(crate) spot: PackedPlace,
    pub(crate) length: u32,
    /// Components of the reward; NaN if missing.
    pub(crate) rewards: &'a [f64],
    /// Names, in UTF-8.
    pub(crate) group: Option<&'a [u8]>,
    pub(crate) domain: Option<&'a [u8]>,
    pub(crate) partition: Option<&'a [u8]>,
    pub(crate) fingerprint: Option<u128>,
    /// Bytes of the record.
    pub(crate) record: &'a [u8],
}

/// Consumer of scanned rows.
pub(crate) trait RowSink {
    fn push(&mut self, found: &ScannedRow<'_>);
}
