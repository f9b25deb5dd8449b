//! The rows of a data set before it is written: drawn, parsed, cleaned, and replaced where they failed.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::file;
use super::render::Shape;
use super::row::RowText;
use crate::cancel::Watch;
use crate::columns::Place;
use crate::conversation::Flaw;
use crate::error::Result;
use crate::fetch::{RecordAtRest, fetch};
use crate::log::Log;
use crate::secrets::SecretCounts;

/// How many chosen records that were not written are told with their places; all are counted.
pub(super) const FAILED_TOLD: usize = 10;

/// The rows of a data set.
#[derive(Debug, Default)]
pub struct Draft {
    /// The log's row of each, once, in the order of the draw.
    pub rows: Vec<u32>,
    /// How often each was drawn.
    pub copies: Vec<u32>,
    /// The text of each, without its line end; none where the record is read for it as it is written.
    pub lines: Vec<Option<String>>,
    /// The hash of the prompt of each, where it has no group and rows are to be dealt into several splits.
    pub(super) prompts: Vec<Option<u128>>,
    /// Whether records that are read again have not been judged.
    pub(super) unread: bool,
    /// Chosen records that were not written, by reason.
    pub dropped: BTreeMap<Flaw, u64>,
    /// The first of them in the log, in order of place, where they lie in files.
    pub failed: Vec<(Flaw, Place)>,
    /// Records that were passed over because their group had all the rows it may have.
    pub over_group_cap: u64,
    /// Rows that lost messages after their last assistant turn.
    pub trimmed_rows: u64,
    /// The messages they lost.
    pub trimmed_messages: u64,
    /// Secrets that were replaced, by family.
    pub secrets: SecretCounts,
    /// What the rows look like.
    pub shape: Option<Shape>,
    /// The key of the first row that was not drawn; none where every row was.
    pub threshold: Option<f64>,
}

impl Draft {
    /// The log's row of each row to write: as often as it was drawn, copies side by side.
    #[must_use]
    pub fn drawn(&self) -> Vec<u32> {
        let each = self.rows.iter().zip(&self.copies);
        each.flat_map(|(&row, &copies)| std::iter::repeat_n(row, copies as usize)).collect()
    }

    /// Whether all texts are held, so that the log is not needed any more.
    #[must_use]
    pub fn holds_all(&self) -> bool {
        self.lines.iter().all(Option::is_some)
    }

    /// The texts of some rows, without line ends; the log is that of the draft, needed unless all are held. Without it
    /// the texts that are not are left out.
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

    /// Some rows as the lines of a file; the log as for `texts`.
    #[must_use]
    pub fn written<'a>(&'a self, log: Option<&'a Log>, lines: &[usize]) -> Vec<file::FileLine<'a>> {
        let line = |&line: &usize| match &self.lines[line] {
            Some(text) => Some(file::FileLine::Text(text)),
            None => RecordAtRest::new(log?, self.rows[line], self.unread).map(file::FileLine::Record),
        };
        lines.iter().filter_map(line).collect()
    }

    /// How many bytes some rows take in a file; the log as for `texts`.
    #[must_use]
    pub fn bytes(&self, log: Option<&Log>, lines: &[usize]) -> u64 {
        file::bytes(&self.written(log, lines))
    }

    /// Says how often each row is to stand in the data set.
    pub fn copy(&mut self, copies: impl Fn(u32) -> u32) {
        for ((&row, count), line) in self.rows.iter().zip(&mut self.copies).zip(&mut self.lines) {
            *count = copies(row);
            if let Some(line) = line.as_mut().filter(|_| self.shape != Some(Shape::Raw)) {
                RowText::say_copies(line, *count);
            }
        }
    }

    /// Counts chosen records that were not written.
    pub(super) fn fail(&mut self, log: &Log, rows: &[(u32, Flaw)]) {
        for &(_, flaw) in rows {
            *self.dropped.entry(flaw).or_default() += 1;
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
        self.lines.push(line.text.map(|text| {
            let mut text = if tools && !line.tools { RowText::without_tools(&text) } else { text };
            if self.shape != Some(Shape::Raw) {
                RowText::say_copies(&mut text, copies);
            }
            text
        }));
        self.trimmed_rows += u64::from(line.trimmed > 0);
        self.trimmed_messages += line.trimmed;
        for (family, count) in line.secrets {
            *self.secrets.entry(family).or_default() += count;
        }
    }
}
