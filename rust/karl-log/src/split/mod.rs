//! Cuts a stream into the texts of its records: [`Lines`], or the [`Elements`] of an array.
//!
//! Both look at the stream through one window, which keeps what is not yet consumed in one piece and holds no more
//! than the longest record.

mod elements;
mod lines;
mod window;

use std::io::{self, Read};

pub use elements::Elements;
pub(crate) use elements::Until;
pub use lines::Lines;
pub(crate) use lines::without_return;
pub(crate) use window::{Extent, Window};

/// The texts of a stream, however it holds them.
pub(crate) enum Pieces<R> {
    Lines(Lines<R>),
    Elements(Elements<R>),
}

impl<R: Read> Pieces<R> {
    /// The next text.
    pub(crate) fn next(&mut self) -> io::Result<Option<Piece<'_>>> {
        match self {
            Self::Lines(lines) => lines.next(),
            Self::Elements(elements) => elements.next(),
        }
    }
}

/// One record's text, or what stands in its place.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A text with its place; `ended` is false where the stream ended inside it.
    Text {
        /// First byte, counted in the unpacked stream.
        offset: u64,
        /// The text, without its line end.
        bytes: &'a [u8],
        /// Whether its end was seen.
        ended: bool,
    },
    /// A text longer than the limit; it was passed over.
    TooLong {
        /// First byte, counted in the unpacked stream.
        offset: u64,
    },
    /// The stream ended between two elements of an array that was not closed.
    Cut {
        /// Where it ended.
        offset: u64,
    },
}
