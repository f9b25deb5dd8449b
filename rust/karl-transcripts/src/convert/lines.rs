//! Records of a line of a transcript, with counts of the invalid ones.

use std::ops::Range;

use karl_log::framing::StreamError;
use karl_log::framing::record_texts::each_record;
use karl_log::framing::{Batch, Pieces, TextBatch};
use karl_log::input::source::Stream;
use karl_log::json::project::{Path, PathTree, Scan, ScanFault};
use karl_log::rejects::FileTally;

/// Pass each record of a stream with its place to `take`, which returns its end.
///
/// # Errors
/// Errors of the reader, and those of `advance`, which counts bytes.
pub(super) fn each(
    mut pieces: Pieces<Stream<'_>>,
    tally: &mut FileTally,
    advance: impl Fn(u64) -> karl_log::error::Result<()>,
    mut take: impl FnMut(&[u8], u64) -> Result<usize, ScanFault>,
) -> Result<(), StreamError> {
    while let Some(Batch { texts, passed }) = pieces.next_alone().map_err(StreamError::Read)? {
        if matches!(texts, TextBatch::Beyond) {
            return Err(StreamError::Beyond);
        }
        tally.lines += passed;
        let length = texts.num_bytes() as u64;
        let open = texts.one(tally).and_then(|text| {
            each_record(text, tally, |bytes, offset, tally| {
                let end = take(bytes, offset)?;
                tally.rows += 1;
                Ok(end)
            })
        });
        pieces.open(open);
        advance(length).map_err(StreamError::Other)?;
    }
    advance(0).map_err(StreamError::Other)
}

/// Raw values of some keys.
type KeyValues<'r, const N: usize> = [Option<&'r [u8]>; N];

/// Keys of objects, looked up together.
pub(super) struct ObjectKeys {
    scan: Scan,
    values: Vec<Option<Range<usize>>>,
}

impl ObjectKeys {
    pub(super) fn new(paths: &[&str]) -> Self {
        let paths: Vec<Path> = paths.iter().filter_map(|path| Path::parse(path).ok()).collect();
        let values = vec![None; paths.len()];
        Self { scan: Scan::new(PathTree::new(&paths)), values }
    }

    /// Return the values of the keys in their given order, and the end of the object.
    pub(super) fn first<'r, const N: usize>(
        &mut self,
        bytes: &'r [u8],
    ) -> Result<(KeyValues<'r, N>, usize), ScanFault> {
        let end = self.scan.object(bytes, &mut self.values)?.end;
        let mut found = [None; N];
        for (slot, range) in found.iter_mut().zip(&self.values) {
            *slot = range.clone().and_then(|range| bytes.get(range));
        }
        Ok((found, end))
    }

    /// Return the same for a text that is one object; None if it is not.
    pub(super) fn of<'r, const N: usize>(&mut self, object: &'r [u8]) -> Option<KeyValues<'r, N>> {
        self.first(object).ok().map(|(found, _)| found)
    }
}
