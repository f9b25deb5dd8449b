//! The first pass: a row for each line of every transcript, by all threads.

use std::collections::BTreeMap;

use super::row::{Kind, Reader, Row, hash};
use crate::convert::report::{Made, Report, count_type};
use crate::error::{Error, Result};
use crate::field::skip_space;
use crate::log::Account;
use crate::parallel::map;
use crate::ranges::{RANGE, Task, lines, ranges};
use crate::read::Fail;
use crate::rows::Spot;
use crate::scan::reason;
use crate::source::Source;
use crate::split::Piece;
use crate::tally::{Reason, Tally};
use crate::watch::Watch;

/// What was found in a range of a file.
struct Part {
    input: usize,
    rows: Vec<Row>,
    types: BTreeMap<String, u64>,
    loose: u64,
    tally: Tally,
}

/// The rows of all files, in the order of files and lines; what is no row is counted.
///
/// # Errors
/// [`Error::Io`], [`Error::Interrupted`].
pub(super) fn index(
    sources: &[Source],
    accounts: &mut [Account],
    report: &mut Report,
    limit: usize,
    threads: usize,
    watch: &Watch,
) -> Result<Vec<Row>> {
    let tasks = sources.iter().enumerate().flat_map(|(at, source)| ranges(at, source, RANGE)).collect();
    let parts = map(tasks, threads, |task: Task| Part::read(&sources[task.input], task, limit, watch));
    let mut rows = Vec::new();
    let mut lines = vec![0; sources.len()];
    for part in parts {
        let part = part?;
        let Part { input, tally, .. } = &part;
        accounts[*input].add(tally, lines[*input]);
        lines[*input] += tally.lines;
        part.types.iter().for_each(|(name, &count)| count_type(&mut report.types, name, count));
        if part.loose > 0 {
            *report.made.dropped.entry(NO_CONVERSATION).or_default() += part.loose;
        }
        rows.extend(part.rows);
    }
    Ok(rows)
}

/// Why lines are left out that are neither a message nor a part of one.
pub(super) const NO_CONVERSATION: &str = "no_conversation";

impl Part {
    fn read(source: &Source, task: Task, limit: usize, watch: &Watch) -> Result<Self> {
        let mut part = Self {
            input: task.input,
            rows: Vec::new(),
            types: BTreeMap::new(),
            loose: 0,
            tally: Tally::default(),
        };
        let failed = |fail| match fail {
            Fail::Read(error) => Error::io("read", &source.path, error),
            Fail::Other(error) => error,
        };
        let mut reader = Reader::new();
        // A line that names no session is of its file's.
        let session = hash(source.name.as_bytes());
        let mut lines = lines(source, task, limit, watch).map_err(failed)?;
        while let Some(piece) = lines.next().map_err(|error| failed(Fail::Read(error)))? {
            watch.advance(part.piece(&piece, &mut reader, session))?;
        }
        watch.advance(0)?;
        Ok(part)
    }

    /// Takes one line, or several that were welded together; its bytes.
    fn piece(&mut self, piece: &Piece<'_>, reader: &mut Reader, session: u64) -> u64 {
        self.tally.lines += 1;
        let (offset, bytes, ended) = match *piece {
            Piece::TooLong { offset } | Piece::Cut { offset } => {
                self.tally.bad(offset, Reason::TooLong);
                return 0;
            }
            Piece::Text { offset, bytes, ended } => (offset, bytes, ended),
        };
        let mut at = skip_space(bytes, 0);
        self.tally.blank += u64::from(at == bytes.len());
        let mut found = 0;
        while at < bytes.len() {
            let place = offset + at as u64;
            let Some(spot) = Spot::new(self.input, place) else {
                self.tally.bad(place, Reason::TooLong);
                break;
            };
            match reader.read(&bytes[at..], spot, session) {
                Ok(line) => {
                    self.add(line.row, line.kind);
                    at = skip_space(bytes, at + line.end);
                }
                Err(fault) => {
                    self.tally.bad(place, reason(fault, ended));
                    break;
                }
            }
            found += 1;
        }
        self.tally.welded += u64::from(found > 1);
        bytes.len() as u64 + 1
    }

    fn add(&mut self, row: Row, kind: &[u8]) {
        self.tally.rows += 1;
        match std::str::from_utf8(kind).ok().and_then(|kind| self.types.get_mut(kind)) {
            Some(count) => *count += 1,
            None => count_type(&mut self.types, &String::from_utf8_lossy(kind), 1),
        }
        if row.kind == Kind::Loose {
            self.loose += 1;
        } else {
            self.rows.push(row);
        }
    }
}

/// Cuts rows into sessions, by when each begins and then by its name's hash; rows that stand twice are counted.
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
