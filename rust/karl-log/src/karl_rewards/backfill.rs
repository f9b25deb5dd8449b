//! Rewards into the records of a store.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use super::annotate::{Annotator, Backfill, LineOutcome};
use super::blocks::{blocks, lines, pieces};
use super::store::{BLOCK, SHARE};
use crate::cancel::Watch;
use crate::error::{Error, Result};
use crate::parallel;

/// Counts of a backfill, without the lines that Python decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backfilled {
    /// Lines, Python's too.
    pub total: usize,
    /// Records that were given a reward.
    pub scored: usize,
    /// Records that had one.
    pub skipped: usize,
}

/// Write the lines of a store to another file: a scored record as Python's `json.dumps` writes it, every other line as it
/// is. `python` returns the new line for a line that depends on limits of the interpreter, or on Python's equality of
/// values.
///
/// Memory: 16 MiB, or twice the longest line.
///
/// # Errors
/// [`Error::Io`] if a file cannot be read or written; [`Error::Interrupted`] on cancellation; the error of `python`.
pub fn backfill(
    store: &Path,
    new: &Path,
    settings: &Backfill<'_>,
    threads: usize,
    watch: &Watch,
    mut python: impl FnMut(&[u8]) -> Result<Vec<u8>>,
) -> Result<Backfilled> {
    let file = File::open(store).map_err(|error| Error::io("open", store, error))?;
    let io = |error| Error::io("write", new, error);
    let mut out = File::options().append(true).open(new).map_err(io)?;
    let mut counts = Backfilled::default();
    blocks(file, BLOCK, store, watch, |text| {
        for piece in
            parallel::map(numbered(text, counts.total), threads, |(text, at)| Piece::of(text, at, settings))
        {
            counts.add(piece.counts);
            let mut written = 0;
            for (at, line) in piece.python {
                out.write_all(&piece.out[written..at]).map_err(io)?;
                out.write_all(&python(line)?).map_err(io)?;
                written = at;
            }
            out.write_all(&piece.out[written..]).map_err(io)?;
        }
        Ok(())
    })?;
    Ok(counts)
}

/// Return the pieces of a text, each with the number of its first line.
fn numbered(text: &[u8], mut first: usize) -> Vec<(&[u8], usize)> {
    let number = |piece| {
        let at = first;
        first += memchr::memchr_iter(b'\n', piece).count();
        (piece, at)
    };
    pieces(text, SHARE).into_iter().map(number).collect()
}

/// Piece of a store, as it is written.
struct Piece<'a> {
    out: Vec<u8>,
    /// Lines that Python decides, each with its place in `out`.
    python: Vec<(usize, &'a [u8])>,
    counts: Backfilled,
}

impl<'a> Piece<'a> {
    fn of(text: &'a [u8], first: usize, settings: &Backfill<'_>) -> Self {
        let mut annotator = Annotator::new(settings);
        let out = Vec::with_capacity(text.len() + text.len() / 4);
        let mut piece = Self { out, python: Vec::new(), counts: Backfilled::default() };
        for (number, line) in lines(text).enumerate() {
            let rewarded = !settings.force && settings.rewarded.get(first + number) == Some(&1);
            let found = if rewarded { LineOutcome::Skipped } else { annotator.line(line, &mut piece.out) };
            piece.add(line, found);
        }
        piece
    }

    fn add(&mut self, line: &'a [u8], found: LineOutcome) {
        self.counts.total += 1;
        match found {
            LineOutcome::Scored => self.counts.scored += 1,
            LineOutcome::Python => self.python.push((self.out.len(), line)),
            LineOutcome::Skipped | LineOutcome::Refused => self.out.extend_from_slice(line),
        }
        self.counts.skipped += usize::from(found == LineOutcome::Skipped);
    }
}

impl Backfilled {
    fn add(&mut self, other: Self) {
        self.total += other.total;
        self.scored += other.scored;
        self.skipped += other.skipped;
    }
}
