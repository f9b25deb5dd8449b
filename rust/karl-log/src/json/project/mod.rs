//! Takes a few values out of one JSON object without building the rest.
//!
//! The scan walks the keys of the objects that a wanted path goes through and skips every other value by its
//! structure: strings by their closing quote, containers by their depth. So it is exact on every valid JSON text
//! (nested decoys, escaped keys, duplicate keys: the last one wins, as in Python's `json`), and blind to damage
//! inside a value that it skips. [`crate::json::reference`] is the slow twin that sees such damage; it judges every record
//! that is chosen, and with `--strict` every record that is read.
//!
//! Keys of a log come in one order again and again: [`Scan`] keeps that order, so that most keys cost one
//! comparison.
//!
//! Not taken: serde's `IgnoredAny`, which validates while it skips at about a fifth of the speed.

mod container;
mod cursor;
mod fault;
mod key_order;
mod path;
mod paths;
mod scan;
mod skip;

pub use fault::Fault;
pub use path::Path;
pub use paths::Wanted;
pub use scan::{Scan, Scanned, scan};
pub(crate) use skip::{skip_space, skip_string, skip_value};
