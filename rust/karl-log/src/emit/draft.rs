//! The rows of a data set before it is written: drawn, parsed, cleaned, and replaced where they failed.

use std::collections::{BTreeMap, HashMap};

use karl_core::Copies;
use karl_core::sample::Ranking;

use super::example::Flaw;
use super::make::{Body, Candidate, Line, Maker};
use super::redact::Found;
use super::render::Shape;
use super::walk::{Limits, Strata, walk};
use crate::error::{Error, Result};
use crate::fetch::fetch;
use crate::log::Log;
use crate::parallel::map;
use crate::watch::Watch;

/// The most rows that are held parsed at a time: a parsed record takes several times its text. The shape of a data
/// set settles on its first such batch.
const BATCH: usize = 256;

/// How many rows more than wanted are made once some have failed, doubled each time: a packed file is unpacked from its
/// start for every fetch, and in some logs nearly every row fails.
const SPARE: usize = 256;

/// The caller's own flaw of a rendered row, if it has one; an error ends the job.
pub type Judge<'a> = &'a dyn Fn(&str) -> std::result::Result<Option<Flaw>, String>;

/// What the selection knows of each row of the log.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// The reward, composite or not. `[B]`
    pub rewards: &'a [f64],
    /// What was tempered. `[B]`
    pub scores: &'a [f64],
    /// Its log-weight under the target, by row.
    pub log_weight: &'a (dyn Fn(usize) -> f64 + Sync),
}

/// Which rows are wanted, and what becomes of one that fails.
pub enum Draw<'a> {
    /// So many rows in the order of a ranking; the next key takes the place of one that fails.
    Ranked {
        /// The order.
        ranking: Ranking<'a>,
        /// How many.
        count: usize,
        /// How many of each stratum, together `count`.
        strata: Option<Strata<'a>>,
    },
    /// Rows with replacement; the draw is made again without one that fails.
    Copied(Copies<'a>),
}

/// How to make rows of records.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// What a row looks like.
    pub shape: Shape,
    /// Whether secrets stay as they are.
    pub allow_secrets: bool,
    /// How many rows of a group there may be, in a draw without replacement.
    pub max_per_group: Option<usize>,
    /// How many threads to make rows with; at least one is used.
    pub threads: usize,
}

/// The rows of a data set, in memory.
#[derive(Debug, Default)]
pub struct Draft {
    /// The log's row of each, once, in the order of the draw.
    pub rows: Vec<u32>,
    /// How often each was drawn.
    pub copies: Vec<u32>,
    /// The text of each, without its line end.
    pub lines: Vec<String>,
    /// Chosen records that were not written, by reason.
    pub dropped: BTreeMap<Flaw, u64>,
    /// Records that were passed over because their group had all the rows it may have.
    pub over_group_cap: u64,
    /// Rows that lost messages after their last assistant turn.
    pub trimmed_rows: u64,
    /// The messages they lost.
    pub trimmed_messages: u64,
    /// Secrets that were replaced, by family.
    pub secrets: Found,
    /// What the rows look like.
    pub shape: Option<Shape>,
    /// The key of the first row that was not drawn; none where every row was.
    pub threshold: Option<f64>,
}

/// Draws rows that can be written.
///
/// Without replacement it is the draw of one row after another in the order of the ranking that passes over every record
/// that cannot be written, and every record of a group or stratum that has its share; each is counted. With
/// replacement it is the draw from those records alone that can be written. So the law of the rest is unchanged.
///
/// Memory: the drawn rows and a few spare ones.
///
/// # Errors
/// As [`fetch`], and [`Error::Judge`] if the caller's judgement fails.
pub fn draft(
    log: &Log,
    facts: Facts<'_>,
    draw: Draw<'_>,
    settings: Settings,
    judge: Option<Judge<'_>>,
    watch: &Watch,
) -> Result<Draft> {
    let work = Work::new(Maker { log, facts, settings }, judge);
    match draw {
        Draw::Ranked { ranking, count, strata } => work.ranked(ranking, count, strata, watch),
        Draw::Copied(copies) => work.copied(copies, watch),
    }
}

type Parsed = std::result::Result<Candidate, Flaw>;

/// The shape of a data set that begins with these; none where all of them failed.
fn settle(wanted: Shape, parsed: &[(u32, Parsed)]) -> Option<Shape> {
    let examples = parsed.iter().filter_map(|(_, parsed)| match parsed {
        Ok(Candidate { body: Body::Example(read), .. }) => Some(&read.example),
        _ => None,
    });
    parsed.iter().any(|(_, parsed)| parsed.is_ok()).then(|| wanted.settle(&examples.collect::<Vec<_>>()))
}

struct Work<'a> {
    maker: Maker<'a>,
    judge: Option<Judge<'a>>,
    shape: Option<Shape>,
    made: HashMap<u32, Line>,
    flaws: HashMap<u32, Flaw>,
}

impl<'a> Work<'a> {
    fn new(maker: Maker<'a>, judge: Option<Judge<'a>>) -> Self {
        Self { maker, judge, shape: None, made: HashMap::new(), flaws: HashMap::new() }
    }

