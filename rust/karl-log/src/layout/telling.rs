//! Which tool wrote a file, told by the keys of its first records.

use std::io::{self, Read};
use std::ops::Range;

use crate::error::Result;
use crate::field::{Path, Scan, Wanted, scan, skip_space};
use crate::format::{FORMATS, claimed_by};
use crate::source::Source;
use crate::split::{Extent, Lines, Piece, Window};
use crate::trusted;
use crate::watch::Watch;

/// How many records are looked at for one that tells the format.
const RECORDS_PROBED: usize = 100;

/// The keys of the telling one of the next elements: the first that some format claims, or else the first.
pub(super) fn element_keys<R: Read>(window: &mut Window<R>, limit: usize) -> io::Result<Vec<String>> {
    let mut telling = Telling::new();
    for _ in 0..RECORDS_PROBED {
        while window.peek()? == Some(b',') {
            window.consume(1);
        }
        if window.peek()? != Some(b'{') {
            break;
        }
        let Extent::Kept(length) = window.value(limit)? else { break };
        let done = telling.look(&window.bytes()[..length]);
        window.consume(length);
        if done {
            break;
        }
    }
    Ok(telling.keys)
}

/// The keys of the telling one of the first lines.
pub(super) fn line_keys(source: &Source, limit: usize, watch: &Watch) -> Result<Vec<String>> {
    let io = |error| source.failed("read", error);
    let mut lines = Lines::new(source.undamaged(watch).map_err(io)?, 0, u64::MAX, limit);
    lines.skip_mark().map_err(io)?;
    let mut telling = Telling::new();
    for _ in 0..RECORDS_PROBED {
        match lines.next().map_err(io)? {
            None => break,
            Some(Piece::Text { bytes, .. }) if telling.look(&bytes[skip_space(bytes, 0)..]) => break,
            Some(_) => {}
        }
    }
    Ok(telling.keys)
}

/// The record by which a file's format is told.
struct Telling {
    keys: Vec<String>,
    /// The keys of all signatures, what looks for them, and where it leaves them.
    signatures: Vec<&'static str>,
    scan: Scan,
    found: Vec<Option<Range<usize>>>,
}

impl Telling {
    fn new() -> Self {
        let lists = FORMATS.iter().flat_map(|format| format.signatures);
        let signatures: Vec<&str> = lists.flat_map(|keys| *keys).copied().collect();
        let paths: Vec<_> = signatures.iter().filter_map(|key| Path::parse(key).ok()).collect();
        let found = vec![None; paths.len()];
        Self { keys: Vec::new(), signatures, scan: Scan::new(Wanted::new(&paths)), found }
    }

    /// Looks at one more record; whether there is no need for another. One odd record in front must not hide what all
    /// the others are, so the first that a format claims counts more than the first.
    fn look(&mut self, text: &[u8]) -> bool {
        let claimed = self.is_claimed(text);
        if claimed || self.keys.is_empty() {
            self.keys = keys_of(text).unwrap_or_default();
        }
        claimed && !self.keys.is_empty()
    }

    /// Whether some format's signature is in an object.
    fn is_claimed(&mut self, text: &[u8]) -> bool {
        let scanned = self.scan.object(text, &mut self.found);
        let pairs = self.signatures.iter().zip(&self.found);
        let has = |key: &str| pairs.clone().any(|(known, value)| *known == key && value.is_some());
        scanned.is_ok() && claimed_by(&has).is_some()
    }
}

/// The top-level keys of an object; `None` where the text is none.
pub(crate) fn keys_of(text: &[u8]) -> Option<Vec<String>> {
    let end = scan(text, &Wanted::default(), &mut []).ok()?.end;
    trusted::keys(&text[..end]).ok()
}
