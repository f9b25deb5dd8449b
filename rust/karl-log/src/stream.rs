//! Log that is read once, in memory proportional to the records that a draw may need.
//!
//! ```text
//! pipe ──► unpack ──► beginning ──► layout, format
//!                         │
//!                         └──► split ──► scan ──► counts, sums
//!                                          └────► records of the largest keys ──► temporary file ──► log
//! ```
//!
//! The log has only the rows of those records, and describes the others in
//! [`Streamed`]. The later steps (parsing, replacing, writing) are those of a log read
//! from files.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use karl_core::{Key, stream};

use crate::cancel::Watch;
use crate::columns::{NameTables, PackedPlace, RowBins, RowSink, ScannedRow, ThreadRows, columns};
use crate::detect::{Input, probe, records};
use crate::error::{Error, Result};
use crate::extract::Scanner;
use crate::framing::{StreamError, ValueEnd, Window};
use crate::input::codec::{Codec, is_damage};
use crate::input::pipe::{Pipe, PipeFacts, Unpacking};
use crate::input::read_ahead::ReadAhead;
use crate::input::source::{Source, Stream, Watched};
use crate::log::{Log, NameCounts, Streamed};
use crate::read::{self, end, scan_all};
use crate::rejects::FileTally;

/// Bytes of a stream read before its layout is detected, unless its first record is longer.
const BEGINNING: usize = 4 << 20;

/// Read a pipe called `name` to its end. `kept` is an empty file for the records of the log; the log needs it
/// as long as it is used.
///
/// # Errors
/// As [`read::read`], and [`Error::Draw`] for a reward that cannot be weighted.
pub fn read(
    pipe: Pipe,
    name: &str,
    kept: &Path,
    settings: &read::ReadSettings,
    draw: stream::StreamSettings,
    watch: &Watch,
) -> Result<Log> {
    let limit = settings.wishes.max_line_bytes;
    let (unpacking, tap) = Unpacking::new(pipe);
    let mut whole: Stream<'_> = Box::new(Watched::new(ReadAhead::new(unpacking, watch), watch));
    let (begin, broken) = beginning(&mut whole, limit);
    // A cancelled stream looks like one that has ended.
    watch.advance(0)?;
    let input = detect_input(&begin, name, kept, settings, watch)?;
    let mut whole: Stream<'_> = Box::new(io::Cursor::new(begin).chain(Broken(broken)).chain(whole));

    let mut scanner = Scanner::new(0, &input.fields, settings.scan);
    let mut candidates = Candidates::new(draw)?;
    let mut tally = FileTally::default();
    let read = records(Box::new(&mut whole), &input.layout, limit)
        .map_err(StreamError::Read)
        .and_then(|pieces| scan_all(pieces, &mut scanner, &mut candidates, &mut tally, watch))
        .and_then(|()| skip_rest(&mut whole));
    watch.advance(0)?;
    let origin = tap.origin();
    end(read, name, origin.codec, &mut tally)?;
    candidates.log(input, tally, origin, settings.threads)
}

/// Return the beginning of a stream, long enough to show its layout, and the error at its end, if any.
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

/// Return whether a beginning holds the first value in full, or more of it than a record may have.
fn shows_a_record(begin: &[u8], limit: usize) -> bool {
    let mut window = Window::new(begin, 0);
    let first = window.skip_mark().and_then(|()| {
        if window.peek()? == Some(b'[') {
            window.consume(1);
            window.peek()?;
        }
        window.value(limit)
    });
    begin.len() > limit || matches!(first, Ok(ValueEnd::Kept(_) | ValueEnd::Passed))
}

/// Detect the layout and the fields from a copy of the beginning.
fn detect_input(
    begin: &[u8],
    name: &str,
    kept: &Path,
    settings: &read::ReadSettings,
    watch: &Watch,
) -> Result<Input> {
    fs::write(kept, begin).map_err(|error| Error::io("write", kept, error))?;
    let source = Source { codec: Codec::Plain, ..Source::open(kept, name)? };
    probe(source, &settings.wishes, watch)
}

