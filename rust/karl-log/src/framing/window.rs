//! Buffer over a stream, the search for the end of its first value, and the [`Piece`] that is taken out of it.

use std::io::{self, Read};

use memchr::{memchr, memchr2, memchr3};

use crate::json::project::skip_space;

/// Bytes read at a time: they stay in the nearer caches until they are processed.
const BLOCK: usize = 1 << 16;

/// UTF-8 byte order mark.
pub const MARK: &[u8] = b"\xef\xbb\xbf";

/// Buffer over a stream that keeps unconsumed bytes contiguous.
#[derive(Debug)]
pub struct Window<R> {
    reader: R,
    data: Vec<u8>,
    start: usize,
    end: usize,
    base: u64,
}

impl<R: Read> Window<R> {
    /// Return an empty window over a reader whose first byte has this offset.
    pub fn new(reader: R, offset: u64) -> Self {
        Self { reader, data: Vec::new(), start: 0, end: 0, base: offset }
    }

    /// Return the bytes that are read and not consumed.
    pub fn bytes(&self) -> &[u8] {
        &self.data[self.start..self.end]
    }

    pub(crate) fn offset(&self) -> u64 {
        self.base + self.start as u64
    }

    pub(crate) fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    /// Skip all bytes in the buffer.
    pub(super) fn clear(&mut self) {
        self.start = self.end;
    }

    /// Read more bytes; return false at the end of the stream.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        if self.start > 0 {
            self.data.copy_within(self.start..self.end, 0);
            self.base += self.start as u64;
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.data.len() - self.end < BLOCK {
            self.data.resize((self.end + BLOCK).max(2 * self.end), 0);
        }
        loop {
            match self.reader.read(&mut self.data[self.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(count) => {
                    self.end += count;
                    return Ok(count > 0);
                }
            }
        }
    }

