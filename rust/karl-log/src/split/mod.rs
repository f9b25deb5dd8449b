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
    /// The next text, or several where they are at hand: most lines are.
    pub(crate) fn next(&mut self) -> io::Result<Option<Texts<'_>>> {
        let piece = match self {
            Self::Elements(elements) => elements.next(),
            Self::Lines(lines) => match lines.whole() {
                Some(length) => return Ok(Some(Texts::Lines(lines.take(length)))),
                None => lines.next(),
            },
        };
        piece.map(|piece| piece.map(Texts::One))
    }
}

/// What comes next of a stream.
pub(crate) enum Texts<'a> {
    One(Piece<'a>),
    Lines(Whole<'a>),
}

/// Lines whose ends were seen.
pub(crate) struct Whole<'a> {
    /// First byte, counted in the unpacked stream.
    pub(crate) offset: u64,
    /// All of them, each with its line end.
    pub(crate) text: &'a [u8],
    /// One of more bytes than this is too long.
    pub(crate) limit: usize,
}

impl Texts<'_> {
    /// How many bytes they take of the stream, with one after each text.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::One(Piece::Text { bytes, .. }) => bytes.len() + 1,
            Self::One(_) => 1,
            Self::Lines(lines) => lines.text.len(),
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
