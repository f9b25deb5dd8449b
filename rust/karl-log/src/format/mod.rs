//! Formats of logs: the fields of known tools, the language of fields, and the fields of one file.

pub mod expr;
mod fields;
pub mod preset;

pub use expr::{Choice, Field, Transform};
pub use fields::{Component, ELEMENT, Fields, Overrides};
pub(crate) use preset::claimed_by;
pub use preset::{FORMATS, Format, Sidecar, by_keys, by_name};
