//! Rewards of a whole log.

use std::io::Read;
use std::path::Path;

use karl_reward::{Version, score};
use memchr::{memchr, memrchr};

use super::fast::FastScorer;
use super::lazy::Raw;
use crate::cancel::Watch;
use crate::error::{Error, Result};
use crate::input::source::Source;
use crate::parallel;

/// Bytes of a log in one work item.
const PIECE: usize = 1 << 20;

/// Bytes of a file read before its lines are scored.
const READ: u64 = 16 << 20;

/// Compute [`rewards`] of a file, plain or packed. Memory: 16 MiB, or the longest line if that is longer.
///
/// # Errors
/// [`Error::Io`] if the file cannot be read, or its compressed data is damaged; [`Error::Unread`] if its
/// format is not supported; [`Error::Interrupted`] on cancellation.
pub fn rewards_in(
    path: &Path,
    version: Version,
    weights: [f64; 3],
    threads: usize,
    watch: &Watch,
) -> Result<Vec<f64>> {
    let source = Source::open(path, &path.to_string_lossy())?;
    source.readable(watch)?;
    let mut stream = source.reader(watch)?;
    let (mut text, mut found) = (Vec::new(), Vec::new());
    loop {
        let read = (&mut stream).take(READ).read_to_end(&mut text);
        let read = read.map_err(|error| Error::io("read", path, error))?;
        // A stream ends early on cancellation.
        watch.advance(read as u64)?;
        let last = read == 0;
        let end = if last { text.len() } else { memrchr(b'\n', &text).map_or(0, |at| at + 1) };
        found.extend(rewards(&text[..end], version, weights, threads));
        text.drain(..end);
        if last {
            return Ok(found);
        }
    }
}

/// Compute the reward of each line of a log, without blank lines; NaN for a line without one.
///
/// See [`score`], also for `weights`. Threads share the lines in pieces; the order of the result does not
/// depend on their number. Cost: one pass over the text, and another over the events.
#[must_use]
pub fn rewards(text: &[u8], version: Version, weights: [f64; 3], threads: usize) -> Vec<f64> {
    parallel::map(pieces(text), threads, |piece| of(piece, version, weights)).concat()
}

/// Split a text after line ends.
fn pieces(mut text: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::with_capacity(text.len() / PIECE + 1);
    while let Some(found) = text.get(PIECE..).and_then(|rest| memchr(b'\n', rest)) {
        let (piece, rest) = text.split_at(PIECE + found + 1);
        pieces.push(piece);
        text = rest;
    }
    pieces.push(text);
    pieces
}

fn of(text: &[u8], version: Version, weights: [f64; 3]) -> Vec<f64> {
    let mut usual = FastScorer::new(version);
    let lines = LineSplit(text).filter(|line| !line.trim_ascii().is_empty());
    let mut reward = |line| usual.reward(line, weights).unwrap_or_else(|| odd(line, version, weights));
    lines.map(&mut reward).collect()
}

/// Compute the reward of a line of unusual shape.
fn odd(line: &[u8], version: Version, weights: [f64; 3]) -> f64 {
    let reward = Raw::of(line).and_then(|record| score(&record, version, weights));
    reward.map_or(f64::NAN, |reward| reward.score)
}

struct LineSplit<'a>(&'a [u8]);

impl<'a> Iterator for LineSplit<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let end = memchr(b'\n', self.0).unwrap_or(self.0.len());
        let (line, rest) = self.0.split_at_checked(end)?;
        if rest.is_empty() && line.is_empty() {
            return None;
        }
        self.0 = rest.get(1..).unwrap_or_default();
        Some(line)
    }
}