/// Skip everything after the last record: a pipe is read to its end for its hash.
fn skip_rest(stream: &mut Stream<'_>) -> std::result::Result<(), StreamError> {
    match io::copy(stream, &mut io::sink()) {
        Err(error) if !is_damage(&error) => Err(StreamError::Read(error)),
        _ => Ok(()),
    }
}

/// Stream that ends with an error, if there is one.
struct Broken(Option<io::Error>);

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// Record that a draw may need.
struct HeldRecord {
    id: u128,
    digest: u64,
    rewards: Vec<f64>,
    group: Option<Vec<u8>>,
    domain: Option<Vec<u8>>,
    record: Box<[u8]>,
}

impl HeldRecord {
    fn new(row: &ScannedRow<'_>) -> Self {
        Self {
            id: row.id,
            digest: row.digest,
            rewards: row.rewards.to_vec(),
            group: row.group.map(<[u8]>::to_vec),
            domain: row.domain.map(<[u8]>::to_vec),
            record: row.record.into(),
        }
    }

    fn row(&self, spot: PackedPlace, length: u32) -> ScannedRow<'_> {
        ScannedRow {
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

/// Held records of a stream while it is read.
struct Candidates {
    stream: stream::RewardStream<HeldRecord>,
    /// Components of the reward of a record without one.
    missing: Vec<f64>,
    domains: NameCounts,
    ungrouped: u64,
    /// First reward that could not be weighted.
    failed: Option<karl_core::Error>,
}

impl RowSink for Candidates {
    fn push(&mut self, row: &ScannedRow<'_>) {
        self.domains.add(row.domain.map(String::from_utf8_lossy).as_deref());
        self.ungrouped += u64::from(row.group.is_none());
        let key = Key { id: row.id, ordinal: row.digest };
        // A format may have no reward at all.
        let rewards = row.rewards.get(..self.missing.len()).unwrap_or(&self.missing);
        let pushed = self.stream.push(key, rewards, || HeldRecord::new(row));
        self.failed = self.failed.take().or(pushed.err());
    }
}

impl Candidates {
    fn new(draw: stream::StreamSettings) -> Result<Self> {
        let missing = vec![f64::NAN; draw.weights.len()];
        let stream = stream::RewardStream::new(draw)?;
        Ok(Self { stream, missing, domains: NameCounts::default(), ungrouped: 0, failed: None })
    }

    /// Return the log of the candidates; their bytes are written to the file that the input names.
    fn log(self, mut input: Input, tally: FileTally, origin: PipeFacts, threads: usize) -> Result<Log> {
        if let Some(error) = self.failed {
            return Err(error.into());
        }
        let (facts, candidates) = self.stream.finish()?;
        let components = self.missing.len();
        let vocabulary = NameTables::new();
        let rows = keep(candidates, &input.source.path, RowBins::new(components, &vocabulary))?;
        input.source.size = fs::metadata(&input.source.path).map_or(0, |facts| facts.len());
        input.fields.end_unfolding();
        let columns = columns(vec![rows], vocabulary, components, threads);
        let mut log = Log::new(vec![input], std::iter::once((0, tally)), columns, None)?;
        let streamed = Streamed { origin, facts, domains: self.domains, ungrouped: self.ungrouped };
        log.streamed = Some(streamed.into());
        Ok(log)
    }
}

/// Write records one after the other, and set their places.
fn keep(
    candidates: impl Iterator<Item = HeldRecord>,
    path: &Path,
    mut rows: RowBins<'_>,
) -> Result<ThreadRows> {
    let io = |error| Error::io("write", path, error);
    let mut file = BufWriter::new(File::create(path).map_err(io)?);
    let mut offset = 0;
    for candidate in candidates {
        let record = &candidate.record;
        let too_long =
            || karl_core::Error::Length { what: "record", got: record.len(), wanted: u32::MAX as usize };
        let length = u32::try_from(record.len()).map_err(|_| too_long())?;
        let spot = PackedPlace::new(0, offset).ok_or_else(too_long)?;
        file.write_all(record).and_then(|()| file.write_all(b"\n")).map_err(io)?;
        rows.push(&candidate.row(spot, length));
        offset += u64::from(length) + 1;
    }
    file.flush().map_err(io)?;
    Ok(rows.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

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
