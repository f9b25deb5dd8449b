//! Trajectory logs to columns, and chosen records to data sets.
//!
//! ```text
//! source ──► layout ──► split ──► scan ──► log ─────► (karl-core: which rows) ─────► fetch ──► emit
//! packed     lines or   one       field,   columns                                  chosen    whole rows,
//! bytes      array      text      value    in id order                              bytes     whole directory
//! ```
//!
//! Two passes over the files: the first keeps a few numbers a record, the second reads the chosen records alone.
//! The fast scan ([`field`]) stands beside the trusted one ([`trusted`]), which judges whatever is written. This
//! crate knows no Python and does no arithmetic on rewards.

mod ahead;
pub mod category;
mod codec;
pub mod convert;
mod doubled;
pub mod emit;
pub mod error;
pub mod fetch;
pub mod field;
pub mod format;
pub mod given;
pub mod layout;
pub mod log;
pub mod manifest;
pub mod names;
mod parallel;
mod parts;
pub mod pipe;
pub mod place;
mod ranges;
pub mod raw;
pub mod read;
mod records;
mod rows;
pub mod scan;
mod seat;
mod sound;
pub mod source;
mod spelling;
pub mod split;
pub mod stream;
pub mod tally;
pub mod trusted;
pub mod value;
pub mod watch;

pub use error::{Error, Result};
pub use log::Log;
pub use rows::Place;
pub use watch::Watch;
