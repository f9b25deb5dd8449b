//! Lines of a stream.

use std::io::{self, Read};

use memchr::{memchr, memrchr};

use super::window::MARK;
use super::{Piece, ValueEnd, WholeLines, Window};

/// Maximum bytes of lines taken together: between two such batches the caller checks for cancellation.
const AT_ONCE: usize = 1 << 18;

/// Lines of a stream, blank ones included.
#[derive(Debug)]
pub struct Lines<R> {
    pub(super) window: Window<R>,
    until: u64,
    pub(super) limit: usize,
}

impl<R: Read> Lines<R> {
    /// Return the lines that begin before `until`; `offset` is the position of the reader's first byte, which
    /// begins a line.
    pub fn new(reader: R, offset: u64, until: u64, limit: usize) -> Self {
        Self { window: Window::new(reader, offset), until, limit }
    }

    /// Skip the rest of a line that began before this stream, or all of the stream if no line begins in it: a
    /// line may span many ranges, and not each of them should search for its end.
    ///
    /// # Errors
    /// Errors of the reader.
    pub fn skip_line(&mut self) -> io::Result<()> {
        loop {
            match memchr(b'\n', self.window.bytes()) {
                Some(found) => break self.window.consume(found + 1),
                None => self.window.clear(),
            }
            if self.window.offset() >= self.until || !self.window.fill()? {
                break;
            }
        }
        Ok(())
    }

    /// Skip a byte order mark.
    ///
    /// # Errors
    /// Errors of the reader.
    pub fn skip_mark(&mut self) -> io::Result<()> {
        self.window.skip_mark()
    }

    /// Return whether the next line begins with a bracket.
    pub(super) fn begins_array(&mut self) -> io::Result<bool> {
        if self.window.offset() >= self.until || (self.window.bytes().is_empty() && !self.window.fill()?) {
            return Ok(false);
        }
        Ok(begins_array(self.window.bytes()))
    }

    /// Return the byte length of the complete lines in the window, with their ends; `None` if the next line
    /// is incomplete or no line is left.
    pub(crate) fn whole(&self) -> Option<usize> {
        let bytes = self.window.bytes();
        let near = &bytes[..bytes.len().min(AT_ONCE)];
        let left = usize::try_from(self.until.saturating_sub(self.window.offset())).unwrap_or(usize::MAX);
        let end = if left > near.len() {
            memrchr(b'\n', near)?
        } else {
            // The last line begins before the end and extends beyond it; if it needs more bytes, the others
            // come first.
            let last = left.checked_sub(1)?;
            let found = memchr(b'\n', &bytes[last..]).map(|found| last + found);
            found.or_else(|| memrchr(b'\n', &bytes[..last]))?
        };
        Some(end + 1)
    }

    /// Take lines of so many bytes together, which have to be [whole](Self::whole).
    pub(crate) fn take(&mut self, length: usize) -> WholeLines<'_> {
        let (offset, limit) = (self.window.offset(), self.limit);
        WholeLines { offset, text: self.window.take(length, length), limit }
    }

    /// Return the next line.
    ///
    /// # Errors
    /// Errors of the reader.
    #[expect(clippy::should_implement_trait, reason = "a piece borrows from the stream")]
    pub fn next(&mut self) -> io::Result<Option<Piece<'_>>> {
        let offset = self.window.offset();
        if offset >= self.until || (self.window.bytes().is_empty() && !self.window.fill()?) {
            return Ok(None);
        }
        Ok(Some(match self.find_end(self.limit)? {
            ValueEnd::Passed => Piece::TooLong { offset },
            ValueEnd::Kept(length) => self.piece(offset, length, length + 1, true),
            ValueEnd::Torn(length) => self.piece(offset, length, length, false),
        }))
    }

    fn piece(&mut self, offset: u64, length: usize, consumed: usize, ended: bool) -> Piece<'_> {
        let line = self.window.take(length, consumed);
        Piece::Text { offset, bytes: without_return(line), ended }
    }

    /// Return the length of the line at the window's start, or `Passed` (consumed) if it exceeds `limit`.
    fn find_end(&mut self, limit: usize) -> io::Result<ValueEnd> {
        let mut seen = 0;
        let mut passing = false;
        loop {
            if let Some(found) = memchr(b'\n', &self.window.bytes()[seen..]) {
                let length = seen + found;
                return Ok(if passing || length > limit {
                    self.window.past(length + 1)
                } else {
                    ValueEnd::Kept(length)
                });
            }
            seen = self.window.bytes().len();
            passing |= seen > limit;
            if passing {
                self.window.consume(seen);
                seen = 0;
            }
            if !self.window.fill()? {
                return Ok(if passing { ValueEnd::Passed } else { ValueEnd::Torn(seen) });
            }
        }
    }
}

/// Return whether a line begins with a bracket.
pub(crate) fn begins_array(line: &[u8]) -> bool {
    let line = line.strip_prefix(MARK).unwrap_or(line);
    line.iter().find(|byte| !matches!(byte, b' ' | b'\t')) == Some(&b'[')
}

/// Return a line without the carriage return of a CRLF line end.
pub(crate) fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reader that returns so many bytes per call.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let most = out.len().min(self.1);
            self.0.read(&mut out[..most])
        }
    }

    /// Return every line separately, with its offset.
    fn alone(mut lines: Lines<impl Read>) -> Vec<String> {
        std::iter::from_fn(|| lines.next().unwrap().map(|piece| format!("{piece:?}"))).collect()
    }

    /// Return every line, complete ones together, and the number of reads that found no complete line.
    fn together(mut lines: Lines<impl Read>) -> (Vec<String>, usize) {
        let (mut all, mut single) = (Vec::new(), 0);
        loop {
            while let Some(length) = lines.whole() {
                let WholeLines { mut offset, text, .. } = lines.take(length);
                for line in text.split_inclusive(|&byte| byte == b'\n') {
                    let bytes = without_return(&line[..line.len() - 1]);
                    all.push(format!("{:?}", Piece::Text { offset, bytes, ended: true }));
                    offset += line.len() as u64;
                }
            }
            let Some(piece) = lines.next().unwrap() else { return (all, single) };
            all.push(format!("{piece:?}"));
            single += 1;
        }
    }

    proptest! {
        #[test]
        fn lines_taken_together_are_those_taken_alone(
            text in prop::collection::vec(prop::sample::select(b"ab\r\n".to_vec()), 0..300),
            until in 0_u64..320, step in 1_usize..90,
        ) {
            let lines = |step| Lines::new(Trickle(&text, step), 0, until, usize::MAX);
            prop_assert_eq!(together(lines(step)).0, alone(lines(usize::MAX)));
        }
    }

    #[test]
    fn a_line_that_crosses_the_end_is_looked_for_once_and_not_once_a_line() {
        let text =
            [&b"\n".repeat(AT_ONCE)[..], &b"x".repeat(3 * AT_ONCE), b"\n", &b"\n".repeat(AT_ONCE), b"yyy"]
                .concat();
        for until in [AT_ONCE / 2, 4 * AT_ONCE + 5, 5 * AT_ONCE + 2, 5 * AT_ONCE + 9] {
            let lines = || Lines::new(&text[..], 0, until as u64, usize::MAX);
            let (all, single) = together(lines());
            assert_eq!(all, alone(lines()), "{until}");
            assert!(single < 10 + text.len() / (1 << 16), "{single} of {}", all.len());
        }
    }
}
