//! What a stream hands over at a time: one text, or all whole lines at hand.

use super::piece::Piece;
use super::record_texts::Text;
use crate::rejects::Tally;

/// What comes next of a stream, and how many lines were passed before it since the last.
pub(crate) struct Batch<'a> {
    pub(crate) texts: Texts<'a>,
    pub(crate) passed: u64,
}

/// Texts of a stream.
pub(crate) enum Texts<'a> {
    /// A line.
    One(Piece<'a>),
    /// An element of a file that has no lines.
    Element(Piece<'a>),
    /// A value of a line that was [opened](super::JsonLines::open).
    Value(Piece<'a>),
    Lines(WholeLines<'a>),
    /// A record, or an array of them, goes on over several lines of a range: the file has to be read in one.
    Beyond,
}

/// Lines whose ends were seen.
pub(crate) struct WholeLines<'a> {
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
