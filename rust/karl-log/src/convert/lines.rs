//! The records of a line of a transcript, with the count of those that are none.

use std::ops::Range;

use crate::framing::StreamError;
use crate::framing::record_texts::each_record;
use crate::framing::{Batch, Pieces, Texts};
use crate::input::source::Stream;
use crate::json::project::{Fault, Path, PathTree, Scan};
use crate::rejects::Tally;

/// Hands over each record of a stream with its place; `take` says where it ends.
///
/// # Errors
/// The reader's, and those of `advance`, which counts bytes.
pub(super) fn each(
    mut pieces: Pieces<Stream<'_>>,
    tally: &mut Tally,
    advance: impl Fn(u64) -> crate::error::Result<()>,
    mut take: impl FnMut(&[u8], u64) -> Result<usize, Fault>,
) -> Result<(), StreamError> {
    while let Some(Batch { texts, passed }) = pieces.next_alone().map_err(StreamError::Read)? {
        if matches!(texts, Texts::Beyond) {
            return Err(StreamError::Beyond);
        }
        tally.lines += passed;
        let length = texts.len() as u64;
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

/// The values of some keys as they stand in the text.
type KeyValues<'r, const N: usize> = [Option<&'r [u8]>; N];

/// Some keys of objects, looked up together.
pub(super) struct Keys {
    scan: Scan,
    values: Vec<Option<Range<usize>>>,
}

impl Keys {
    pub(super) fn new(paths: &[&str]) -> Self {
        let paths: Vec<Path> = paths.iter().filter_map(|path| Path::parse(path).ok()).collect();
        let values = vec![None; paths.len()];
        Self { scan: Scan::new(PathTree::new(&paths)), values }
    }

    /// The values of the keys in the order in which they were named, and where the object ends.
    pub(super) fn first<'r, const N: usize>(
        &mut self,
        bytes: &'r [u8],
    ) -> Result<(KeyValues<'r, N>, usize), Fault> {
        let end = self.scan.object(bytes, &mut self.values)?.end;
        let mut found = [None; N];
        for (slot, range) in found.iter_mut().zip(&self.values) {
            *slot = range.clone().and_then(|range| bytes.get(range));
        }
        Ok((found, end))
    }

    /// The same of a text that is one object; None where it is none.
    pub(super) fn of<'r, const N: usize>(&mut self, object: &'r [u8]) -> Option<KeyValues<'r, N>> {
        self.first(object).ok().map(|(found, _)| found)
    }
}
