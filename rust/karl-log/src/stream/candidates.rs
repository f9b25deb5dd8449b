//! Records of a stream that a draw may need, and the log made of them.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use karl_core::Key;
use karl_core::stream;

use crate::columns::{NameTables, PackedPlace, RowBins, RowSink, ScannedRow, ThreadRows, columns};
use crate::detect::Input;
use crate::error::{Error, Result};
use crate::input::pipe::PipeFacts;
use crate::log::Log;
use crate::log::{NameCounts, Streamed};
use crate::rejects::FileTally;

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
pub(super) struct Candidates {
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
    pub(super) fn new(draw: stream::StreamSettings) -> Result<Self> {
        let missing = vec![f64::NAN; draw.weights.len()];
        let stream = stream::RewardStream::new(draw)?;
        Ok(Self { stream, missing, domains: NameCounts::default(), ungrouped: 0, failed: None })
    }

    /// Return the log of the candidates; their bytes are written to the file that the input names.
    pub(super) fn log(
        self,
        mut input: Input,
        tally: FileTally,
        origin: PipeFacts,
        threads: usize,
    ) -> Result<Log> {
        if let Some(error) = self.failed {
            return Err(error.into());
        }
        let (facts, candidates) = self.stream.finish()?;
        let components = self.missing.len();
        let vocabulary = NameTables::new();
        let rows = keep(candidates, &input.source.path, RowBins::new(components, &vocabulary))?;
        input.source.size = fs::metadata(&input.source.path).map_or(0, |facts| facts.len());
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
    Ok(rows.done())
}
