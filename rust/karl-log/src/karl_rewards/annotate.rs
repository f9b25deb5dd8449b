//! One record of a store with its reward.

use std::collections::HashMap;

use karl_reward::{Node, Version, score};

use super::fast_path::FastScorer;
use super::fields::KarlFields;
use super::lazy::Raw;
use crate::json::dumps::{Dumped, Dumper, Refused};
use crate::json::unescape::unescape;

const OUTCOME: &[u8] = b"\"outcome\"";
const SKILL: &[u8] = b"\"skill\"";
const DOMAIN: &[u8] = b"\"domain\"";

/// Domain of a record that names none.
const GLOBAL: &str = "_global";

/// Baseline and scale of a domain without rewards.
const NEUTRAL: (f64, f64) = (0.5, 1.0);

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

/// Outcome of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineOutcome {
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
pub(super) struct Annotator<'s> {
    settings: &'s Backfill<'s>,
    dumper: Dumper,
    scorer: FastScorer,
    fields: KarlFields,
}

impl<'s> Annotator<'s> {
    pub(super) fn new(settings: &'s Backfill<'s>) -> Self {
        Self {
            settings,
            dumper: Dumper::default(),
            scorer: FastScorer::new(settings.version),
            fields: KarlFields::default(),
        }
    }

    /// Append the record of a line with its reward; nothing is appended unless it is scored.
    pub(super) fn line(&mut self, line: &[u8], out: &mut Vec<u8>) -> LineOutcome {
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
fn baseline(record: &Dumped<'_>, settings: &Backfill<'_>) -> Result<(f64, f64), LineOutcome> {
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