    /// Return the next byte that is not white space without consuming it; `None` at the end of the stream.
    ///
    /// # Errors
    /// Error of the reader.
    pub fn peek(&mut self) -> io::Result<Option<u8>> {
        loop {
            let blank = skip_space(self.bytes(), 0);
            self.consume(blank);
            if let Some(&byte) = self.bytes().first() {
                return Ok(Some(byte));
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// Skip the byte order mark at the start of a file.
    ///
    /// # Errors
    /// Error of the reader.
    pub fn skip_mark(&mut self) -> io::Result<()> {
        if self.starts_with_mark()? {
            self.consume(MARK.len());
        }
        Ok(())
    }

    pub(super) fn starts_with_mark(&mut self) -> io::Result<bool> {
        while self.bytes().len() < MARK.len() && MARK.starts_with(self.bytes()) && self.fill()? {}
        Ok(self.bytes().starts_with(MARK))
    }

    /// Go back to bytes consumed since the last [`fill`](Self::fill).
    pub(super) fn back_to(&mut self, offset: u64) {
        self.start =
            usize::try_from(offset.saturating_sub(self.base)).map_or(self.end, |at| at.min(self.end));
    }

    /// Skip the rest of a line that is longer than the window, but not its end.
    pub(super) fn pass_line(&mut self) -> io::Result<()> {
        loop {
            if let Some(found) = memchr(b'\n', self.bytes()) {
                self.consume(found);
                return Ok(());
            }
            self.clear();
            if !self.fill()? {
                return Ok(());
            }
        }
    }

    /// Consume `consumed` bytes and return the first `length` of them.
    pub(super) fn take(&mut self, length: usize, consumed: usize) -> &[u8] {
        let start = self.start;
        self.consume(consumed);
        &self.data[start..start + length]
    }

    /// Find the end of the value that begins here, keeping up to `limit` bytes of it.
    ///
    /// # Errors
    /// Error of the reader.
    pub fn value(&mut self, limit: usize) -> io::Result<ValueEnd> {
        self.value_from(0, limit)
    }

    /// Find the end of the value that begins so many bytes from here; what is before it counts to its length.
    pub(super) fn value_from(&mut self, start: usize, limit: usize) -> io::Result<ValueEnd> {
        let mut skipper = Skipper::default();
        let mut seen = start;
        loop {
            if let Some(length) = skipper.feed(&self.bytes()[seen..]) {
                let end = seen + length;
                return Ok(if end > limit { self.past(end) } else { ValueEnd::Kept(end) });
            }
            seen = self.bytes().len();
            if seen > limit {
                return self.pass(&mut skipper);
            }
            if !self.fill()? {
                return Ok(if skipper.ends_with_stream() {
                    ValueEnd::Kept(seen)
                } else {
                    ValueEnd::Torn(seen)
                });
            }
        }
    }

    pub(super) fn pass(&mut self, skipper: &mut Skipper) -> io::Result<ValueEnd> {
        loop {
            self.clear();
            if !self.fill()? {
                return Ok(ValueEnd::Passed);
            }
            if let Some(length) = skipper.feed(self.bytes()) {
                return Ok(self.past(length));
            }
        }
    }

    /// Skip the end of a value.
    pub(super) fn past(&mut self, count: usize) -> ValueEnd {
        self.consume(count);
        ValueEnd::Passed
    }
}

/// End of a value.
pub enum ValueEnd {
    /// Length of the value in the window.
    Kept(usize),
    /// Length at which the stream ended inside the value.
    Torn(usize),
    /// Value longer than the limit; it was consumed.
    Passed,
}

/// Follower of the structure of one value across blocks.
#[derive(Default)]
pub(super) struct Skipper {
    depth: usize,
    in_string: bool,
    escaped: bool,
    scalar: bool,
    pub(super) line: LineEnd,
}

/// Meaning of a line end in a value.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum LineEnd {
    /// White space, or a byte of a string.
    #[default]
    Inside,
    /// Place to stop at.
    Stops,
    /// Place where it stopped.
    Stopped,
}

impl Skipper {
    /// Return a follower that stops at the end of the line.
    pub(super) fn of_line() -> Self {
        Self { line: LineEnd::Stops, ..Self::default() }
    }

    /// Return the position after the value's end, if it is in these bytes.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            if self.in_string {
                at = self.string(bytes, at);
                if self.line == LineEnd::Stopped || (!self.in_string && self.depth == 0) {
                    return Some(at);
                }
                continue;
            }
            match bytes[at] {
                b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r' if self.scalar => return Some(at),
                b'\n' if self.line == LineEnd::Stops => {
                    self.line = LineEnd::Stopped;
                    return Some(at);
                }
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ if self.depth == 0 => self.scalar = true,
                _ => {}
            }
            at += 1;
            if self.depth == 0 && matches!(bytes[at - 1], b'}' | b']') {
                return Some(at);
            }
        }
        None
    }

    fn string(&mut self, bytes: &[u8], mut at: usize) -> usize {
        if std::mem::take(&mut self.escaped) {
            at += 1;
        }
        while let Some(found) = bytes.get(at..).and_then(|rest| self.find_end_byte(rest)) {
            at += found + 1;
            match bytes[at - 1] {
                b'"' => {
                    self.in_string = false;
                    return at;
                }
                b'\n' => {
                    self.line = LineEnd::Stopped;
                    return at - 1;
                }
                _ => {}
            }
            self.escaped = at == bytes.len();
            at += 1;
        }
        bytes.len()
    }

    /// Return the first byte inside a string that may affect its end.
    fn find_end_byte(&self, bytes: &[u8]) -> Option<usize> {
        if self.line == LineEnd::Stops {
            memchr3(b'"', b'\\', b'\n', bytes)
        } else {
            memchr2(b'"', b'\\', bytes)
        }
    }

    pub(super) fn ends_with_stream(&self) -> bool {
        self.scalar && self.depth == 0 && !self.in_string
    }
}

/// Text of one record, or a replacement for it.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Text with its position; `ended` is false if the stream ended inside it.
    Text {
        /// Offset of the first byte in the unpacked stream.
        offset: u64,
        /// Text, without its line end.
        bytes: &'a [u8],
        /// True if its end was reached.
        ended: bool,
    },
    /// Text longer than the limit; it was skipped.
    TooLong {
        /// Offset of the first byte in the unpacked stream.
        offset: u64,
    },
    /// End of the stream between two elements of an unclosed array.
    Cut {
        /// Offset of the end.
        offset: u64,
    },
}
