//! The rows of a data set before it is written: drawn, parsed, cleaned, and replaced where they failed.

use std::collections::BTreeMap;

use karl_core::sample::Ranking;

use super::example::Flaw;
use super::make::{Body, Candidate, Line, Maker};
use super::redact::Found;
use super::render::Shape;
use crate::error::{Error, Result};
use crate::fetch::fetch;
use crate::log::Log;
use crate::parallel::map;
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
    /// How many threads to make rows with; at least one is used.
    pub threads: usize,
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
    let mut work = Work { maker: Maker { log, facts, settings }, judge, draft: Draft::default() };
    while work.draft.rows.len() < count {
        let rows = ranking.take(count - work.draft.rows.len());
        if rows.is_empty() {
            break;
        }
        let mut records = rows.iter().copied().zip(fetch(log, &rows, watch)?);
        while records.len() > 0 {
            work.batch(records.by_ref().take(BATCH).collect())?;
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
    maker: Maker<'a>,
    judge: Option<Judge<'a>>,
    draft: Draft,
}

impl Work<'_> {
    fn batch(&mut self, records: Vec<(u32, Vec<u8>)>) -> Result<()> {
        let Maker { settings, .. } = self.maker;
        let parsed = map(records, settings.threads, |(row, bytes)| self.maker.parse(row, bytes));
        let candidates = self.sound(parsed);
        // A batch in which every record failed says nothing of the shape.
        if candidates.is_empty() {
            return Ok(());
        }
        let shape = *self.draft.shape.get_or_insert_with(|| settle(settings.shape, &candidates));
        let rows: Vec<u32> = candidates.iter().map(|candidate| candidate.row).collect();
        let lines = map(candidates, settings.threads, |candidate| self.maker.line(candidate, shape));
        let lines = rows.into_iter().zip(lines).map(|(row, line)| line.map(|line| (row, line))).collect();
        self.sound(lines).into_iter().try_for_each(|(row, line)| self.finish(row, line))
    }

    /// Those without a flaw; the others are counted.
    fn sound<T>(&mut self, results: Vec<std::result::Result<T, Flaw>>) -> Vec<T> {
        results.into_iter().filter_map(|result| result.map_err(|flaw| self.drop(flaw)).ok()).collect()
    }

    fn finish(&mut self, row: u32, line: Line) -> Result<()> {
        if !self.judge.map_or(Ok(true), |judge| judge(&line.text)).map_err(Error::Judge)? {
            self.drop(Flaw::TooManyTokens);
            return Ok(());
        }
        self.draft.rows.push(row);
        self.draft.lines.push(line.text);
        self.draft.trimmed_rows += u64::from(line.trimmed > 0);
        self.draft.trimmed_messages += line.trimmed;
        for (family, count) in line.secrets {
            *self.draft.secrets.entry(family).or_default() += count;
        }
        Ok(())
    }

    fn drop(&mut self, flaw: Flaw) {
        *self.draft.dropped.entry(flaw).or_default() += 1;
    }
}
