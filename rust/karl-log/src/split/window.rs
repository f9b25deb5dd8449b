//! A stream seen through a buffer, and where the value at its front ends.

use std::io::{self, Read};

use memchr::memchr2;

use crate::field::skip_space;

/// How much is read at a time: it stays in the nearer caches until it has been looked at.
const BLOCK: usize = 1 << 16;

/// A stream seen through a buffer that keeps what is not yet consumed in one piece.
#[derive(Debug)]
pub(crate) struct Window<R> {
    reader: R,
    data: Vec<u8>,
    start: usize,
    end: usize,
    base: u64,
}

impl<R: Read> Window<R> {
    pub(crate) fn new(reader: R, offset: u64) -> Self {
        Self { reader, data: Vec::new(), start: 0, end: 0, base: offset }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.data[self.start..self.end]
    }

    pub(crate) fn offset(&self) -> u64 {
        self.base + self.start as u64
    }

    pub(crate) fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    /// Passes over everything that was read.
    pub(super) fn clear(&mut self) {
        self.start = self.end;
    }

    /// Reads on; false at the end of the stream.
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

    /// The next byte that is not white space, left where it is; `None` at the end of the stream.
    pub(crate) fn peek(&mut self) -> io::Result<Option<u8>> {
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

    /// Passes over the UTF-8 byte order mark at the start of a file.
    pub(crate) fn skip_mark(&mut self) -> io::Result<()> {
        const MARK: &[u8] = b"\xef\xbb\xbf";
        while self.bytes().len() < MARK.len() && self.fill()? {}
        if self.bytes().starts_with(MARK) {
            self.consume(MARK.len());
        }
        Ok(())
    }

    /// Consumes `consumed` bytes, and gives the first `length` of them.
    pub(super) fn take(&mut self, length: usize, consumed: usize) -> &[u8] {
        let start = self.start;
        self.consume(consumed);
        &self.data[start..start + length]
    }

    /// Finds the end of the value that begins here, keeping up to `limit` bytes of it.
    pub(crate) fn value(&mut self, limit: usize) -> io::Result<Extent> {
        let mut skipper = Skipper::default();
        let mut seen = 0;
        loop {
            if let Some(length) = skipper.feed(&self.bytes()[seen..]) {
                let end = seen + length;
                return Ok(if end > limit { self.past(end) } else { Extent::Kept(end) });
            }
            seen = self.bytes().len();
            if seen > limit {
                return self.pass(&mut skipper);
            }
            if !self.fill()? {
                return Ok(if skipper.ends_with_stream() { Extent::Kept(seen) } else { Extent::Torn(seen) });
            }
        }
    }

    fn pass(&mut self, skipper: &mut Skipper) -> io::Result<Extent> {
        loop {
            self.clear();
            if !self.fill()? {
                return Ok(Extent::Passed);
            }
            if let Some(length) = skipper.feed(self.bytes()) {
                return Ok(self.past(length));
            }
        }
    }

    /// Passes over a value's end.
    pub(super) fn past(&mut self, count: usize) -> Extent {
        self.consume(count);
        Extent::Passed
    }
}

/// Where a value ends.
pub(crate) enum Extent {
    /// After so many bytes of the window.
    Kept(usize),
    /// The stream ended after so many bytes, inside the value.
    Torn(usize),
    /// It was longer than the limit and is consumed.
    Passed,
}

/// Follows the structure of one value across blocks.
#[derive(Default)]
struct Skipper {
    depth: usize,
    in_string: bool,
    escaped: bool,
    scalar: bool,
}

impl Skipper {
    /// The position after the value's end, if these bytes hold it.
    fn feed(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            if self.in_string {
                at = self.string(bytes, at);
                if !self.in_string && self.depth == 0 {
                    return Some(at);
                }
                continue;
            }
            match bytes[at] {
                b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r' if self.scalar => return Some(at),
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
        while let Some(found) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
            at += found + 1;
            if bytes[at - 1] == b'"' {
                self.in_string = false;
                return at;
            }
            self.escaped = at == bytes.len();
            at += 1;
        }
        bytes.len()
    }

    fn ends_with_stream(&self) -> bool {
        self.scalar && self.depth == 0 && !self.in_string
    }
}
