//! Lines, some of which hold arrays or begin a record that spans several lines.

use std::io::{self, Read};

use super::values::{NextValue, Values};
use super::{Batch, Lines, TextBatch};

/// Texts of a file of lines. Whole lines are handed over unchanged; if one is not a single record, its reader
/// asks to [open](Self::open) it.
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
