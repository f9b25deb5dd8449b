//! Production of rows until enough can be written.

use std::borrow::Cow;

use karl_core::Copies;
use karl_core::sample::Ranking;
use rustc_hash::{FxHashMap, FxHashSet};

use super::draft::Draft;
use super::partner::PartnerSearch;
use super::quota::{Limits, Strata, walk};
use super::row::{PairFlaw, ParsedRow, RowBody, RowMaker, RowText};
use super::settings::{Draw, ExportSettings, Judge, Prepared, SelectionValues};
use super::shape::Shape;
use crate::cancel::Watch;
use crate::conversation::Flaw;
use crate::error::{Error, Result};
use crate::input::codec::Codec;
use crate::log::Log;
use crate::parallel::map;
use crate::second_pass::{LOOKED_UP, fetch, fetch_each};

/// Number of rows that decide the shape of a data set, which are held parsed: a parsed record takes several
/// times the memory of its text.
const BATCH: usize = 256;

/// Number of extra rows made once some have failed, doubled each time: a packed file is unpacked from its
/// start for every fetch, and in some logs nearly every row fails.
const SPARE: usize = 256;

type ParsedResult = std::result::Result<ParsedRow, Flaw>;

type RowResult = std::result::Result<RowText, Flaw>;

/// Return the shape of a data set that begins with these; `None` if all of them failed.
fn settle(wanted: Shape, parsed: &[(u32, ParsedResult)]) -> Option<Shape> {
    let examples = parsed.iter().filter_map(|(_, parsed)| match parsed {
        Ok(ParsedRow { body: RowBody::Example(read), .. }) => Some(&read.example),
        _ => None,
    });
    parsed.iter().any(|(_, parsed)| parsed.is_ok()).then(|| wanted.settle(&examples.collect::<Vec<_>>()))
}

/// Draw rows that can be written; those left [`Prepared::Unread`] are not yet validated.
///
/// Without replacement, rows are drawn one by one in the order of the ranking. Every record that cannot be
/// written, and every record of a full group or stratum, is skipped and counted. With replacement, the draw
/// is from the writable records only. The distribution of the rest is unchanged.
///
/// Memory: the drawn rows that are held, and a few spare ones. Of pairs, also the records of the rejected answers of a
/// batch of rows; of all, where a file is packed.
///
/// # Errors
/// As [`fetch`], and [`Error::Judge`] if the caller's judge fails.
pub fn draft(
    log: &Log,
    facts: SelectionValues<'_>,
    draw: Draw<'_>,
    settings: ExportSettings<'_>,
    judge: Option<Judge<'_>>,
    watch: &Watch,
) -> Result<Draft> {
    let settings = ExportSettings { prepared: settings.preparation(judge.is_some()), ..settings };
    let work = RowFill::new(RowMaker::new(log, facts, settings), judge);
    match draw {
        Draw::Ranked { ranking, count, strata } => work.ranked(ranking, count, strata, watch),
        Draw::Copied(copies) => work.copied(copies, watch),
    }
}

/// Rows made so far, and those that failed.
pub(super) struct RowFill<'a> {
    maker: RowMaker<'a>,
    judge: Option<Judge<'a>>,
    shape: Option<Shape>,
    made: FxHashMap<u32, RowText>,
    flaws: FxHashMap<u32, Flaw>,
    /// Rows that make no example, and so are never rejected in favour of others.
    unfit: FxHashSet<u32>,
}

impl<'a> RowFill<'a> {
    pub(super) fn new(maker: RowMaker<'a>, judge: Option<Judge<'a>>) -> Self {
        let (made, flaws) = (FxHashMap::default(), FxHashMap::default());
        Self { maker, judge, shape: None, made, flaws, unfit: FxHashSet::default() }
    }

