//! One record on its way to the columns.

use super::place::PackedPlace;

/// One record, as the scan found it.
#[derive(Debug)]
pub(crate) struct ScannedRow<'a> {
    pub(crate) id: u128,
    pub(crate) digest: u64,
    pub(crate) spot: PackedPlace,
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
pub(crate) trait RowSink {
    fn push(&mut self, found: &ScannedRow<'_>);
}
