//! Extraction of the fields of a record: from its text to one row.

pub mod joined_name;
mod scanner;
mod settings;
mod slot;

pub use scanner::{Scanner, upper};
pub use settings::{Compare, ScanSettings};