    pub(super) fn ranked(
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
                let failed: Vec<_> = walked.flawed.iter().map(|&row| (row, self.flaws[&row])).collect();
                let copies = vec![1; walked.rows.len()];
                let draft = Draft {
                    threshold: walked.threshold,
                    over_group_cap: walked.over_cap,
                    ..self.draft(walked.rows, copies, &failed)
                };
                return Ok(draft);
            }
            let wanted: Vec<u32> = walked.rows.into_iter().chain(walked.spare).filter(unmade).collect();
            self.make(&wanted, watch)?;
            // As long as none has failed, all requested rows are there.
            spare = if self.flaws.is_empty() { 0 } else { SPARE.max(2 * spare) };
        }
    }

    pub(super) fn copied(mut self, mut copies: Copies<'_>, watch: &Watch) -> Result<Draft> {
        loop {
            let rows: Vec<u32> = copies.rows().iter().map(|copy| copy.row).collect();
            let unmade: Vec<u32> = rows.iter().copied().filter(|row| !self.made.contains_key(row)).collect();
            self.make(&unmade, watch)?;
            let failed: Vec<u32> = unmade.into_iter().filter(|row| self.flaws.contains_key(row)).collect();
            if failed.is_empty() {
                let counts = copies.rows().iter().map(|copy| copy.count).collect();
                let failed: Vec<_> = self.flaws.iter().map(|(&row, &flaw)| (row, flaw)).collect();
                return Ok(self.draft(rows, counts, &failed));
            }
            copies.replace(&failed);
            self.forget(&copies);
        }
    }

    /// Drop texts that a repeated draw does not need, once they are the majority.
    fn forget(&mut self, copies: &Copies<'_>) {
        let rows = copies.rows();
        if self.made.len() > 2 * rows.len() {
            self.made.retain(|row, _| rows.binary_search_by_key(row, |copy| copy.row).is_ok());
        }
    }

    /// Make rows, or find their flaws.
    fn make(&mut self, rows: &[u32], watch: &Watch) -> Result<()> {
        if self.maker.settings.shape == Shape::Preference {
            return self.make_pairs(rows, watch);
        }
        let rows = self.leave(rows)?;
        let rest = self.begin(&rows, watch)?;
        let (maker, settings) = (&self.maker, self.maker.settings);
        let shape = self.shape.unwrap_or(settings.shape);
        let line =
            |row, bytes| (row, maker.parse(row, bytes).and_then(|candidate| maker.line(candidate, shape)));
        let lines = fetch_each(maker.log, rest, settings.threads, watch, line)?;
        self.keep(lines, watch)
    }

    /// Make pairs batch by batch, each row with the first one that can be rejected in its favour.
    fn make_pairs(&mut self, rows: &[u32], watch: &Watch) -> Result<()> {
        for rows in rows.chunks(self.at_once(rows.len())) {
            let mut searches: Vec<PartnerSearch> = rows.iter().map(|&row| self.maker.search(row)).collect();
            while !searches.is_empty() {
                searches = self.try_pairs(searches, watch)?;
            }
        }
        Ok(())
    }

    /// Try the next partner of each row; return the rows that need another one.
    fn try_pairs(&mut self, searches: Vec<PartnerSearch>, watch: &Watch) -> Result<Vec<PartnerSearch>> {
        let (maker, ExportSettings { seed, threads, .. }) = (&self.maker, self.maker.settings);
        let (mut lines, mut pairs): (Vec<(u32, RowResult)>, Vec<_>) = (Vec::new(), Vec::new());
        for mut search in searches {
            let next = || maker.comparison.next(&mut search, seed);
            match std::iter::from_fn(next).find(|other| !self.unfit.contains(other)) {
                Some(other) => pairs.push((search, other)),
                None => lines.push((search.row, Err(search.flaw))),
            }
        }
        let mut others: Vec<u32> = pairs.iter().map(|&(_, other)| other).collect();
        others.sort_unstable();
        others.dedup();
        let records = fetch(maker.log, &others, threads, watch)?;
        let records: FxHashMap<u32, Vec<u8>> = others.into_iter().zip(records).collect();
        let partners: FxHashMap<u32, u32> =
            pairs.iter().map(|(search, other)| (search.row, *other)).collect();
        let rows: Vec<u32> = pairs.iter().map(|(search, _)| search.row).collect();
        let results = fetch_each(maker.log, &rows, threads, watch, |row, bytes| {
            let other = partners[&row];
            maker.pair(row, bytes, (other, &records[&other]))
        })?;
        let mut again = Vec::new();
        for ((mut search, other), result) in pairs.into_iter().zip(results) {
            match result {
                Ok(line) => lines.push((search.row, Ok(line))),
                Err(PairFlaw::Chosen(flaw)) => lines.push((search.row, Err(flaw))),
                Err(PairFlaw::Rejected) => {
                    self.unfit.insert(other);
                    again.push(search);
                }
                Err(PairFlaw::Both(flaw)) => {
                    search.note_unfit(flaw);
                    again.push(search);
                }
            }
        }
        self.shape = self.shape.or(lines.iter().any(|(_, line)| line.is_ok()).then_some(Shape::Preference));
        self.keep(lines, watch)?;
        Ok(again)
    }

    /// Return how many of some rows are read at a time: all if a file is packed, which is unpacked from its start for
    /// every fetch.
    fn at_once(&self, rows: usize) -> usize {
        let packed = self.maker.log.inputs.iter().any(|input| input.source.codec != Codec::Plain);
        if packed { rows.max(1) } else { BATCH }
    }

    /// Separate the rows that are validated as they are written; return the others, which have to be made.
    fn leave<'r>(&mut self, rows: &'r [u32]) -> Result<Cow<'r, [u32]>> {
        let ExportSettings { prepared, threads, .. } = self.maker.settings;
        if prepared != Prepared::Unread {
            return Ok(Cow::Borrowed(rows));
        }
        let part = |rows: &[u32]| rows.iter().partition(|&&row| self.maker.is_left(row));
        let parts: Vec<(Vec<u32>, Vec<u32>)> = map(rows.chunks(LOOKED_UP).collect(), threads, part);
        let (left, others): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        if let Some(prefetch) = &self.maker.log.prefetch {
            // They are read only when they are written.
            let places = left.iter().flatten().filter_map(|&row| self.maker.log.place(row));
            prefetch.bring(&places.collect::<Vec<_>>())?;
        }
        self.made.extend(left.into_iter().flatten().map(|row| (row, RowText::unchanged())));
        self.shape = self.shape.or((!self.made.is_empty()).then_some(Shape::Raw));
        Ok(Cow::Owned(others.concat()))
    }

    /// Make the first rows, which decide the shape of all, batch by batch until some can be made; return the
    /// others.
    fn begin<'r>(&mut self, rows: &'r [u32], watch: &Watch) -> Result<&'r [u32]> {
        let (log, threads) = (self.maker.log, self.maker.settings.threads);
        let at_once = self.at_once(rows.len());
        let mut rest = rows;
        while self.shape.is_none() && !rest.is_empty() {
            let (first, later) = rest.split_at(at_once.min(rest.len()));
            let mut records = first.iter().copied().zip(fetch(log, first, threads, watch)?);
            while records.len() > 0 {
                self.batch(records.by_ref().take(BATCH).collect(), watch)?;
            }
            rest = later;
        }
        Ok(rest)
    }

    fn batch(&mut self, records: Vec<(u32, Vec<u8>)>, watch: &Watch) -> Result<()> {
        let (maker, settings) = (&self.maker, self.maker.settings);
        let parsed = map(records, settings.threads, |(row, bytes)| (row, maker.parse(row, bytes)));
        // A batch in which every record failed does not decide the shape.
        self.shape = self.shape.or_else(|| settle(settings.shape, &parsed));
        let shape = self.shape.unwrap_or(settings.shape);
        let line = |(row, parsed): (u32, ParsedResult)| {
            (row, parsed.and_then(|candidate| maker.line(candidate, shape)))
        };
        let lines = map(parsed, settings.threads, line);
        self.keep(lines, watch)
    }

    /// Keep rows that were made, after the judge.
    fn keep(&mut self, lines: Vec<(u32, RowResult)>, watch: &Watch) -> Result<()> {
        self.made.reserve(lines.len());
        for (row, line) in lines {
            watch.advance(0)?;
            match self.judge_row(line)? {
                Ok(line) => drop(self.made.insert(row, line)),
                Err(flaw) => drop(self.flaws.insert(row, flaw)),
            }
        }
        Ok(())
    }

    fn judge_row(&self, line: RowResult) -> Result<RowResult> {
        let (Ok(RowText { text: Some(text), .. }), Some(judge)) = (&line, self.judge) else {
            return Ok(line);
        };
        Ok(judge(text).map_err(Error::Judge)?.map_or(line, Err))
    }

    /// Return the drawn rows with their texts.
    fn draft(mut self, rows: Vec<u32>, copies: Vec<u32>, failed: &[(u32, Flaw)]) -> Draft {
        let unread = self.maker.settings.prepared == Prepared::Unread;
        let label_above = self.maker.comparison.label_above;
        let mut draft = Draft { shape: self.shape, unread, label_above, ..Draft::default() };
        draft.fail(self.maker.log, failed);
        let lines: Vec<(u32, u32, RowText)> = rows
            .into_iter()
            .zip(copies)
            .filter_map(|(row, copies)| Some((row, copies, self.made.remove(&row)?)))
            .collect();
        let (tools, groups) = (lines.iter().any(|(_, _, line)| line.tools), self.maker.log.group.codes());
        let contents =
            lines.iter().filter_map(|(row, _, line)| Some((groups.get(*row as usize), line.content?)));
        let mut seen = FxHashSet::default();
        draft.duplicates = contents.filter(|content| !seen.insert(*content)).count() as u64;
        for (row, copies, line) in lines {
            draft.add(row, copies, line, tools);
        }
        draft
    }
}
