//! Lines of which some hold arrays, or begin a record that goes on over more lines.

use std::io::{self, Read};

use super::values::{NextValue, Values};
use super::{Batch, Lines, Texts};

/// The texts of a file of lines. Whole lines are handed over as they are; where one does not hold what it should, its
/// reader asks to [open](Self::open) it.
#[derive(Debug)]
pub(crate) struct JsonLines<R> {
    lines: Lines<R>,
    /// The values of a line that was opened.
    opened: Option<Values>,
    /// Whether the stream is a range of a file, of which no other may hold a part of the same record.
    is_range: bool,
    /// Line ends that were passed inside of arrays and records since they were last asked for.
    passed: u64,
}

impl<R: Read> JsonLines<R> {
    pub(crate) fn new(lines: Lines<R>, is_range: bool) -> Self {
        Self { lines, opened: None, is_range, passed: 0 }
    }

    /// The next texts: one, or all lines that are at hand where `together`.
    pub(super) fn next(&mut self, together: bool) -> io::Result<Option<Batch<'_>>> {
        let opened = loop {
            let opened = self.next_opened()?;
            let ready = opened.is_some() || (together && self.lines.whole().is_some());
            if ready || !self.lines.begins_array()? {
                break opened;
            }
            // An array is no line that can be too long.
            self.opened = Some(Values::of_line(self.lines.window.offset()));
            self.passed += 1;
        };
        let passed = std::mem::take(&mut self.passed);
        let texts = match opened {
            Some(NextValue::End) => Some(Texts::Beyond),
            Some(found) => found.piece(&mut self.lines.window).map(Texts::Value),
            None => match self.lines.whole().filter(|_| together) {
                Some(length) => Some(Texts::Lines(self.lines.take(length))),
                None => self.lines.next()?.map(Texts::One),
            },
        };
        Ok(texts.map(|texts| Batch { texts, passed }))
    }

    /// What comes next in a line that was opened, if one is; [`NextValue::End`] where it is not for this range alone to say.
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

    /// Goes back to a place in the text that was handed over last, and reads on there value by value to the end of the
    /// line, or to where the last of them ends.
    pub(crate) fn open(&mut self, offset: u64) {
        self.lines.window.back_to(offset);
        self.opened = Some(Values::of_line(offset));
    }
}
