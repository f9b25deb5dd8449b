//! Rewards of a whole log.

use std::path::Path;

use karl_reward::{Version, score};

use super::blocks::{blocks, lines, pieces};
use super::fast_path::FastScorer;
use super::lazy::Raw;
use crate::cancel::Watch;
use crate::error::Result;
use crate::input::source::Source;
use crate::parallel;

/// Bytes of a log in one work item.
const PIECE: usize = 1 << 20;

/// Bytes of a file read before its lines are scored.
const READ: u64 = 16 << 20;

/// Compute [`rewards`] of a file, plain or packed. Memory: 16 MiB, or the longest line if that is longer.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io) if the file cannot be read, or its compressed data is damaged; [`Error::Unread`](crate::Error::Unread) if its
/// format is not supported; [`Error::Interrupted`](crate::Error::Interrupted) on cancellation.
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
    let mut found = Vec::new();
    blocks(&mut stream, READ, path, watch, |text| {
        found.extend(rewards(text, version, weights, threads));
        Ok(())
    })?;
    Ok(found)
}

/// Compute the reward of each line of a log, without blank lines; NaN for a line without one.
///
/// See [`score`], also for `weights`. Threads share the lines in pieces; the order of the result does not
/// depend on their number. Cost: one pass over the text, and another over the events.
#[must_use]
pub fn rewards(text: &[u8], version: Version, weights: [f64; 3], threads: usize) -> Vec<f64> {
    parallel::map(pieces(text, PIECE), threads, |piece| of(piece, version, weights)).concat()
}

fn of(text: &[u8], version: Version, weights: [f64; 3]) -> Vec<f64> {
    let mut usual = FastScorer::new(version);
    let lines = lines(text).filter(|line| !line.trim_ascii().is_empty());
    let mut reward = |line| usual.score(line, weights).unwrap_or_else(|| odd(line, version, weights));
    lines.map(&mut reward).collect()
}

/// Compute the reward of a line of unusual shape.
fn odd(line: &[u8], version: Version, weights: [f64; 3]) -> f64 {
    let reward = Raw::of(line).and_then(|record| score(&record, version, weights));
    reward.map_or(f64::NAN, |reward| reward.score)
}
