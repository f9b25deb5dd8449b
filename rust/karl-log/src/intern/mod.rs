//! Distinct names by number, and the map from a name to its number while a log is read.

mod cache;
mod names;
mod shared;
mod spellings;
mod table;

pub(crate) use cache::CachedInterner;
pub(crate) use names::NameBatch;
pub use names::{NONE, Names};
pub(crate) use shared::{Renumbering, SharedInterner};
pub use spellings::MixedSpellings;
