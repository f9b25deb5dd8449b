//! Texts of a stream in any layout.

use std::io::{self, Read};

use super::batch::{Batch, TextBatch};
use super::elements::Elements;
use super::json_lines::JsonLines;

/// Texts of a stream in any layout.
pub enum Pieces<R> {
    /// A record a line.
    Lines(JsonLines<R>),
    /// Elements of arrays, or values one after another.
    Elements(Elements<R>),
}

impl<R: Read> Pieces<R> {
    /// Return the next text, or several if they are in the buffer, as most lines are.
    pub(crate) fn next(&mut self) -> io::Result<Option<Batch<'_>>> {
        self.read(true)
    }

    /// Return the next text alone.
    ///
    /// # Errors
    /// Error of the reader.
    pub fn next_alone(&mut self) -> io::Result<Option<Batch<'_>>> {
        self.read(false)
    }

    fn read(&mut self, together: bool) -> io::Result<Option<Batch<'_>>> {
        match self {
            Self::Lines(lines) => lines.next(together),
            Self::Elements(elements) => {
                let piece = elements.next()?;
                Ok(piece.map(|piece| Batch { texts: TextBatch::Element(piece), passed: 0 }))
            }
        }
    }

    /// Read value by value from an offset in the last text, if there is one.
    pub fn open(&mut self, offset: Option<u64>) {
        if let (Self::Lines(lines), Some(offset)) = (self, offset) {
            lines.open(offset);
        }
    }
}
