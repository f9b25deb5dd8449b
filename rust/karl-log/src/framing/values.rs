//! Values that stand one after the other, and in arrays.

use std::io::{self, Read};

use memchr::{memchr_iter, memrchr};

use super::record_end::{holds_records, object, record, rest_of_line, scalar};
use super::window::MARK;
use super::{Extent, Piece, Window};

/// What ends the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// The `]` of an array inside a document.
    Bracket,
    /// The end of the stream.
    Stream,
    /// The end of a line on which no array is open.
    Line,
}

/// How far a stream of values was read. An array among them is entered where it holds objects or arrays: its elements
/// are values as well.
#[derive(Debug)]
pub(super) struct Values {
    until: Until,
    /// How many arrays are open.
    open: usize,
    /// Where the line begins, as far as it is known.
    line: u64,
    /// Line ends that were passed since the last value was found.
    passed: u64,
    /// Those of them that came before it.
    pub(super) before: u64,
}

/// What comes next of a stream of values.
pub(super) enum NextValue {
    /// A value of so many bytes; whether its end was seen.
    Value(u64, usize, bool),
    /// One that was longer than the limit.
    TooLong(u64),
    /// The stream ended before the arrays that are open.
    Cut(u64),
    /// All is read up to what ends the values.
    End,
}

impl Values {
    /// The values from a place on, `open` of whose arrays were entered before.
    pub(super) fn new(until: Until, open: usize, offset: u64) -> Self {
        Self { until, open, line: offset, passed: 0, before: 0 }
    }

    /// The values from a place inside a line on.
    pub(super) fn of_line(line: u64) -> Self {
        Self::new(Until::Line, 0, line)
    }

    /// Moves to the next value.
    pub(super) fn next<R: Read>(&mut self, window: &mut Window<R>, limit: usize) -> io::Result<NextValue> {
        loop {
            match self.peek(window)? {
                None => return Ok(self.end_of_stream(window)),
                Some(b'\n') => {
                    self.consume(window, 1);
                    self.before = self.passed - 1;
                    return Ok(NextValue::End);
                }
                Some(b']') if self.until == Until::Bracket && self.open == 1 => return Ok(NextValue::End),
                Some(b']') if self.open > 0 => {
                    self.open -= 1;
                    self.consume(window, 1);
                }
                Some(b',') => self.consume(window, 1),
                Some(b'\xef') if window.starts_with_mark()? => self.consume(window, MARK.len()),
                Some(b'[') if holds_records(window, limit)? => {
                    self.open += 1;
                    self.consume(window, 1);
                }
                Some(first) => return self.value(first, window, limit),
            }
        }
    }

    fn end_of_stream<R: Read>(&mut self, window: &Window<R>) -> NextValue {
        self.before = std::mem::take(&mut self.passed);
        if self.open == 0 {
            return NextValue::End;
        }
        (self.open, self.until) = (0, Until::Stream);
        NextValue::Cut(window.offset())
    }

    fn value<R: Read>(&mut self, first: u8, window: &mut Window<R>, limit: usize) -> io::Result<NextValue> {
        self.before = std::mem::take(&mut self.passed);
        let offset = window.offset();
        let extent = match first {
            b'{' if self.is_line() => match object(window, limit)? {
                Some(extent) => extent,
                None => rest_of_line(window, limit)?,
            },
            _ if self.is_line() => rest_of_line(window, limit)?,
            b'{' | b'[' => record(window, limit, offset - self.line)?,
            _ => scalar(window, limit)?,
        };
        Ok(match extent {
            // What was passed over is not there any more: its lines are not counted.
            Extent::Passed => NextValue::TooLong(offset),
            // A stray bracket or colon is a value of its own, so that the reader always moves on.
            Extent::Kept(length) => self.found(window, length.max(1), true),
            Extent::Torn(length) => {
                (self.open, self.until) = (0, Until::Stream);
                self.found(window, length, false)
            }
        })
    }

    fn found<R: Read>(&mut self, window: &Window<R>, length: usize, ended: bool) -> NextValue {
        self.pass(window, length);
        NextValue::Value(window.offset(), length, ended)
    }

    /// Whether what comes next is on a line of its own, in no array.
    fn is_line(&self) -> bool {
        self.until == Until::Line && self.open == 0
    }

    /// Whether a line end was passed while an array was open or a value went on, or may have been.
    pub(super) fn is_beyond_line(&self, next: &NextValue) -> bool {
        match next {
            NextValue::End => self.before > 0,
            NextValue::Value(..) => self.before + self.passed > 0,
            NextValue::Cut(_) | NextValue::TooLong(_) => true,
        }
    }

    /// The next byte that is not white space; a line end is none of it where it ends the values.
    fn peek<R: Read>(&mut self, window: &mut Window<R>) -> io::Result<Option<u8>> {
        loop {
            let ends = self.is_line();
            let is_blank = |&&byte: &&u8| matches!(byte, b' ' | b'\t' | b'\r') || (byte == b'\n' && !ends);
            let blank = window.bytes().iter().take_while(is_blank).count();
            self.consume(window, blank);
            if let Some(&byte) = window.bytes().first() {
                return Ok(Some(byte));
            }
            if !window.fill()? {
                return Ok(None);
            }
        }
    }

    fn consume<R: Read>(&mut self, window: &mut Window<R>, count: usize) {
        self.pass(window, count);
        window.consume(count);
    }

    /// Counts the line ends among the next bytes.
    fn pass<R: Read>(&mut self, window: &Window<R>, count: usize) {
        let bytes = &window.bytes()[..count];
        if let Some(last) = memrchr(b'\n', bytes) {
            self.line = window.offset() + last as u64 + 1;
            self.passed += memchr_iter(b'\n', bytes).count() as u64;
        }
    }
}

impl NextValue {
    /// The text that was found, consumed; `None` at the end.
    pub(super) fn piece<R: Read>(self, window: &mut Window<R>) -> Option<Piece<'_>> {
        Some(match self {
            Self::End => return None,
            Self::Cut(offset) => Piece::Cut { offset },
            Self::TooLong(offset) => Piece::TooLong { offset },
            Self::Value(offset, length, ended) => {
                Piece::Text { offset, bytes: window.take(length, length), ended }
            }
        })
    }
}
