//! Lines of a stream: each a record, or the begin of an array or of a record that spans several lines.
//!
//! A plain file is read in [ranges](RangeTask) of bytes by several threads; a line belongs to the range in which it
//! begins. Lines in the buffer are taken together; record `log::split_lines` of `benches/record/instructions.json`
//! takes them one by one.

use std::io::{self, Read};

use memchr::{memchr, memrchr};

use super::record_texts::RecordText;
use super::values::{Elements, NextValue, Values};
use super::window::{MARK, Piece, ValueEnd, Window};
use crate::cancel::Watch;
use crate::error::Error;
use crate::input::codec::Codec;
use crate::input::source::{Source, Stream, Watched};
use crate::rejects::FileTally;

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

/// Bytes per range of a plain file: small enough that a slow core does not delay the others.
pub const RANGE: u64 = 8 << 20;

/// Records of one file that begin in a range of its bytes.
#[derive(Clone, Copy)]
pub struct RangeTask {
    /// Index of the file.
    pub input: usize,
    start: u64,
    end: u64,
    /// True if the file has other ranges.
    is_range: bool,
}

impl RangeTask {
    /// Return a task for the whole file.
    #[must_use]
    pub fn whole(input: usize) -> Self {
        Self { input, start: 0, end: u64::MAX, is_range: false }
    }
}

/// Split a file of lines into ranges of `length` bytes; a packed file is one range.
#[must_use]
pub fn split_into_ranges(input: usize, source: &Source, length: u64) -> Vec<RangeTask> {
    let size = source.size;
    if source.codec != Codec::Plain || size == 0 {
        // A file of size zero is empty, or a system file without a known size.
        return vec![RangeTask::whole(input)];
    }
    let count = size.div_ceil(length);
    let range = |at: u64| {
        let end = size.min((at + 1).saturating_mul(length));
        RangeTask { input, start: at * length, end, is_range: count > 1 }
    };
    (0..count).map(range).collect()
}

/// Return the texts of a range.
///
/// # Errors
/// [`StreamError`] if the file cannot be opened.
pub fn open_range<'w>(
    source: &Source,
    task: RangeTask,
    limit: usize,
    watch: &'w Watch,
) -> Result<Pieces<Stream<'w>>, StreamError> {
    let mut lines = open_lines(source, task, limit, watch)?;
    if task.start == 0 {
        lines.skip_mark().map_err(StreamError::Read)?;
    }
    Ok(Pieces::Lines(JsonLines::new(lines, task.is_range)))
}

/// Return the lines of a range, each on its own, as they stand in the file.
pub(crate) fn open_lines<'w>(
    source: &Source,
    task: RangeTask,
    limit: usize,
    watch: &'w Watch,
) -> Result<Lines<Stream<'w>>, StreamError> {
    if task.start == 0 {
        let reader = source.reader(watch).map_err(StreamError::Other)?;
        return Ok(Lines::new(reader, 0, task.end, limit));
    }
    // One byte earlier: a line that begins exactly at the cut belongs to this range.
    let start = task.start - 1;
    let file = source.reader_at(start).map_err(StreamError::Other)?;
    let reader: Stream<'w> = Box::new(Watched::new(file, watch));
    let mut lines = Lines::new(reader, start, task.end, limit);
    lines.skip_line().map_err(StreamError::Read)?;
    Ok(lines)
}

/// Texts of a file of lines. Whole lines are handed over unchanged; if one is not a single record, its reader
/// asks to open it.
#[derive(Debug)]
pub struct JsonLines<R> {
    lines: Lines<R>,
    /// Values of an opened line.
    opened: Option<Values>,
    /// True if the stream is a range of a file; no other range may hold a part of the same record.
    is_range: bool,
    /// Line ends skipped inside arrays and records since the last query.
    passed: u64,
}

impl<R: Read> JsonLines<R> {
    pub(crate) fn new(lines: Lines<R>, is_range: bool) -> Self {
        Self { lines, opened: None, is_range, passed: 0 }
    }

    /// Return the next texts: one, or all complete lines in the buffer if `together`.
    pub(super) fn next(&mut self, together: bool) -> io::Result<Option<Batch<'_>>> {
        let opened = loop {
            let opened = self.next_opened()?;
            let ready = opened.is_some() || (together && self.lines.whole().is_some());
            if ready || !self.lines.begins_array()? {
                break opened;
            }
            // An array is not subject to the limit on lines.
            self.opened = Some(Values::of_line(self.lines.window.offset()));
            self.passed += 1;
        };
        let passed = std::mem::take(&mut self.passed);
        let texts = match opened {
            Some(NextValue::End) => Some(TextBatch::Beyond),
            Some(found) => found.piece(&mut self.lines.window).map(TextBatch::Value),
            None => match self.lines.whole().filter(|_| together) {
                Some(length) => Some(TextBatch::Lines(self.lines.take(length))),
                None => self.lines.next()?.map(TextBatch::One),
            },
        };
        Ok(texts.map(|texts| Batch { texts, passed }))
    }

    /// Return the next value of an opened line; [`NextValue::End`] if this range alone cannot decide.
    fn next_opened(&mut self) -> io::Result<Option<NextValue>> {
        let Some(values) = &mut self.opened else { return Ok(None) };
        let next = values.next(&mut self.lines.window, self.lines.limit)?;
        self.passed += values.before;
        if self.is_range && values.is_beyond_line(&next) {
            return Ok(Some(NextValue::End));
        }
        if matches!(next, NextValue::End) {
            self.opened = None;
            return Ok(None);
        }
        Ok(Some(next))
    }

    /// Go back to an offset in the last text, and read value by value from there to the end of the line, or
    /// to the end of the last value.
    pub(crate) fn open(&mut self, offset: u64) {
        self.lines.window.back_to(offset);
        self.opened = Some(Values::of_line(offset));
    }
}

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

/// Reason why a stream cannot be read further.
pub enum StreamError {
    /// The reader failed.
    Read(io::Error),
    /// The run was stopped, or failed elsewhere.
    Other(Error),
    /// Sign that a record, or an array of records, spans several lines of a range.
    Beyond,
}

impl StreamError {
    /// Convert to the error of a file that is read as a whole.
    #[must_use]
    pub fn of(self, source: &Source) -> Error {
        match self {
            Self::Read(error) => source.failed("read", error),
            Self::Other(error) => error,
            Self::Beyond => source.failed("read", io::Error::other("a record goes on beyond its range")),
        }
    }
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
