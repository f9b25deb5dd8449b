//! Path of rows from a file to columns, in an order that depends only on the records.
//!
//! Each reading thread distributes its rows over bins by the first bits of their id. Ids are hashes, so the
//! bins are even, and the order of all rows is the order of the bins and within each that of (id, digest):
//! every bin is sorted alone (`merge`), by any free thread. A bin is freed as its rows are written to
//! columns, so that the log is never in memory twice (`chunked_vec`).

mod bins;
pub mod category;
mod chunked_vec;
mod merge;
mod place;

pub(crate) use bins::{NameTables, RowBins, ThreadRows};
pub use bins::{RowSink, ScannedRow};
pub(crate) use merge::{LogColumns, columns};
pub(crate) use place::RowLocations;
pub use place::{PackedPlace, Place};
