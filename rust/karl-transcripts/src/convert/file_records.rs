//! All records of a file that is read as a whole: its lines, or the document that fills it; and what became of each.

use karl_log::cancel::Watch;
use karl_log::detect::{FileLayout, records};
use karl_log::error::Result;
use karl_log::input::source::Source;
use karl_log::json::reference_parser;
use karl_log::rejects::FileTally;
use serde_json::Value;

use super::json::{OBJECT, ObjectKeys, damaged, each, mended};
use super::report::{DAMAGED, LineCounts, NO_CONVERSATION, count_type};

/// Record of a file.
#[derive(Debug)]
pub(super) struct FileRecord {
    pub(super) value: Value,
    /// Place of its first byte in the unpacked file.
    pub(super) offset: u64,
}

/// Records of one file of a product whose sessions are spread over files.
pub(super) struct PooledFile {
    pub(super) name: String,
    pub(super) records: Vec<FileRecord>,
}

/// Read every record of a file; damaged ones are in its tally, and those with damage inside a value are dropped.
///
/// # Errors
/// [`Error::Io`](karl_log::Error::Io), [`Error::Interrupted`](karl_log::Error::Interrupted).
pub(super) fn read_records(
    source: &Source,
    limit: usize,
    tally: &mut FileTally,
    watch: &Watch,
    advance: impl Fn(u64) -> Result<()>,
    counts: &mut LineCounts,
) -> Result<Vec<FileRecord>> {
    let io = |error| source.failed("read", error);
    let stream = source.undamaged(watch).map_err(io)?;
    let pieces = records(stream, &FileLayout::Values, limit).map_err(io)?;
    let mut keys = ObjectKeys::new(&["type"]);
    let mut all = Vec::new();
    let read = each(pieces, tally, advance, |bytes, offset| {
        let (_, end) = keys.first::<1>(bytes)?;
        let parsed = mended(&bytes[..end], counts).and_then(|text| reference_parser::parse(&text).ok());
        if let Some(value) = parsed {
            all.push(FileRecord { value, offset });
        } else {
            let reason = damaged(OBJECT, "the record", counts);
            counts.locate(&source.name, offset);
            counts.drop_line(reason);
            count_type(&mut counts.types, DAMAGED, 1);
        }
        Ok(end)
    });
    read.map_err(|fail| fail.of(source))?;
    Ok(all)
}

/// What became of each of some records.
pub(super) struct Fates(Vec<Fate>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Used,
    Duplicate,
    Dropped(&'static str),
}

impl Fates {
    /// Begin with records that are none of a conversation.
    pub(super) fn new(count: usize) -> Self {
        Self(vec![Fate::Dropped(NO_CONVERSATION); count])
    }

    /// Note that a record is a message or a part of one.
    pub(super) fn keep(&mut self, at: usize) {
        self.0[at] = Fate::Used;
    }

    /// Note that another record has its content.
    pub(super) fn repeat(&mut self, at: usize) {
        self.0[at] = Fate::Duplicate;
    }

    /// Note why a record is left out.
    pub(super) fn drop(&mut self, at: usize, reason: &'static str) {
        self.0[at] = Fate::Dropped(reason);
    }

    /// Note the outcome of a record.
    pub(super) fn set(&mut self, at: usize, outcome: std::result::Result<(), &'static str>) {
        self.0[at] = outcome.map_or_else(Fate::Dropped, |()| Fate::Used);
    }

    /// Count all records.
    pub(super) fn count(&self, counts: &mut LineCounts) {
        for fate in &self.0 {
            match fate {
                Fate::Used => counts.used += 1,
                Fate::Duplicate => counts.duplicates += 1,
                Fate::Dropped(reason) => counts.drop_line(reason),
            }
        }
    }
}
