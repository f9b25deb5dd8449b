//! A log that is read once, in memory for what a draw could need of it.
//!
//! ```text
//! pipe ──► unpack ──► beginning ──► layout, format
//!                         │
//!                         └──► split ──► scan ──► counts, sums
//!                                          └────► records of the largest keys ──► temporary file ──► log
//! ```
//!
//! The log it gives has the rows of those records alone, and tells of the others in [`Streamed`]. All that follows
//! (parsing, replacing, writing) is that of a log which was read from files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use karl_core::Key;
use karl_core::stream::{self, Facts};

use crate::ahead::Ahead;
use crate::error::{Error, Result};
use crate::layout::{Input, probe, records};
use crate::log::Log;
use crate::names::Known;
use crate::pipe::{Origin, Pipe, Unpacking};
use crate::read::{self, Fail, end, scan};
use crate::rows::{Row, Rows, Sink, Spot, columns};
use crate::scan::Scanner;
use crate::source::{Codec, Source, Stream, Watched, is_damage};
use crate::split::{Extent, Window};
use crate::tally::Tally;
use crate::watch::Watch;

/// How much of a stream is looked at before its layout is believed, if its first record is no longer.
const BEGINNING: usize = 4 << 20;

/// How many categories are counted by name, and how many bytes those names may have; records of others are counted
/// together.
const NAMES: (usize, usize) = (10_000, 1 << 24);

/// What was found in a stream beside the records that its log has.
#[derive(Clone, Debug, PartialEq)]
pub struct Streamed {
    /// The bytes that came.
    pub origin: Origin,
    /// The rewards, and the target over them.
    pub facts: Facts,
    /// Records by domain.
    pub domains: Counts,
    /// Records without a group.
    pub ungrouped: u64,
}

/// Counts by name, of so many names at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By name.
    pub named: BTreeMap<String, u64>,
    /// Those of further names.
    pub other: u64,
    /// Those without a name.
    pub without: u64,
    bytes: usize,
}

impl Counts {
    fn add(&mut self, name: Option<&str>) {
        let Some(name) = name else { return self.without += 1 };
        let (names, bytes) = NAMES;
        if let Some(count) = self.named.get_mut(name) {
            *count += 1;
        } else if self.named.len() < names && self.bytes + name.len() <= bytes {
            self.bytes += name.len();
            self.named.insert(name.to_owned(), 1);
        } else {
            self.other += 1;
        }
    }
}

/// Reads a pipe that is called `name` to its end. `kept` is an empty file for the records of the log; the log needs it
/// as long as it is used.
///
/// # Errors
/// As [`read::read`], and [`Error::Draw`] for a reward that cannot be weighed.
pub fn read(
    pipe: Pipe,
    name: &str,
    kept: &Path,
    settings: &read::Settings,
    draw: stream::Settings,
    watch: &Watch,
) -> Result<Log> {
    let limit = settings.wishes.max_line_bytes;
    let (unpacking, tap) = Unpacking::new(pipe);
    let mut whole: Stream<'_> = Box::new(Watched::new(Ahead::new(unpacking, watch), watch));
    let (begin, broken) = beginning(&mut whole, limit);
    // A stream that was stopped looks like one that has ended.
    watch.advance(0)?;
    let input = told(&begin, name, kept, settings, watch)?;
    let mut whole: Stream<'_> = Box::new(io::Cursor::new(begin).chain(Broken(broken)).chain(whole));

    let mut scanner = Scanner::new(0, &input.fields, false, settings.strict);
    let mut held = Holding::new(draw)?;
    let mut tally = Tally::default();
    let read = records(Box::new(&mut whole), &input.layout, limit)
        .map_err(Fail::Read)
        .and_then(|pieces| scan(pieces, &mut scanner, &mut held, &mut tally, watch))
        .and_then(|()| pass(&mut whole));
    watch.advance(0)?;
    let origin = tap.origin();
    end(read, Path::new(name), origin.codec, &mut tally)?;
    held.log(input, tally, origin, settings.threads)
}

/// The beginning of a stream, and the error it ends with, if it ends with one: as much as shows how it holds records.
fn beginning(stream: &mut Stream<'_>, limit: usize) -> (Vec<u8>, Option<io::Error>) {
    let mut begin = Vec::new();
    let mut wanted = BEGINNING;
    loop {
        let read = stream.take((wanted - begin.len()) as u64).read_to_end(&mut begin);
        match read {
            Err(error) => return (begin, Some(error)),
            Ok(_) if begin.len() < wanted || shows_a_record(&begin, limit) => return (begin, None),
            Ok(_) => wanted *= 2,
        }
    }
}

/// Whether a beginning holds the first value whole, or more of it than a record may have.
fn shows_a_record(begin: &[u8], limit: usize) -> bool {
    let mut window = Window::new(begin, 0);
    let first = window.skip_mark().and_then(|()| {
        if window.peek()? == Some(b'[') {
            window.consume(1);
            window.peek()?;
        }
        window.value(limit)
    });
    begin.len() > limit || matches!(first, Ok(Extent::Kept(_) | Extent::Passed))
}

/// The layout and the fields, told from a copy of the beginning.
fn told(begin: &[u8], name: &str, kept: &Path, settings: &read::Settings, watch: &Watch) -> Result<Input> {
    fs::write(kept, begin).map_err(|error| Error::io("write", kept, error))?;
    let source = Source { codec: Codec::Plain, ..Source::open(kept, name)? };
    probe(source, &settings.wishes, watch).map_err(|error| match error {
        Error::Layout { problem, .. } => Error::Layout { path: name.into(), problem },
        other => other,
    })
}

