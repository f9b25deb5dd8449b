//! The records of a line of a transcript, with the count of those that are none.

use std::ops::Range;

use crate::field::{Fault, Path, Scan, Wanted, skip_space};
use crate::scan::reason;
use crate::split::Piece;
use crate::tally::{Reason, Tally};

/// Hands over each record of a line, several where they were welded together, with its place; `take` says where it ends.
/// How many bytes the line has.
pub(super) fn each(
    piece: &Piece<'_>,
    tally: &mut Tally,
    mut take: impl FnMut(&[u8], u64) -> Result<usize, Fault>,
) -> u64 {
    tally.lines += 1;
    let (offset, bytes, ended) = match *piece {
        Piece::TooLong { offset } | Piece::Cut { offset } => {
            tally.bad(offset, Reason::TooLong);
            return 0;
        }
        Piece::Text { offset, bytes, ended } => (offset, bytes, ended),
    };
    let mut at = skip_space(bytes, 0);
    tally.blank += u64::from(at == bytes.len());
    let mut found = 0;
    while at < bytes.len() {
        let place = offset + at as u64;
        match take(&bytes[at..], place) {
            Ok(end) => at = skip_space(bytes, at + end),
            Err(fault) => {
                tally.bad(place, reason(fault, ended));
                break;
            }
        }
        tally.rows += 1;
        found += 1;
    }
    tally.welded += u64::from(found > 1);
    bytes.len() as u64 + 1
}

/// The values of some keys as they stand in the text.
type Found<'r, const N: usize> = [Option<&'r [u8]>; N];

/// Some keys of objects, looked up together.
pub(super) struct Keys {
    scan: Scan,
    values: Vec<Option<Range<usize>>>,
}

impl Keys {
    pub(super) fn new(paths: &[&str]) -> Self {
        let paths: Vec<Path> = paths.iter().filter_map(|path| Path::parse(path).ok()).collect();
        let values = vec![None; paths.len()];
        Self { scan: Scan::new(Wanted::new(&paths)), values }
    }

    /// The values of the keys in the order in which they were named, and where the object ends.
    pub(super) fn first<'r, const N: usize>(
        &mut self,
        bytes: &'r [u8],
    ) -> Result<(Found<'r, N>, usize), Fault> {
        let end = self.scan.object(bytes, &mut self.values)?.end;
        let mut found = [None; N];
        for (slot, range) in found.iter_mut().zip(&self.values) {
            *slot = range.clone().and_then(|range| bytes.get(range));
        }
        Ok((found, end))
    }

    /// The same of a text that is one object; None where it is none.
    pub(super) fn of<'r, const N: usize>(&mut self, object: &'r [u8]) -> Option<Found<'r, N>> {
        self.first(object).ok().map(|(found, _)| found)
    }
}
