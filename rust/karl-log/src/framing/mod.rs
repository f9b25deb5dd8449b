//! Split of a stream into the texts of its records: [`Lines`], the [`Elements`] of an array, or a mixture.
//!
//! Both read the stream through one window, which keeps unconsumed bytes contiguous and holds no more than
//! the longest record.

mod batch;
pub mod byte_ranges;
mod elements;
mod fail;
mod json_lines;
mod lines;
mod piece;
mod pieces;
mod record_end;
pub mod record_texts;
mod values;
mod window;

pub use batch::{Batch, TextBatch, WholeLines};
pub use elements::Elements;
pub use fail::StreamError;
pub(crate) use json_lines::JsonLines;
pub use lines::Lines;
pub(crate) use lines::{begins_array, without_return};
pub use piece::Piece;
pub use pieces::Pieces;
pub(crate) use record_end::holds_records;
pub(crate) use values::Until;
pub use window::{MARK, ValueEnd, Window};
