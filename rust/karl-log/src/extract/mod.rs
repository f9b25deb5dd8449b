//! Extraction of the fields of a record: from its text to one row.

pub(crate) mod joined_name;
mod scanner;
mod settings;
mod slot;

pub(crate) use scanner::{Scanner, upper};
pub use settings::{Compare, ScanSettings};