/// Passes over what follows the last record: a pipe is read to its end, where its hash is known.
fn pass(stream: &mut Stream<'_>) -> std::result::Result<(), Fail> {
    match io::copy(stream, &mut io::sink()) {
        Err(error) if !is_damage(&error) => Err(Fail::Read(error)),
        _ => Ok(()),
    }
}

/// A stream that ends with an error, if there is one.
struct Broken(Option<io::Error>);

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// A record that a draw could need.
struct Candidate {
    id: u128,
    digest: u64,
    rewards: Vec<f64>,
    group: Option<Vec<u8>>,
    domain: Option<Vec<u8>>,
    record: Box<[u8]>,
}

impl Candidate {
    fn new(row: &Row<'_>) -> Self {
        Self {
            id: row.id,
            digest: row.digest,
            rewards: row.rewards.to_vec(),
            group: row.group.map(<[u8]>::to_vec),
            domain: row.domain.map(<[u8]>::to_vec),
            record: row.record.into(),
        }
    }

    fn row(&self, spot: Spot, length: u32) -> Row<'_> {
        Row {
            id: self.id,
            digest: self.digest,
            spot,
            length,
            rewards: &self.rewards,
            group: self.group.as_deref(),
            domain: self.domain.as_deref(),
            partition: None,
            fingerprint: None,
            record: &self.record,
        }
    }
}

/// What is held of a stream while it goes by.
struct Holding {
    stream: stream::Stream<Candidate>,
    /// The components of the reward of a record that has none.
    missing: Vec<f64>,
    domains: Counts,
    ungrouped: u64,
    /// The first reward that could not be weighed.
    failed: Option<karl_core::Error>,
}

impl Sink for Holding {
    fn push(&mut self, row: &Row<'_>) {
        self.domains.add(row.domain.map(String::from_utf8_lossy).as_deref());
        self.ungrouped += u64::from(row.group.is_none());
        let key = Key { id: row.id, ordinal: row.digest };
        // A format may know of no reward at all.
        let rewards = row.rewards.get(..self.missing.len()).unwrap_or(&self.missing);
        let pushed = self.stream.push(key, rewards, || Candidate::new(row));
        self.failed = self.failed.take().or(pushed.err());
    }
}

impl Holding {
    fn new(draw: stream::Settings) -> Result<Self> {
        let missing = vec![f64::NAN; draw.weights.len()];
        let stream = stream::Stream::new(draw)?;
        Ok(Self { stream, missing, domains: Counts::default(), ungrouped: 0, failed: None })
    }

    /// The log of the candidates, whose bytes are written to the file that the input names.
    fn log(self, mut input: Input, tally: Tally, origin: Origin, threads: usize) -> Result<Log> {
        if let Some(error) = self.failed {
            return Err(error.into());
        }
        let (facts, candidates) = self.stream.finish()?;
        let components = self.missing.len();
        let rows = keep(candidates, &input.source.path, components)?;
        input.source.size = fs::metadata(&input.source.path).map_or(0, |facts| facts.len());
        let columns = columns(vec![rows], components, threads);
        let mut log = Log::new(vec![input], std::iter::once((0, tally)), columns, false)?;
        let streamed = Streamed { origin, facts, domains: self.domains, ungrouped: self.ungrouped };
        log.streamed = Some(streamed.into());
        Ok(log)
    }
}

/// Writes records one after the other, and says where each lies.
fn keep(candidates: impl Iterator<Item = Candidate>, path: &Path, components: usize) -> Result<Rows> {
    let io = |error| Error::io("write", path, error);
    let mut file = BufWriter::new(File::create(path).map_err(io)?);
    let mut rows = Rows::new(components, Known::seed());
    let mut offset = 0;
    for candidate in candidates {
        let record = &candidate.record;
        let too_long =
            || karl_core::Error::Length { what: "record", got: record.len(), wanted: u32::MAX as usize };
        let length = u32::try_from(record.len()).map_err(|_| too_long())?;
        let spot = Spot::new(0, offset).ok_or_else(too_long)?;
        file.write_all(record).and_then(|()| file.write_all(b"\n")).map_err(io)?;
        rows.push(&candidate.row(spot, length));
        offset += u64::from(length) + 1;
    }
    file.flush().map_err(io)?;
    rows.name();
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_those_that_are_held_are_counted_together() {
        let mut counts = Counts::default();
        let (names, bytes) = NAMES;
        for at in 0..names + 7 {
            counts.add(Some(&at.to_string()));
            counts.add(Some("3"));
            counts.add(None);
        }
        assert_eq!((counts.named.len(), counts.other, counts.without), (names, 7, names as u64 + 7));
        assert_eq!(counts.named["3"], names as u64 + 8);
        let mut counts = Counts::default();
        counts.add(Some(&"x".repeat(bytes + 1)));
        assert_eq!((counts.named.len(), counts.other), (0, 1));
    }

    #[test]
    fn a_beginning_is_enough_once_its_first_record_is_whole_or_too_long() {
        for (begin, enough) in [
            (r#"{"a": 1} "#, true),
            (r#"{"a": [1, "#, false),
            ("\u{feff} [ {}, {", true),
            (r#"[{"a": 1"#, false),
            (r#"{"a": "0123456789012345678901234567890123456789"#, true),
        ] {
            assert_eq!(shows_a_record(begin.as_bytes(), 40), enough, "{begin}");
        }
    }
}
