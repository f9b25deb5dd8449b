//! Rewards of a whole log.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use karl_reward::{Node, Value, Version, score};
use memchr::{memchr, memrchr};

use super::fast_path::{FastScorer, scan};
use super::lazy::Raw;
use crate::cancel::Watch;
use crate::error::{Error, Result};
use crate::input::source::Source;
use crate::json::project::Scan;
use crate::json::reference_parser;
use crate::json::scalar::LARGEST;
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
    parallel::map(pieces(text, PIECE), threads, |piece| score_piece(piece, version, weights)).concat()
}

fn score_piece(text: &[u8], version: Version, weights: [f64; 3]) -> Vec<f64> {
    let mut usual = FastScorer::new(version);
    let lines = lines(text).filter(|line| !line.trim_ascii().is_empty());
    let mut reward =
        |line| usual.score(line, weights).unwrap_or_else(|| score_unusual(line, version, weights));
    lines.map(&mut reward).collect()
}

/// Compute the reward of a line of unusual shape.
fn score_unusual(line: &[u8], version: Version, weights: [f64; 3]) -> f64 {
    let reward = Raw::of(line).and_then(|record| score(&record, version, weights));
    reward.map_or(f64::NAN, |reward| reward.score)
}

/// Paths of these fields.
const PATHS: [&str; 6] = ["outcome.reward_score", "skill.domain", "domain", "channel", "outcome", "skill"];

type Slots = [Option<Range<usize>>; PATHS.len()];

/// Number of lines in one work item.
const STORE_PIECE: usize = 256;

/// Bytes of a store that are read at a time.
pub(super) const BLOCK: u64 = 8 << 20;

/// Bytes of a store in one work item.
pub(super) const SHARE: usize = 1 << 18;

/// Fields of a record of a store.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// Channel, if named.
    pub channel: Option<String>,
    /// Domain, if named and not empty.
    pub domain: Option<String>,
    /// Reward, if present.
    pub reward: Option<f64>,
}

/// Read the fields of each line; `None` for invalid JSON, and for values of other types than KARL writes.
///
/// v1 finds the domain in the skill if that is an object, v2 beside it. Cost: one parse of each line, which
/// builds nothing.
#[must_use]
pub fn stored(lines: &[&[u8]], version: Version, threads: usize) -> Vec<Option<Stored>> {
    let piece = |lines: &[&[u8]]| {
        let mut scan = scan(&PATHS.map(str::to_owned));
        lines.iter().map(|line| read(line, version, &mut scan)).collect::<Vec<_>>()
    };
    parallel::map(lines.chunks(STORE_PIECE).collect(), threads, piece).into_iter().flatten().collect()
}

/// Reward of a line of a store.
#[derive(Clone, Debug, PartialEq)]
pub enum StoredReward {
    /// None: it has none, or is not a record.
    None,
    /// Its domain, if named and not empty, and its reward.
    Of(Option<String>, f64),
    /// Line that is not as nearly all are.
    Odd,
}

/// Read the reward of each line of a store, in order; `visit` is called for many lines at a time.
///
/// Memory: 8 MiB, or the longest line. A line without a reward is not validated: it has none if it is damaged too.
///
/// # Errors
/// [`Error::Io`] if the file cannot be read; [`Error::Interrupted`] on cancellation; the error of `visit`.
pub fn stored_rewards(
    path: &Path,
    version: Version,
    threads: usize,
    watch: &Watch,
    mut visit: impl FnMut(Vec<(&[u8], StoredReward)>) -> Result<()>,
) -> Result<()> {
    let file = File::open(path).map_err(|error| Error::io("open", path, error))?;
    blocks(file, BLOCK, path, watch, |text| {
        let found = parallel::map(pieces(text, SHARE), threads, |piece| {
            let mut scan = scan(&PATHS.map(str::to_owned));
            lines(piece).map(|line| (line, stored_reward(line, version, &mut scan))).collect::<Vec<_>>()
        });
        found.into_iter().try_for_each(&mut visit)
    })
}

