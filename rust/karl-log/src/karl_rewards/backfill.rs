//! Rewards into the records of a store.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use karl_reward::{Node, Reward, SCORES, Version, score};

use super::fast_path::FastScorer;
use super::lazy::{Raw, quoted};
use super::rewards::{BLOCK, SHARE, blocks, lines, pieces};
use crate::cancel::Watch;
use crate::error::{Error, Result};
use crate::json::dumps::{Dumped, Dumper, Refused, push_float};
use crate::json::unescape::unescape;
use crate::parallel;

/// Settings of a backfill.
#[derive(Clone, Copy, Debug)]
pub struct Backfill<'a> {
    /// Version of the reward.
    pub version: Version,
    /// Weights of v1: outcome, process, efficiency.
    pub weights: [f64; 3],
    /// True to score the records that have a reward, too.
    pub force: bool,
    /// Baseline and scale of each domain with rewards.
    pub baselines: &'a HashMap<String, (f64, f64)>,
    /// For each of the first lines, 1 if it is a record with a reward.
    pub rewarded: &'a [u8],
}

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
        for piece in parallel::map(number_pieces(text, counts.total), threads, |(text, at)| {
            Piece::of(text, at, settings)
        }) {
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
fn number_pieces(text: &[u8], mut first: usize) -> Vec<(&[u8], usize)> {
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

const OUTCOME: &[u8] = b"\"outcome\"";
const SKILL: &[u8] = b"\"skill\"";
const DOMAIN: &[u8] = b"\"domain\"";

/// Domain of a record that names none.
const GLOBAL: &str = "_global";

/// Baseline and scale of a domain without rewards.
const NEUTRAL: (f64, f64) = (0.5, 1.0);

/// Outcome of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineOutcome {
    /// Has a reward already.
    Skipped,
    /// Has no reward: Python raises on it.
    Refused,
    /// Was given its reward.
    Scored,
    /// Python decides.
    Python,
}

/// Writer of rewards into one record after the other.
struct Annotator<'s> {
    settings: &'s Backfill<'s>,
    dumper: Dumper,
    scorer: FastScorer,
    fields: KarlFields,
}

impl<'s> Annotator<'s> {
    fn new(settings: &'s Backfill<'s>) -> Self {
        Self {
            settings,
            dumper: Dumper::default(),
            scorer: FastScorer::new(settings.version),
            fields: KarlFields::default(),
        }
    }

    /// Append the record of a line with its reward; nothing is appended unless it is scored.
    fn line(&mut self, line: &[u8], out: &mut Vec<u8>) -> LineOutcome {
        let record = match self.dumper.object(line) {
            Ok(record) => record,
            Err(Refused::Invalid) => return LineOutcome::Refused,
            Err(Refused::Python) => return LineOutcome::Python,
        };
        let Some(stored) = stored(&record) else { return LineOutcome::Refused };
        if stored && !self.settings.force {
            return LineOutcome::Skipped;
        }
        let Backfill { version, weights, .. } = *self.settings;
        let plain = || score(&Raw::of(record.text)?, version, weights);
        let Ok(reward) = self.scorer.reward(record.text, weights).map_or_else(plain, Ok) else {
            return LineOutcome::Refused;
        };
        match baseline(&record, self.settings) {
            Ok((baseline, scale)) => {
                self.fields.fill(&reward, reward.advantage(baseline, scale));
                push(&record, &self.fields, out);
            }
            Err(other) => return other,
        }
        LineOutcome::Scored
    }
}

/// Return whether a record has a reward; `None` if its outcome is not an object.
fn stored(record: &Dumped<'_>) -> Option<bool> {
    let Some(outcome) = record.value(OUTCOME) else { return Some(false) };
    let [reward] = Raw(outcome).fields(["reward_score"]).ok()?;
    Some(reward.is_some_and(|reward| reward.0 != b"null"))
}

