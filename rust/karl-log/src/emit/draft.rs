//! The rows of a data set before it is written: drawn, parsed, cleaned, and replaced where they failed.

use std::collections::BTreeMap;

use karl_core::sample::Ranking;
use serde_json::{Map, Number, Value, json};

use super::example::{Flaw, Read, example};
use super::redact::{Found, redact, suspect};
use super::render::{Shape, row};
use crate::error::{Error, Result};
use crate::fetch::fetch;
use crate::log::Log;
use crate::trusted::{self, lookup};
use crate::watch::Watch;

/// The most rows that are held parsed at a time: a parsed record takes several times its text. The shape of a data
/// set settles on its first such batch.
const BATCH: usize = 256;

/// Says whether a rendered row is short enough; an error ends the job.
pub type Judge<'a> = &'a dyn Fn(&str) -> std::result::Result<bool, String>;

/// What the selection knows of each row of the log.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The reward, composite or not. `[B]`
    pub rewards: &'a [f64],
    /// What was tempered. `[B]`
    pub scores: &'a [f64],
    /// Its log-weight under the target. `[B]`
    pub log_weights: &'a [f64],
}

/// How to make rows of records.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// What a row looks like.
    pub shape: Shape,
    /// Whether secrets stay as they are.
    pub allow_secrets: bool,
}

/// The rows of a data set, in memory.
#[derive(Debug, Default)]
pub struct Draft {
    /// The log's row of each, in the order of the draw.
    pub rows: Vec<u32>,
    /// The text of each, without its line end.
    pub lines: Vec<String>,
    /// Chosen records that were not written, by reason.
    pub dropped: BTreeMap<Flaw, u64>,
    /// Rows that lost messages after their last assistant turn.
    pub trimmed_rows: u64,
    /// The messages they lost.
    pub trimmed_messages: u64,
    /// Secrets that were replaced, by family.
    pub secrets: Found,
    /// What the rows look like.
    pub shape: Option<Shape>,
}

/// A record on its way to a row.
struct Candidate {
    row: u32,
    id: String,
    body: Body,
}

enum Body {
    Raw { record: Value, bytes: Vec<u8> },
    Example(Read),
}

/// Draws `count` rows that can be written; each that cannot is counted, and the next in the ranking takes its
/// place.
///
/// # Errors
/// As [`fetch`], and [`Error::Judge`] if the caller's judgement fails.
pub fn draft(
    log: &Log,
    facts: Facts<'_>,
    ranking: &mut Ranking,
    count: usize,
    settings: Settings,
    judge: Option<Judge<'_>>,
    watch: &Watch,
) -> Result<Draft> {
    let mut work = Work { log, facts, settings, judge, draft: Draft::default() };
    while work.draft.rows.len() < count {
        let rows = ranking.take(count - work.draft.rows.len());
        if rows.is_empty() {
            break;
        }
        let mut records = fetch(log, &rows, watch)?.into_iter();
        for rows in rows.chunks(BATCH) {
            work.batch(rows, &mut records)?;
            watch.advance(0)?;
        }
    }
    Ok(work.draft)
}

fn settle(wanted: Shape, candidates: &[Candidate]) -> Shape {
    let example = |candidate| match candidate {
        &Candidate { body: Body::Example(ref read), .. } => Some(&read.example),
        Candidate { body: Body::Raw { .. }, .. } => None,
    };
    wanted.settle(&candidates.iter().filter_map(example).collect::<Vec<_>>())
}

struct Work<'a> {
    log: &'a Log,
    facts: Facts<'a>,
    settings: Settings,
    judge: Option<Judge<'a>>,
    draft: Draft,
}