fn stored_reward(line: &[u8], version: Version, scan: &mut Scan) -> StoredReward {
    let line = line.trim_ascii_end();
    let mut slots = [const { None }; PATHS.len()];
    match scan.object(line, &mut slots) {
        Err(_) => StoredReward::Odd,
        Ok(_) if slots[0].as_ref().is_none_or(|reward| &line[reward.clone()] == b"null") => {
            StoredReward::None
        }
        Ok(scanned) => match facts(line, scanned.end, slots, version) {
            Some(Stored { domain, reward: Some(reward), .. }) => StoredReward::Of(domain, reward),
            _ => StoredReward::Odd,
        },
    }
}

fn read(line: &[u8], version: Version, scan: &mut Scan) -> Option<Stored> {
    let line = line.trim_ascii_end();
    let mut slots = [const { None }; PATHS.len()];
    let end = scan.object(line, &mut slots).ok()?.end;
    facts(line, end, slots, version)
}

fn facts(line: &[u8], end: usize, slots: Slots, version: Version) -> Option<Stored> {
    let [reward, skill_domain, own_domain, channel, outcome, skill] = slots.map(|slot| Raw::at(line, slot));
    if end != line.len()
        || outcome.is_some_and(|raw| !raw.is_object())
        || reference_parser::check(line).is_err()
    {
        return None;
    }
    let named = matches!(skill.map(|raw| raw.value()), Some(Ok(Value::Text(_))));
    if !named && skill.is_some_and(|raw| !raw.is_object()) {
        return None;
    }
    let domain = if named || version == Version::V2 { own_domain } else { skill_domain };
    let domain = name(domain.filter(|raw| raw.0 != b"null")).ok()?;
    let (channel, reward) = (name(channel).ok()?, reward_of(reward).ok()?);
    Some(Stored { channel, domain: domain.filter(|domain| !domain.is_empty()), reward })
}

/// Error for a value of another type than KARL writes.
struct UnexpectedType;

/// Return a text, or `None` if absent.
fn name(raw: Option<Raw<'_>>) -> std::result::Result<Option<String>, UnexpectedType> {
    match raw.map(|raw| raw.value()) {
        None => Ok(None),
        Some(Ok(Value::Text(text))) => Ok(Some(text.into_owned())),
        Some(_) => Err(UnexpectedType),
    }
}

/// Return a float small enough to be squared, or `None` if absent.
fn reward_of(raw: Option<Raw<'_>>) -> std::result::Result<Option<f64>, UnexpectedType> {
    match raw.map(|raw| raw.value()) {
        None | Some(Ok(Value::Null)) => Ok(None),
        Some(Ok(Value::Float(reward))) if reward.abs() <= LARGEST => Ok(Some(reward)),
        Some(_) => Err(UnexpectedType),
    }
}

/// Read whole lines, about `size` bytes at a time, or one line if that is longer.
///
/// # Errors
/// [`Error::Io`] if the stream cannot be read, [`Error::Interrupted`] on cancellation, and the error of `one`.
pub(super) fn blocks(
    mut stream: impl Read,
    size: u64,
    path: &Path,
    watch: &Watch,
    mut one: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut text = Vec::new();
    loop {
        let read = (&mut stream).take(size).read_to_end(&mut text);
        let read = read.map_err(|error| Error::io("read", path, error))?;
        // A stream ends early on cancellation.
        watch.advance(read as u64)?;
        let last = read == 0;
        let end = if last { text.len() } else { memrchr(b'\n', &text).map_or(0, |at| at + 1) };
        one(&text[..end])?;
        text.drain(..end);
        if last {
            return Ok(());
        }
    }
}

/// Split a text after line ends, into pieces of a size or more.
pub(super) fn pieces(mut text: &[u8], size: usize) -> Vec<&[u8]> {
    let mut pieces = Vec::with_capacity(text.len() / size + 1);
    while let Some(found) = text.get(size..).and_then(|rest| memchr(b'\n', rest)) {
        let (piece, rest) = text.split_at(size + found + 1);
        pieces.push(piece);
        text = rest;
    }
    pieces.push(text);
    pieces
}

/// Return the lines of a text, each with its end.
pub(super) fn lines(mut text: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let end = memchr(b'\n', text).map_or(text.len(), |at| at + 1);
        let (line, rest) = text.split_at(end);
        text = rest;
        (!line.is_empty()).then_some(line)
    })
}
