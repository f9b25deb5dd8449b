//! Rows of a data set before it is written: drawn, parsed, cleaned, and replaced if they failed.

use std::borrow::Cow;
use std::collections::BTreeMap;

use karl_redact::secrets::SecretCounts;

use super::directory::{FileLine, num_bytes};
use super::row::{RowText, SessionKeys};
use super::shape::Shape;
use crate::cancel::Watch;
use crate::columns::Place;
use crate::conversation::Flaw;
use crate::error::Result;
use crate::log::Log;
use crate::second_pass::{RecordAtRest, fetch};

/// Maximum number of failed records reported with their places; all are counted.
pub(super) const FAILED_TOLD: usize = 10;

/// Rows of a data set.
#[derive(Debug, Default)]
pub struct Draft {
    /// Log row of each row, once, in the order of the draw.
    pub rows: Vec<u32>,
    /// Number of copies of each.
    pub copies: Vec<u32>,
    /// Text of each, without its line end; `None` if the record is read as it is written.
    pub lines: Vec<Option<String>>,
    /// Hash of the prompt of each, if it has no group and rows go to several splits.
    pub(super) prompts: Vec<Option<u128>>,
    /// Session of each, if rows go to several splits and it has one.
    pub(super) sessions: Vec<Option<SessionKeys>>,
    /// Number of rows made of a record with a key twice in one object.
    pub doubled_rows: u64,
    /// True if records that are read again were not validated.
    pub(super) unread: bool,
    /// Chosen records that were not written, by reason.
    pub dropped: BTreeMap<Flaw, u64>,
    /// Number of them with media beside the conversation, by their kind.
    pub media: BTreeMap<&'static str, u64>,
    /// First of them in the log, in order of place, if they are in files.
    pub failed: Vec<(Flaw, Place)>,
    /// Number of records skipped because their group was full.
    pub over_group_cap: u64,
    /// Number of rows whose text another row of their group has too; copies of one record are not counted.
    pub duplicates: u64,
    /// Number of rows that lost messages after their last assistant turn.
    pub trimmed_rows: u64,
    /// Number of messages they lost.
    pub trimmed_messages: u64,
    /// Number of messages without their reasoning, which the shape has no key for.
    pub reasoning_left_out: u64,
    /// Reward above which an answer has the label true, if rows have labels.
    pub label_above: Option<f64>,
    /// Replaced secrets, by family.
    pub secrets: SecretCounts,
    /// Shape of the rows.
    pub shape: Option<Shape>,
    /// Key of the first row that was not drawn; `None` if every row was.
    pub threshold: Option<f64>,
}

impl Draft {
    /// Return the log row of each row to write, repeated as often as it was drawn, copies adjacent.
    #[must_use]
    pub fn drawn(&self) -> Vec<u32> {
        let each = self.rows.iter().zip(&self.copies);
        each.flat_map(|(&row, &copies)| std::iter::repeat_n(row, copies as usize)).collect()
    }

    /// Return whether all texts are held, so that the log is no longer needed.
    #[must_use]
    pub fn holds_all(&self) -> bool {
        self.lines.iter().all(Option::is_some)
    }

    /// Return the texts of some rows, without line ends; the log is that of the draft, needed unless all are
    /// held. Without it, texts that are not held are left out.
    ///
    /// # Errors
    /// As [`fetch`].
    pub fn texts(
        &self,
        log: Option<&Log>,
        lines: &[usize],
        threads: usize,
        watch: &Watch,
    ) -> Result<Vec<Cow<'_, str>>> {
        let again: Vec<u32> =
            lines.iter().filter(|&&line| self.lines[line].is_none()).map(|&line| self.rows[line]).collect();
        let again = log.map(|log| fetch(log, &again, threads, watch)).transpose()?;
        let mut again = again.unwrap_or_default().into_iter();
        let text = |&line: &usize| match &self.lines[line] {
            Some(text) => Some(Cow::Borrowed(text.as_str())),
            None => again.next().map(|bytes| Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())),
        };
        Ok(lines.iter().filter_map(text).collect())
    }

    /// Return some rows as the lines of a file; the log as for `texts`.
    #[must_use]
    pub fn written<'a>(&'a self, log: Option<&'a Log>, lines: &[usize]) -> Vec<FileLine<'a>> {
        let line = |&line: &usize| match &self.lines[line] {
            Some(text) => Some(FileLine::Text(text)),
            None => RecordAtRest::new(log?, self.rows[line], self.unread).map(FileLine::Record),
        };
        lines.iter().filter_map(line).collect()
    }

    /// Return the number of bytes of some rows in a file; the log as for `texts`.
    #[must_use]
    pub fn bytes(&self, log: Option<&Log>, lines: &[usize]) -> u64 {
        num_bytes(&self.written(log, lines))
    }

    /// Set the number of copies of each row in the data set.
    pub fn copy(&mut self, copies: impl Fn(u32) -> u32) {
        for ((&row, count), line) in self.rows.iter().zip(&mut self.copies).zip(&mut self.lines) {
            *count = copies(row);
            if let Some(line) = line.as_mut().filter(|_| self.shape != Some(Shape::Raw)) {
                RowText::say_copies(line, *count);
            }
        }
    }

    /// Count chosen records that were not written.
    pub(super) fn fail(&mut self, log: &Log, rows: &[(u32, Flaw)]) {
        for &(_, flaw) in rows {
            *self.dropped.entry(flaw.counted()).or_default() += 1;
            if let Some(kind) = flaw.media() {
                *self.media.entry(kind).or_default() += 1;
            }
        }
        let files = log.streamed.is_none();
        let place = |&(row, flaw): &(u32, Flaw)| Some((flaw, log.place(row).filter(|_| files)?));
        self.failed = rows.iter().filter_map(place).collect();
        self.failed.sort_unstable_by_key(|(_, place)| (place.input, place.offset));
        self.failed.truncate(FAILED_TOLD);
    }

    pub(super) fn add(&mut self, row: u32, copies: u32, line: RowText, tools: bool) {
        self.rows.push(row);
        self.copies.push(copies);
        self.prompts.push(line.prompt);
        self.sessions.push(line.session);
        self.doubled_rows += u64::from(line.doubled);
        self.lines.push(line.text.map(|text| {
            let lacks_tools = tools && !line.tools && self.shape.is_none_or(Shape::has_null_tools);
            let mut text = if lacks_tools { RowText::without_tools(&text) } else { text };
            if self.shape != Some(Shape::Raw) {
                RowText::say_copies(&mut text, copies);
            }
            text
        }));
        self.trimmed_rows += u64::from(line.trimmed > 0);
        self.trimmed_messages += line.trimmed;
        self.reasoning_left_out += line.reasoning_left_out;
        for (family, count) in line.secrets {
            *self.secrets.entry(family).or_default() += count;
        }
    }
}