/// Return the baseline and the scale of a record's domain: in v1 that of its skill unless it is a name, else its own.
fn baseline(record: &Dumped<'_>, settings: &Backfill<'_>) -> std::result::Result<(f64, f64), LineOutcome> {
    let domain = match record.value(SKILL) {
        Some([b'{', ..]) | None if settings.version == Version::V1 => within(record),
        Some([b'"', ..]) | None => record.value(DOMAIN),
        Some(_) if settings.version == Version::V2 => record.value(DOMAIN),
        Some(_) => return Err(LineOutcome::Refused),
    };
    let name = match domain {
        None | Some(b"null" | b"\"\"") => GLOBAL.into(),
        // Python finds a number or a half of a surrogate pair by an equality of its own.
        Some(domain @ [b'"', ..]) => unescape(domain).ok_or(LineOutcome::Python)?,
        Some(_) => return Err(LineOutcome::Python),
    };
    Ok(settings.baselines.get(&*name).copied().unwrap_or(NEUTRAL))
}

fn within<'a>(record: &Dumped<'a>) -> Option<&'a [u8]> {
    let [domain] = Raw(record.value(SKILL)?).fields(["domain"]).ok()?;
    domain.map(|domain| domain.0)
}

/// Append a record with its reward and the end of the line; without an outcome it gets one as its last key.
fn push(record: &Dumped<'_>, fields: &KarlFields, out: &mut Vec<u8>) {
    let text = record.text;
    let last = text.len() - 1;
    let (start, end) = record.place(OUTCOME).unwrap_or((last, last));
    out.extend_from_slice(&text[..start]);
    if start == end {
        out.extend_from_slice(if record.is_empty() { b"\"outcome\": " } else { b", \"outcome\": " });
    }
    fields.push(&text[start..end], out);
    out.extend_from_slice(&text[end..]);
    out.push(b'\n');
}

/// Fields in KARL's order, each with its text; memory for one record after the other.
#[derive(Debug, Default)]
struct KarlFields {
    text: Vec<u8>,
    /// Name of each field, and where its text ends.
    ends: Vec<(&'static str, usize)>,
}

impl KarlFields {
    /// Take the fields of a reward and its advantage.
    fn fill(&mut self, reward: &Reward, advantage: f64) {
        self.text.clear();
        self.ends.clear();
        self.float("reward_score", reward.score);
        self.components(reward);
        for (name, score) in SCORES.iter().zip(&reward.signals) {
            self.float(name, *score);
        }
        self.float("advantage", advantage);
        self.text.extend_from_slice(b"\"scored\"");
        self.ends.push(("annotation_status", self.text.len()));
    }

    fn float(&mut self, name: &'static str, value: f64) {
        push_float(&mut self.text, value);
        self.ends.push((name, self.text.len()));
    }

    #[allow(clippy::cast_possible_truncation, reason = "a count of four flags")]
    fn components(&mut self, reward: &Reward) {
        for (at, part) in reward.components.iter().enumerate() {
            self.text.extend_from_slice(if at == 0 { b"{\"" } else { b", \"" });
            self.text.extend_from_slice(part.name.as_bytes());
            self.text.extend_from_slice(b"\": ");
            if part.whole {
                self.text.extend_from_slice((part.value as i64).to_string().as_bytes());
            } else {
                push_float(&mut self.text, part.value);
            }
        }
        self.text.push(b'}');
        self.ends.push(("reward_components", self.text.len()));
    }

    /// Append an outcome with the fields: each in the place that it has there, or after the others. An outcome that the
    /// record does not have is empty.
    fn push(&self, outcome: &[u8], out: &mut Vec<u8>) {
        let mut placed = [false; 16];
        let mut separator: &[u8] = b"{";
        let mut push = |key: &[u8], value: &[u8]| {
            out.extend_from_slice(separator);
            out.push(b'"');
            out.extend_from_slice(key);
            out.extend_from_slice(b"\": ");
            out.extend_from_slice(value);
            separator = b", ";
        };
        if !outcome.is_empty() {
            // The visit fails nowhere, and the text is an object.
            let _ = Raw(outcome).parts(true, |before, value| {
                let key = quoted(before);
                let key = &key[1..key.len() - 1];
                match self.ends.iter().position(|(name, _)| name.as_bytes() == key) {
                    None => push(key, value.0),
                    Some(at) => {
                        push(key, self.value(at));
                        placed[at] = true;
                    }
                }
                Ok(())
            });
        }
        for (at, (name, _)) in self.ends.iter().enumerate().filter(|(at, _)| !placed[*at]) {
            push(name.as_bytes(), self.value(at));
        }
        out.push(b'}');
    }

    fn value(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before].1);
        &self.text[start..self.ends[at].1]
    }
}
