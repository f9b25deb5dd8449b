//! Cuts a stream into the texts of its records: [`Lines`], or the [`Elements`] of an array, or a mixture of both.
//!
//! Both look at the stream through one window, which keeps what is not yet consumed in one piece and holds no more
//! than the longest record.

pub(crate) mod byte_ranges;
mod elements;
mod lines;
mod mixed;
mod record_end;
pub(crate) mod text;
mod values;
mod window;

use std::io::{self, Read};

pub use elements::Elements;
pub use lines::Lines;
pub(crate) use lines::{begins_array, without_return};
pub(crate) use mixed::Mixed;
pub(crate) use record_end::holds_records;
pub(crate) use values::Until;
pub(crate) use window::{Extent, MARK, Window};

use self::text::Text;
use crate::rejects::Tally;

/// The texts of a stream, however it holds them.
pub(crate) enum Pieces<R> {
    Lines(Mixed<R>),
    Elements(Elements<R>),
}

impl<R: Read> Pieces<R> {
    /// The next text, or several where they are at hand: most lines are.
    pub(crate) fn next(&mut self) -> io::Result<Option<Next<'_>>> {
        self.read(true)
    }

    /// The next text alone.
    pub(crate) fn next_alone(&mut self) -> io::Result<Option<Next<'_>>> {
        self.read(false)
    }

    fn read(&mut self, together: bool) -> io::Result<Option<Next<'_>>> {
        match self {
            Self::Lines(lines) => lines.next(together),
            Self::Elements(elements) => {
                let piece = elements.next()?;
                Ok(piece.map(|piece| Next { texts: Texts::Element(piece), passed: 0 }))
            }
        }
    }

    /// Reads on value by value at a place in the text that was handed over last, where there is one.
    pub(crate) fn open(&mut self, offset: Option<u64>) {
        if let (Self::Lines(lines), Some(offset)) = (self, offset) {
            lines.open(offset);
        }
    }
}

/// What comes next of a stream, and how many lines were passed before it since the last.
pub(crate) struct Next<'a> {
    pub(crate) texts: Texts<'a>,
    pub(crate) passed: u64,
}

/// Texts of a stream.
pub(crate) enum Texts<'a> {
    /// A line.
    One(Piece<'a>),
    /// An element of a file that has no lines.
    Element(Piece<'a>),
    /// A value of a line that was [opened](Mixed::open).
    Value(Piece<'a>),
    Lines(Whole<'a>),
    /// A record, or an array of them, goes on over several lines of a range: the file has to be read in one.
    Beyond,
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

impl<'a> Texts<'a> {
    /// The one text that they are, counted; what stands in the place of one is counted too.
    pub(crate) fn one(&self, tally: &mut Tally) -> Option<Text<'a>> {
        match self {
            Self::One(piece) | Self::Element(piece) => {
                tally.lines += 1;
                Text::of(piece, matches!(self, Self::One(_)), tally)
            }
            Self::Value(piece) => Text::of(piece, false, tally),
            Self::Lines(_) | Self::Beyond => None,
        }
    }

    /// How many bytes they take of the stream, with one after each text.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::One(piece) | Self::Element(piece) | Self::Value(piece) => match piece {
                Piece::Text { bytes, .. } => bytes.len() + 1,
                _ => 1,
            },
            Self::Beyond => 0,
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
