//! Concatenated values, also in arrays.

use std::io::{self, Read};

use memchr::{memchr_iter, memrchr};

use super::record_end::{holds_records, object, record, rest_of_line, scalar};
use super::window::MARK;
use super::{Piece, ValueEnd, Window};

/// End of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// Closing `]` of an array inside a document.
    Bracket,
    /// End of the stream.
    Stream,
    /// End of a line on which no array is open.
    Line,
}

/// Progress through a stream of values. An array of objects or arrays is entered: its elements are values as
/// well.
#[derive(Debug)]
pub(super) struct Values {
    until: Until,
    /// Number of open arrays.
    open: usize,
    /// Start of the line, if known.
    line: u64,
    /// Line ends skipped since the last value.
    passed: u64,
    /// Line ends skipped before the last value.
    pub(super) before: u64,
}

/// Next item of a stream of values.
pub(super) enum NextValue {
    /// Value: offset, length in bytes, and whether its end was reached.
    Value(u64, usize, bool),
    /// Value longer than the limit.
    TooLong(u64),
    /// End of the stream inside open arrays.
    Cut(u64),
    /// End of the values.
    End,
}

impl Values {
    /// Return the values from an offset on, inside `open` arrays.
    pub(super) fn new(until: Until, open: usize, offset: u64) -> Self {
        Self { until, open, line: offset, passed: 0, before: 0 }
    }

    /// Return the values from an offset inside a line on.
    pub(super) fn of_line(line: u64) -> Self {
        Self::new(Until::Line, 0, line)
    }

    /// Move to the next value.
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
            // Skipped bytes are no longer in the buffer: their lines are not counted.
            ValueEnd::Passed => NextValue::TooLong(offset),
            // A stray bracket or colon is a value of its own, so that the reader always advances.
            ValueEnd::Kept(length) => self.found(window, length.max(1), true),
            ValueEnd::Torn(length) => {
                (self.open, self.until) = (0, Until::Stream);
                self.found(window, length, false)
            }
        })
    }

    fn found<R: Read>(&mut self, window: &Window<R>, length: usize, ended: bool) -> NextValue {
        self.pass(window, length);
        NextValue::Value(window.offset(), length, ended)
    }

    /// Return whether the next value is on a line of its own, outside arrays.
    fn is_line(&self) -> bool {
        self.until == Until::Line && self.open == 0
    }

    /// Return whether a line end was, or may have been, skipped inside an open array or a value.
    pub(super) fn is_beyond_line(&self, next: &NextValue) -> bool {
        match next {
            NextValue::End => self.before > 0,
            NextValue::Value(..) => self.before + self.passed > 0,
            NextValue::Cut(_) | NextValue::TooLong(_) => true,
        }
    }

    /// Return the next byte that is not white space; a line end that ends the values is returned too.
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

    /// Count the line ends among the next bytes.
    fn pass<R: Read>(&mut self, window: &Window<R>, count: usize) {
        let bytes = &window.bytes()[..count];
        if let Some(last) = memrchr(b'\n', bytes) {
            self.line = window.offset() + last as u64 + 1;
            self.passed += memchr_iter(b'\n', bytes).count() as u64;
        }
    }
}

impl NextValue {
    /// Consume and return the text found; `None` at the end.
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
