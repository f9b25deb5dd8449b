//! Concatenated values, and the elements of arrays.

use std::io::{self, Read};

use memchr::{memchr_iter, memrchr};

use super::record_end::{holds_records, member, object, record, rest_of_line, scalar};
use super::window::MARK;
use super::{Piece, ValueEnd, Window};

/// End of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// Closing `]` of an array inside a document.
    Bracket,
    /// Closing `}` of an object, whose members are the values.
    Brace,
    /// End of the stream.
    Stream,
    /// End of a line on which no array is open.
    Line,
}

/// Elements of an array, or values of a stream of values.
#[derive(Debug)]
pub struct Elements<R> {
    window: Window<R>,
    limit: usize,
    values: Values,
}

impl<R: Read> Elements<R> {
    /// Return the elements from the window's position on, inside `open` arrays.
    pub(crate) fn new(window: Window<R>, limit: usize, until: Until, open: usize) -> Self {
        let values = Values::new(until, open, window.offset());
        Self { window, limit, values }
    }

    /// Return the next element.
    ///
    /// # Errors
    /// Errors of the reader.
    #[expect(clippy::should_implement_trait, reason = "a piece borrows from the stream")]
    pub fn next(&mut self) -> io::Result<Option<Piece<'_>>> {
        let next = self.values.next(&mut self.window, self.limit)?;
        Ok(next.piece(&mut self.window))
    }
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
                Some(b'}') if self.is_object() => return Ok(NextValue::End),
                Some(b'"') if self.is_object() => return self.member(window, limit),
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
        Ok(self.value_of(&extent, offset, window))
    }

    /// Return the next member of the object: its key and its value.
    fn member<R: Read>(&mut self, window: &mut Window<R>, limit: usize) -> io::Result<NextValue> {
        self.before = std::mem::take(&mut self.passed);
        let offset = window.offset();
        let extent = member(window, limit)?;
        Ok(self.value_of(&extent, offset, window))
    }

    fn value_of<R: Read>(&mut self, extent: &ValueEnd, offset: u64, window: &Window<R>) -> NextValue {
        match *extent {
            // Skipped bytes are no longer in the buffer: their lines are not counted.
            ValueEnd::Passed => NextValue::TooLong(offset),
            // A stray bracket or colon is a value of its own, so that the reader always advances.
            ValueEnd::Kept(length) => self.text_value(window, length.max(1), true),
            ValueEnd::Torn(length) => {
                (self.open, self.until) = (0, Until::Stream);
                self.text_value(window, length, false)
            }
        }
    }

    fn text_value<R: Read>(&mut self, window: &Window<R>, length: usize, ended: bool) -> NextValue {
        self.pass(window, length);
        NextValue::Value(window.offset(), length, ended)
    }

    /// Return whether the next value is a member of an object.
    fn is_object(&self) -> bool {
        self.until == Until::Brace && self.open == 1
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Reader that returns at most so many bytes at a time.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let step = self.1.min(out.len());
            self.0.read(&mut out[..step])
        }
    }

    fn pieces(text: &str, step: usize, limit: usize, until: Until, open: usize) -> Vec<String> {
        let mut elements = Elements::new(Window::new(Trickle(text.as_bytes(), step), 0), limit, until, open);
        let mut out = Vec::new();
        while let Some(piece) = elements.next().unwrap() {
            out.push(format!("{piece:?}"));
        }
        out
    }

    #[test]
    fn elements_do_not_depend_on_how_the_bytes_arrive() {
        let text = r#" {"a":"]\\\"}"} ,[[1],{}] , 12, "x\"y" , null {} , } : ] {"b":1} [2"#;
        for (until, open) in [(Until::Bracket, 1), (Until::Stream, 1), (Until::Stream, 0), (Until::Brace, 1)]
        {
            for limit in 0..20 {
                let wanted = pieces(text, usize::MAX, limit, until, open);
                for step in 1..9 {
                    assert_eq!(
                        pieces(text, step, limit, until, open),
                        wanted,
                        "{until:?} {open} {limit} {step}"
                    );
                }
            }
        }
    }

    #[test]
    fn members_of_an_object_are_taken_with_their_keys_to_its_end() {
        let text = r#" "a" : {"x": "}]"}, "b\"":[1, {}] ,"c":7, "d" } "e": {}"#;
        let members: Vec<String> = pieces(text, 3, 99, Until::Brace, 1);
        let wanted = [r#""a" : {"x": "}]"}"#, r#""b\"":[1, {}]"#, r#""c":7"#, r#""d""#];
        let mut elements = Elements::new(Window::new(Trickle(text.as_bytes(), 3), 0), 99, Until::Brace, 1);
        for (at, wanted) in wanted.iter().enumerate() {
            let Some(Piece::Text { offset, bytes, ended: true }) = elements.next().unwrap() else {
                panic!("{at}")
            };
            assert_eq!(std::str::from_utf8(bytes).unwrap(), *wanted);
            assert!(text[usize::try_from(offset).unwrap()..].starts_with(wanted));
        }
        assert!(elements.next().unwrap().is_none() && members.len() == wanted.len());
        for (torn, count) in [(r#""a": {"x""#, 1), (r#""a": {}, "b"#, 2), (r#""a": {},"#, 2), (r#""a": "#, 1)]
        {
            let found = pieces(torn, 2, 99, Until::Brace, 1);
            let last = found.last().unwrap();
            assert!(
                found.len() == count && (last.contains("ended: false") || last.contains("Cut")),
                "{torn}: {found:?}"
            );
        }
        assert_eq!(pieces(r#""a": {"long": 1}, "b": 2}"#, 2, 9, Until::Brace, 1).len(), 2);
    }

    #[test]
    fn an_array_that_is_not_closed_ends_in_one_piece_that_says_so() {
        for (text, count, last) in
            [("1, 2", 3, "Cut"), ("1, [2", 2, "ended: false"), ("", 1, "Cut"), ("1]", 1, "ended: true")]
        {
            let found = pieces(text, 2, 99, Until::Stream, 1);
            assert!(found.len() == count && found[count - 1].contains(last), "{text}: {found:?}");
        }
    }
}
