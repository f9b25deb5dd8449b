//! Split of a stream into the texts of its records: [`Lines`], the [`Elements`] of an array, or a mixture.
//!
//! Both read the stream through one window, which keeps unconsumed bytes contiguous and holds no more than
//! the longest record.

pub mod lines;
mod record_end;
pub mod record_texts;
mod values;
mod window;

pub use lines::{Batch, Lines, Pieces, StreamError, TextBatch, WholeLines};
pub(crate) use lines::{JsonLines, begins_array, without_return};
pub(crate) use record_end::holds_records;
pub use values::Elements;
pub(crate) use values::Until;
pub use window::{MARK, Piece, ValueEnd, Window};
