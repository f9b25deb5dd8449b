//! Trajectory logs to columns, and chosen records to data sets.
//!
//! ```text
//! input ──► detect ──► framing ──► extract ──► log ─────► (karl-core: which rows) ─────► fetch ──► export
//! packed    lines or   one record  json,       columns                                  chosen    whole rows,
//! bytes     array      at a time   format      in id order                              bytes     whole directory
//! ```
//!
//! Two passes over the files: the first keeps a few numbers per record, the second reads the chosen records
//! only. [`json::project`] is the fast scan; [`json::reference_parser`] parses every written record in full. This
//! crate does not depend on Python and does no arithmetic on rewards.

#![forbid(unsafe_code)]

pub mod atomic_output;
pub mod cancel;
pub mod columns;
pub mod conversation;
mod counting_sort;
pub mod data_set;
pub mod detect;
pub mod duplicates;
pub mod error;
pub mod export;
pub mod extract;
pub mod format;
pub mod framing;
pub mod input;
pub mod intern;
pub mod json;
pub mod karl_rewards;
pub mod log;
pub mod parallel;
pub mod read;
pub mod rejects;
pub mod second_pass;
pub mod splits;
pub mod stream;
pub mod time;
pub mod unfold;

pub use cancel::Watch;
pub use columns::Place;
pub use error::{Error, Result};
pub use log::Log;
