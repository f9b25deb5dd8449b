//! The texts of a stream, however it holds them.

use std::io::{self, Read};

use super::batch::{Batch, Texts};
use super::elements::Elements;
use super::json_lines::JsonLines;

/// The texts of a stream, however it holds them.
pub(crate) enum Pieces<R> {
    Lines(JsonLines<R>),
    Elements(Elements<R>),
}

impl<R: Read> Pieces<R> {
    /// The next text, or several where they are at hand: most lines are.
    pub(crate) fn next(&mut self) -> io::Result<Option<Batch<'_>>> {
        self.read(true)
    }

    /// The next text alone.
    pub(crate) fn next_alone(&mut self) -> io::Result<Option<Batch<'_>>> {
        self.read(false)
    }

    fn read(&mut self, together: bool) -> io::Result<Option<Batch<'_>>> {
        match self {
            Self::Lines(lines) => lines.next(together),
            Self::Elements(elements) => {
                let piece = elements.next()?;
                Ok(piece.map(|piece| Batch { texts: Texts::Element(piece), passed: 0 }))
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
