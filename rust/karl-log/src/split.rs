//! Cuts a stream into the texts of its records: lines, or the elements of an array.

use std::io::{self, Read};

use memchr::{memchr, memchr2};

use crate::field::skip_space;

/// How much is read at a time.
const BLOCK: usize = 1 << 18;

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
    fn clear(&mut self) {
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

    fn past(&mut self, count: usize) -> Extent {
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

/// The lines of a stream, blank ones included.
#[derive(Debug)]
pub struct Lines<R> {
    window: Window<R>,
    until: u64,
    limit: usize,
}

impl<R: Read> Lines<R> {
    /// The lines that begin before `until`; `offset` is the position of the reader's first byte, which begins a
    /// line.
    pub fn new(reader: R, offset: u64, until: u64, limit: usize) -> Self {
        Self { window: Window::new(reader, offset), until, limit }
    }

    /// Passes over the rest of a line that began before this stream.
    ///
    /// # Errors
    /// The reader's.
    pub fn skip_line(&mut self) -> io::Result<()> {
        loop {
            match memchr(b'\n', self.window.bytes()) {
                Some(found) => break self.window.consume(found + 1),
                None => self.window.clear(),
            }
            if !self.window.fill()? {
                break;
            }
        }
        Ok(())
    }

    /// Passes over a byte order mark.
    ///
    /// # Errors
    /// The reader's.
    pub fn skip_mark(&mut self) -> io::Result<()> {
        self.window.skip_mark()
    }

    /// The next line.
    ///
    /// # Errors
    /// The reader's.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> io::Result<Option<Piece<'_>>> {
        let offset = self.window.offset();
        if offset >= self.until || (self.window.bytes().is_empty() && !self.window.fill()?) {
            return Ok(None);
        }
        Ok(Some(match self.find_end(self.limit)? {
            Extent::Passed => Piece::TooLong { offset },
            Extent::Kept(length) => self.piece(offset, length, length + 1, true),
            Extent::Torn(length) => self.piece(offset, length, length, false),
        }))
    }

    fn piece(&mut self, offset: u64, length: usize, consumed: usize, ended: bool) -> Piece<'_> {
        let start = self.window.start;
        self.window.consume(consumed);
        let line = &self.window.data[start..start + length];
        Piece::Text { offset, bytes: line.strip_suffix(b"\r").unwrap_or(line), ended }
    }

    /// The length of the line at the window's start, or `Passed` (consumed) where it exceeds `limit`.
    fn find_end(&mut self, limit: usize) -> io::Result<Extent> {
        let mut seen = 0;
        let mut passing = false;
        loop {
            if let Some(found) = memchr(b'\n', &self.window.bytes()[seen..]) {
                let length = seen + found;
                return Ok(if passing || length > limit {
                    self.window.past(length + 1)
                } else {
                    Extent::Kept(length)
                });
            }
            seen = self.window.bytes().len();
            passing |= seen > limit;
            if passing {
                self.window.consume(seen);
                seen = 0;
            }
            if !self.window.fill()? {
                return Ok(if passing { Extent::Passed } else { Extent::Torn(seen) });
            }
        }
    }
}

/// The elements of an array, or the values of a stream of values.
#[derive(Debug)]
pub struct Elements<R> {
    window: Window<R>,
    limit: usize,
    until: Until,
}

/// What ends the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// The `]` of an array inside a document.
    Bracket,
    /// The `]` of an array that is the document, and then the end of the stream: what follows is read as values.
    BracketThenStream,
    /// The end of the stream: there is no array.
    Stream,
}

impl<R: Read> Elements<R> {
    /// The elements from the window's position on: inside an array, or between values.
    pub(crate) fn new(window: Window<R>, limit: usize, until: Until) -> Self {
        Self { window, limit, until }
    }

    /// The next element.
    ///
    /// # Errors
    /// The reader's.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> io::Result<Option<Piece<'_>>> {
        loop {
            match (self.window.peek()?, self.until) {
                (None, Until::Stream) | (Some(b']'), Until::Bracket) => return Ok(None),
                (None, _) => return Ok(Some(self.cut())),
                (Some(b']'), Until::BracketThenStream) => {
                    self.window.consume(1);
                    self.until = Until::Stream;
                }
                (Some(b','), Until::Bracket | Until::BracketThenStream) => self.window.consume(1),
                (Some(_), _) => break,
            }
        }
        let offset = self.window.offset();
        let (length, ended) = match self.window.value(self.limit)? {
            Extent::Passed => return Ok(Some(Piece::TooLong { offset })),
            // A stray bracket or comma is an element of its own, so that the reader always moves on.
            Extent::Kept(length) => (length.max(1), true),
            Extent::Torn(length) => {
                self.until = Until::Stream;
                (length, false)
            }
        };
        let start = self.window.start;
        self.window.consume(length);
        Ok(Some(Piece::Text { offset, bytes: &self.window.data[start..start + length], ended }))
    }

    fn cut(&mut self) -> Piece<'static> {
        self.until = Until::Stream;
        Piece::Cut { offset: self.window.offset() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that gives at most so many bytes at a time.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let step = self.1.min(out.len());
            self.0.read(&mut out[..step])
        }
    }

    fn pieces(text: &str, step: usize, limit: usize, until: Until) -> Vec<String> {
        let mut elements = Elements::new(Window::new(Trickle(text.as_bytes(), step), 0), limit, until);
        let mut out = Vec::new();
        while let Some(piece) = elements.next().unwrap() {
            out.push(format!("{piece:?}"));
        }
        out
    }

    #[test]
    fn elements_do_not_depend_on_how_the_bytes_arrive() {
        let text = r#" {"a":"]\\\"}"} ,[[1],{}] , 12, "x\"y" , null {} , } : ] {"b":1} [2"#;
        for until in [Until::Bracket, Until::BracketThenStream, Until::Stream] {
            for limit in 0..20 {
                let wanted = pieces(text, usize::MAX, limit, until);
                for step in 1..9 {
                    assert_eq!(pieces(text, step, limit, until), wanted, "{until:?} {limit} {step}");
                }
            }
        }
    }

    #[test]
    fn an_array_that_is_not_closed_ends_in_one_piece_that_says_so() {
        for (text, count, last) in
            [("1, 2", 3, "Cut"), ("1, [2", 2, "ended: false"), ("", 1, "Cut"), ("1]", 1, "ended: true")]
        {
            let found = pieces(text, 2, 99, Until::BracketThenStream);
            assert!(found.len() == count && found[count - 1].contains(last), "{text}: {found:?}");
        }
    }
}