    fn ranked(
        mut self,
        mut ranking: Ranking<'_>,
        count: usize,
        strata: Option<Strata<'_>>,
        watch: &Watch,
    ) -> Result<Draft> {
        let groups = self.maker.log.group.codes();
        let limits = Limits { groups: &groups, most: self.maker.settings.max_per_group, strata };
        let mut spare = 0;
        loop {
            let walked = walk(&mut ranking, count, spare, &limits, |row| self.flaws.contains_key(&row));
            let unmade = |row: &u32| !self.made.contains_key(row);
            if !walked.rows.iter().any(unmade) {
                let dropped = walked.flawed.iter().map(|row| self.flaws[row]).collect();
                let copies = vec![1; walked.rows.len()];
                let draft = Draft {
                    threshold: walked.threshold,
                    over_group_cap: walked.over_cap,
                    ..self.draft(walked.rows, copies, dropped)
                };
                return Ok(draft);
            }
            let wanted: Vec<u32> = walked.rows.into_iter().chain(walked.spare).filter(unmade).collect();
            self.make(&wanted, watch)?;
            spare = SPARE.max(2 * spare);
        }
    }

    fn copied(mut self, mut copies: Copies<'_>, watch: &Watch) -> Result<Draft> {
        loop {
            let rows: Vec<u32> = copies.rows().iter().map(|copy| copy.row).collect();
            let unmade: Vec<u32> = rows.iter().copied().filter(|row| !self.made.contains_key(row)).collect();
            self.make(&unmade, watch)?;
            let failed: Vec<u32> = unmade.into_iter().filter(|row| self.flaws.contains_key(row)).collect();
            if failed.is_empty() {
                let counts = copies.rows().iter().map(|copy| copy.count).collect();
                let dropped = self.flaws.values().copied().collect();
                return Ok(self.draft(rows, counts, dropped));
            }
            copies.replace(&failed);
            self.forget(&copies);
        }
    }

    /// Lets go of texts that a draw made again has no use for, once they are the most.
    fn forget(&mut self, copies: &Copies<'_>) {
        let rows = copies.rows();
        if self.made.len() > 2 * rows.len() {
            self.made.retain(|row, _| rows.binary_search_by_key(row, |copy| copy.row).is_ok());
        }
    }

    /// Makes rows, or finds their flaws.
    fn make(&mut self, rows: &[u32], watch: &Watch) -> Result<()> {
        let mut records =
            rows.iter().copied().zip(fetch(self.maker.log, rows, self.maker.settings.threads, watch)?);
        while records.len() > 0 {
            self.batch(records.by_ref().take(BATCH).collect())?;
            watch.advance(0)?;
        }
        Ok(())
    }

    fn batch(&mut self, records: Vec<(u32, Vec<u8>)>) -> Result<()> {
        let (maker, settings) = (&self.maker, self.maker.settings);
        let parsed = map(records, settings.threads, |(row, bytes)| (row, maker.parse(row, bytes)));
        // A batch in which every record failed says nothing of the shape.
        self.shape = self.shape.or_else(|| settle(settings.shape, &parsed));
        let shape = self.shape.unwrap_or(settings.shape);
        let line =
            |(row, parsed): (u32, Parsed)| (row, parsed.and_then(|candidate| maker.line(candidate, shape)));
        for (row, line) in map(parsed, settings.threads, line) {
            match self.judged(line)? {
                Ok(line) => drop(self.made.insert(row, line)),
                Err(flaw) => drop(self.flaws.insert(row, flaw)),
            }
        }
        Ok(())
    }

    fn judged(&self, line: std::result::Result<Line, Flaw>) -> Result<std::result::Result<Line, Flaw>> {
        let (Ok(made), Some(judge)) = (&line, self.judge) else { return Ok(line) };
        Ok(judge(&made.text).map_err(Error::Judge)?.map_or(line, Err))
    }

    /// The drawn rows with their texts.
    fn draft(mut self, rows: Vec<u32>, copies: Vec<u32>, dropped: Vec<Flaw>) -> Draft {
        let mut draft = Draft { shape: self.shape, ..Draft::default() };
        for flaw in dropped {
            *draft.dropped.entry(flaw).or_default() += 1;
        }
        let lines: Vec<(u32, u32, Line)> = rows
            .into_iter()
            .zip(copies)
            .filter_map(|(row, copies)| Some((row, copies, self.made.remove(&row)?)))
            .collect();
        let tools = lines.iter().any(|(_, _, line)| line.tools);
        for (row, copies, line) in lines {
            draft.add(row, copies, line, tools);
        }
        draft
    }
}

impl Draft {
    /// The log's row of each row to write: as often as it was drawn, copies side by side.
    #[must_use]
    pub fn drawn(&self) -> Vec<u32> {
        let each = self.rows.iter().zip(&self.copies);
        each.flat_map(|(&row, &copies)| std::iter::repeat_n(row, copies as usize)).collect()
    }

    /// Says how often each row is to stand in the data set.
    pub fn copy(&mut self, copies: impl Fn(u32) -> u32) {
        for ((&row, count), line) in self.rows.iter().zip(&mut self.copies).zip(&mut self.lines) {
            *count = copies(row);
            Line::say_copies(line, *count);
        }
    }

    fn add(&mut self, row: u32, copies: u32, line: Line, tools: bool) {
        self.rows.push(row);
        self.copies.push(copies);
        let mut text = if tools && !line.tools { Line::without_tools(&line.text) } else { line.text };
        Line::say_copies(&mut text, copies);
        self.lines.push(text);
        self.trimmed_rows += u64::from(line.trimmed > 0);
        self.trimmed_messages += line.trimmed;
        for (family, count) in line.secrets {
            *self.secrets.entry(family).or_default() += count;
        }
    }
}
