//! First pass: a row for each line of every transcript, by all threads.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use karl_log::cancel::Watch;
use karl_log::columns::PackedPlace;
use karl_log::error::Result;
use karl_log::framing::StreamError;
use karl_log::framing::lines::{RANGE, RangeTask, open_range, split_into_ranges};
use karl_log::input::source::Source;
use karl_log::json::project::ScanFault;
use karl_log::log::Account;
use karl_log::parallel::map;
use karl_log::rejects::FileTally;

use super::row::{ClaudeRowReader, LineKind, ReadLine, Row, hash};
use crate::convert::lines::each;
use crate::convert::report::{Made, NO_CONVERSATION, Report, count_type};
use crate::convert::settings::ConvertSettings;

/// Findings in a range of a file.
struct IndexPart {
    input: usize,
    rows: Vec<Row>,
    origins: Vec<(u64, u64)>,
    types: BTreeMap<String, u64>,
    loose: u64,
    tally: FileTally,
}

/// Lines of forked sessions, with the lines that they are copies of.
pub(super) type Origins = HashMap<u64, u64>;

/// Return the rows of all files, in the order of files and lines, and the copied ones among them; count lines
/// that are not rows.
///
/// # Errors
/// [`Error::Io`](karl_log::Error::Io), [`Error::Interrupted`](karl_log::Error::Interrupted).
pub(super) fn index(
    sources: &[Source],
    accounts: &mut [Account],
    report: &mut Report,
    settings: &ConvertSettings,
    watch: &Watch,
) -> Result<(Vec<Row>, Origins)> {
    let (threads, limit) = (settings.threads, settings.max_line_bytes);
    let read = |task: RangeTask| IndexPart::read(&sources[task.input], task, limit, watch);
    let tasks =
        sources.iter().enumerate().flat_map(|(at, source)| split_into_ranges(at, source, RANGE)).collect();
    let mut parts = map(tasks, threads, read).into_iter().collect::<Result<Vec<_>>>()?;
    let beyond: BTreeSet<usize> =
        parts.iter().filter(|part| part.tally.beyond).map(|part| part.input).collect();
    parts.retain(|part| !beyond.contains(&part.input));
    for part in map(beyond.into_iter().map(RangeTask::whole).collect(), threads, read) {
        parts.push(part?);
    }
    parts.sort_by_key(|part| part.input);
    let (mut rows, mut origins) = (Vec::new(), Origins::new());
    let mut lines = vec![0; sources.len()];
    for part in parts {
        let IndexPart { input, tally, .. } = &part;
        accounts[*input].add(tally, lines[*input]);
        lines[*input] += tally.lines;
        part.types.iter().for_each(|(name, &count)| count_type(&mut report.made.types, name, count));
        if part.loose > 0 {
            *report.made.dropped.entry(NO_CONVERSATION).or_default() += part.loose;
        }
        rows.extend(part.rows);
        origins.extend(part.origins);
    }
    join_floating(sources, &mut rows);
    Ok((rows, origins))
}

/// Set the session of lines of the queue that name none to that of the line before them in their file.
fn join_floating(sources: &[Source], rows: &mut [Row]) {
    let unnamed: Vec<u64> = sources.iter().map(|source| hash(source.name.as_bytes())).collect();
    let mut before: Option<Row> = None;
    for row in rows {
        let input = row.spot.input();
        if row.kind != LineKind::Floating || row.session != unnamed[input] {
            before = Some(*row);
        } else if let Some(before) = before.filter(|before| before.spot.input() == input) {
            row.session = before.session;
        }
    }
}

impl IndexPart {
    fn read(source: &Source, task: RangeTask, limit: usize, watch: &Watch) -> Result<Self> {
        let mut part = Self {
            input: task.input,
            rows: Vec::new(),
            origins: Vec::new(),
            types: BTreeMap::new(),
            loose: 0,
            tally: FileTally::default(),
        };
        let mut reader = ClaudeRowReader::new();
        // A line without a session id belongs to the session of its file.
        let session = hash(source.name.as_bytes());
        let mut tally = FileTally::default();
        let read = open_range(source, task, limit, watch).and_then(|pieces| {
            each(
                pieces,
                &mut tally,
                |bytes| watch.advance(bytes),
                |bytes, offset| {
                    let spot = PackedPlace::new(task.input, offset).ok_or(ScanFault::Malformed(0))?;
                    let line = reader.read(bytes, spot, session)?;
                    part.add(&line);
                    Ok(line.end)
                },
            )
        });
        part.tally = tally;
        match read {
            Err(StreamError::Beyond) => part.tally.beyond = true,
            read => read.map_err(|fail| fail.of(source))?,
        }
        Ok(part)
    }

    fn add(&mut self, found: &ReadLine<'_>) {
        let kind = found.kind;
        match std::str::from_utf8(kind).ok().and_then(|kind| self.types.get_mut(kind)) {
            Some(count) => *count += 1,
            None => count_type(&mut self.types, &String::from_utf8_lossy(kind), 1),
        }
        if found.row.kind == LineKind::Loose {
            self.loose += 1;
        } else {
            self.rows.push(found.row);
            self.rows.extend(found.relayed);
            self.origins.extend(found.forked_from.map(|from| (found.row.id, from)));
        }
    }
}

/// Split rows into sessions, ordered by their start and then by the hash of their name; count duplicate rows.
pub(super) fn sessions(mut rows: Vec<Row>, made: &mut Made) -> Vec<Vec<Row>> {
    rows.sort_unstable_by_key(|row| (row.session, row.spot));
    let mut sessions: Vec<Vec<Row>> =
        rows.chunk_by(|a, b| a.session == b.session).map(|rows| super::merge::merge(rows, made)).collect();
    sessions.sort_by_cached_key(|rows| {
        let begun = rows.iter().map(|row| row.time).filter(|&time| time > 0).min();
        (begun.unwrap_or_default(), rows.first().map(|row| row.session))
    });
    sessions
}