impl Work<'_> {
    fn batch(&mut self, rows: &[u32], records: &mut impl Iterator<Item = Vec<u8>>) -> Result<()> {
        let read = |(&row, bytes)| self.read(row, bytes);
        let candidates: Vec<_> = rows.iter().zip(records).filter_map(read).collect();
        // A batch in which every record failed says nothing of the shape.
        if candidates.is_empty() {
            return Ok(());
        }
        let wanted = self.settings.shape;
        let shape = *self.draft.shape.get_or_insert_with(|| settle(wanted, &candidates));
        candidates.into_iter().try_for_each(|candidate| self.finish(candidate, shape))
    }

    fn read(&mut self, row: u32, bytes: Vec<u8>) -> Option<Candidate> {
        let candidate = self.parse(row, bytes);
        candidate.map_err(|flaw| self.drop(flaw)).ok()
    }

    fn parse(&self, row: u32, bytes: Vec<u8>) -> std::result::Result<Candidate, Flaw> {
        let record = trusted::parse(&bytes).map_err(|_| Flaw::Unparsable)?;
        let id = self.id(row, &record);
        let body = match self.settings.shape {
            Shape::Raw => Body::Raw { record, bytes },
            _ => Body::Example(example(record, self.fields(row))?),
        };
        Ok(Candidate { row, id, body })
    }

    fn finish(&mut self, candidate: Candidate, shape: Shape) -> Result<()> {
        let row = candidate.row;
        let trimmed = if let Body::Example(read) = &candidate.body { read.trimmed as u64 } else { 0 };
        let mut secrets = Found::new();
        let line = match self.line(candidate, shape, &mut secrets) {
            Ok(line) => line,
            Err(flaw) => {
                self.drop(flaw);
                return Ok(());
            }
        };
        if !self.judge.map_or(Ok(true), |judge| judge(&line)).map_err(Error::Judge)? {
            self.drop(Flaw::TooManyTokens);
            return Ok(());
        }
        self.draft.rows.push(row);
        self.draft.lines.push(line);
        self.draft.trimmed_rows += u64::from(trimmed > 0);
        self.draft.trimmed_messages += trimmed;
        for (family, count) in secrets {
            *self.draft.secrets.entry(family).or_default() += count;
        }
        Ok(())
    }

    fn line(
        &self,
        candidate: Candidate,
        shape: Shape,
        secrets: &mut Found,
    ) -> std::result::Result<String, Flaw> {
        match candidate.body {
            Body::Raw { record, bytes } => self.raw(record, bytes, secrets),
            Body::Example(read) => {
                let mut fields = row(read.example, shape)?;
                fields.insert("karl_fast".to_owned(), self.stamp(candidate.row, &candidate.id));
                self.clean(&mut fields, secrets);
                Ok(Value::Object(fields).to_string())
            }
        }
    }

    /// The record's own bytes, on one line; written anew only if it holds a secret or a line break. Python reads a
    /// lone carriage return as a line break too. A secret may also stand under a key that a later one replaces.
    fn raw(&self, record: Value, bytes: Vec<u8>, secrets: &mut Found) -> std::result::Result<String, Flaw> {
        let Value::Object(mut fields) = record else { return Err(Flaw::Unparsable) };
        self.clean(&mut fields, secrets);
        let text = String::from_utf8(bytes).map_err(|_| Flaw::Unparsable)?;
        let secret = !self.settings.allow_secrets && (!secrets.is_empty() || suspect(&text));
        Ok(if secret || text.contains(['\n', '\r']) { Value::Object(fields).to_string() } else { text })
    }

    fn clean(&self, fields: &mut Map<String, Value>, secrets: &mut Found) {
        if !self.settings.allow_secrets {
            redact(fields, secrets);
        }
    }

    /// What every row says of itself; trainers ignore it, and no training text holds any of it.
    fn stamp(&self, row: u32, id: &str) -> Value {
        let at = row as usize;
        json!({
            "id": id,
            "group": self.log.group.name(at),
            "reward": number(self.facts.rewards[at]),
            "score": number(self.facts.scores[at]),
            "log_weight": number(self.facts.log_weights[at]),
            "copies": 1,
        })
    }

    fn id(&self, row: u32, record: &Value) -> String {
        let part = |path| {
            lookup(record, path)
                .filter(|part| !part.is_null())
                .map(|part| part.as_str().map_or_else(|| part.to_string(), str::to_owned))
        };
        let parts: Option<Vec<String>> = self.fields(row).id.iter().map(part).collect();
        parts.map_or_else(|| format!("{:032x}", self.log.digests[row as usize]), |parts| parts.join("/"))
    }

    fn fields(&self, row: u32) -> &crate::format::Fields {
        &self.log.inputs[self.log.places[row as usize].input as usize].fields
    }

    fn drop(&mut self, flaw: Flaw) {
        *self.draft.dropped.entry(flaw).or_default() += 1;
    }
}

/// A number as JSON; null where it is not finite.
fn number(value: f64) -> Value {
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}
