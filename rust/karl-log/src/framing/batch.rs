//! Output of a stream: one text, or all whole lines in the buffer.
//!
//! Lines in the buffer are taken together; record `log::split_lines` of `benches/record/instructions.json`
//! takes them one by one.

use super::piece::Piece;
use super::record_texts::RecordText;
use crate::rejects::FileTally;

/// Next texts of a stream.
pub struct Batch<'a> {
    /// Texts.
    pub texts: TextBatch<'a>,
    /// Number of line ends skipped since the last batch.
    pub passed: u64,
}

/// Texts of a stream.
pub enum TextBatch<'a> {
    /// Line.
    One(Piece<'a>),
    /// Element of a file without lines.
    Element(Piece<'a>),
    /// Value of a line that was opened.
    Value(Piece<'a>),
    /// All complete lines of the buffer.
    Lines(WholeLines<'a>),
    /// Sign that a record, or an array of records, spans several lines of a range: the file has to be read as
    /// a whole.
    Beyond,
}

/// Complete lines.
pub struct WholeLines<'a> {
    /// Offset of the first byte in the unpacked stream.
    pub(crate) offset: u64,
    /// All lines, each with its line end.
    pub(crate) text: &'a [u8],
    /// Maximum length of a line in bytes.
    pub(crate) limit: usize,
}

impl<'a> TextBatch<'a> {
    /// Count and return the single text; other pieces are counted too.
    pub fn one(&self, tally: &mut FileTally) -> Option<RecordText<'a>> {
        match self {
            Self::One(piece) | Self::Element(piece) => {
                tally.lines += 1;
                RecordText::of(piece, matches!(self, Self::One(_)), tally)
            }
            Self::Value(piece) => RecordText::of(piece, false, tally),
            Self::Lines(_) | Self::Beyond => None,
        }
    }

    /// Return the bytes taken from the stream, with one after each text.
    #[must_use]
    pub fn num_bytes(&self) -> usize {
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
