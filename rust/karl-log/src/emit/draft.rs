//! The rows of a data set before it is written: drawn, parsed, cleaned, and replaced where they failed.

use std::collections::{BTreeMap, HashMap};

use karl_core::Groups;
use karl_core::sample::{Ranking, cap_per_group};

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

/// How many rows more than wanted are made once some have failed, doubled each time: a packed file is unpacked from its
/// start for every fetch, and in some logs nearly every row fails.
const SPARE: usize = 256;

/// The caller's own flaw of a rendered row, if it has one; an error ends the job.
pub type Judge<'a> = &'a dyn Fn(&str) -> std::result::Result<Option<Flaw>, String>;

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
    /// How many rows of a group there may be.
    pub max_per_group: Option<usize>,
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

/// Draws `count` rows that can be written.
///
/// It is the draw of one row after another in the order of the ranking that passes over every record that cannot be
/// written, and every record of a group that has its share; each is counted. So the law of the rest is unchanged.
///
/// # Errors
/// As [`fetch`], and [`Error::Judge`] if the caller's judgement fails.
pub fn draft(
    log: &Log,
    facts: Facts<'_>,
    ranking: &Ranking,
    count: usize,
    settings: Settings,
    judge: Option<Judge<'_>>,
    watch: &Watch,
) -> Result<Draft> {
    let mut work = Work::new(Maker { log, facts, settings }, judge);
    let cap = settings.max_per_group.map(|most| Ok::<_, Error>((groups(log)?, most))).transpose()?;
    let mut keys = ranking.keys().to_vec();
    let mut spare = 0;
    loop {
        let mut sound = capped(&keys, cap.as_ref())?;
        let rows = sound.take(count);
        if rows.iter().all(|row| work.made.contains_key(row)) {
            return Ok(work.draft(rows, count, ranking, sound.threshold()));
        }
        let unmade = rows.into_iter().chain(sound.take(spare)).filter(|row| !work.made.contains_key(row));
        work.make(&unmade.collect::<Vec<_>>(), watch)?;
        work.flaws.keys().for_each(|&row| keys[row as usize] = f64::NEG_INFINITY);
        spare = SPARE.max(2 * spare);
    }
}

fn groups(log: &Log) -> Result<Groups> {
    Ok(Groups::from_codes(log.group.codes().to_vec(), log.group.names().len())?)
}

/// The ranking by keys, without the rows beyond the cap of their group.
fn capped(keys: &[f64], cap: Option<&(Groups, usize)>) -> Result<Ranking> {
    let mut keys = keys.to_vec();
    if let Some((groups, most)) = cap {
        cap_per_group(&mut keys, groups, *most)?;
    }
    Ok(Ranking::new(keys)?)
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

    /// The drawn rows, and what was passed over before the last of them was drawn.
    fn draft(mut self, rows: Vec<u32>, count: usize, ranking: &Ranking, threshold: Option<f64>) -> Draft {
        let mut draft = Draft { shape: self.shape, threshold, ..Draft::default() };
        // Where there are fewer rows than wanted, every other was passed over.
        let last = rows.last().copied().filter(|_| rows.len() == count);
        let passed = |row: u32| last.is_none_or(|last| ranking.precedes(row, last));
        self.flaws.retain(|&row, _| passed(row));
        for &flaw in self.flaws.values() {
            *draft.dropped.entry(flaw).or_default() += 1;
        }
        if self.maker.settings.max_per_group.is_some() {
            let before = ranking.rows().filter(|&row| passed(row) && !self.flaws.contains_key(&row)).count();
            draft.over_group_cap = (before + usize::from(last.is_some())).saturating_sub(rows.len()) as u64;
        }
        let lines: Vec<(u32, Line)> =
            rows.into_iter().filter_map(|row| Some((row, self.made.remove(&row)?))).collect();
        let tools = lines.iter().any(|(_, line)| line.tools);
        for (row, line) in lines {
            draft.add(row, line, tools);
        }
        draft
    }
}

impl Draft {
    fn add(&mut self, row: u32, line: Line, tools: bool) {
        self.rows.push(row);
        self.lines.push(if tools && !line.tools { Line::without_tools(&line.text) } else { line.text });
        self.trimmed_rows += u64::from(line.trimmed > 0);
        self.trimmed_messages += line.trimmed;
        for (family, count) in line.secrets {
            *self.secrets.entry(family).or_default() += count;
        }
    }
}
