//! One record's text to one row of columns, or to a reason why not.

use std::borrow::Cow;
use std::ops::Range;

use karl_core::rng::id128;

use crate::category::Category;
use crate::field::{Fault, Path, Wanted, scan, skip_space};
use crate::format::{Field, Fields};
use crate::seat::{Found, Seat, holds};
use crate::split::Piece;
use crate::trusted;
use crate::value::{Name, Reward, reward};

/// Why a row that was read is no record. Each is counted under its name on every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The stream ends inside the record, or inside the array of records: a torn write.
    Torn,
    /// Not a JSON object.
    NotAnObject,
    /// Not valid JSON.
    Malformed,
    /// Longer than `--max-line-bytes`.
    TooLong,
    /// Compressed bytes that cannot be unpacked; what followed them is lost.
    DamagedStream,
    /// An id that is no string, number or truth value.
    BadId,
    /// A group that is no string, number or truth value.
    BadGroup,
    /// A category that is no string, number or truth value.
    BadCategory,
    /// A reward that is no number.
    RewardNotANumber,
    /// A reward that is not finite, or beyond 1e100 in size.
    RewardInfinite,
    /// A rollout that failed for no fault of the model, so that its reward says nothing; no damage.
    FailedRollout,
    /// A key that stands twice; a reason with `--strict` only.
    DuplicateKey,
}

impl Reason {
    /// The name that reports use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Torn => "torn",
            Self::NotAnObject => "not_an_object",
            Self::Malformed => "malformed",
            Self::TooLong => "too_long",
            Self::DamagedStream => "damaged_stream",
            Self::BadId => "bad_id",
            Self::BadGroup => "bad_group",
            Self::BadCategory => "bad_category",
            Self::RewardNotANumber => "reward_not_a_number",
            Self::RewardInfinite => "reward_infinite",
            Self::FailedRollout => "failed_rollout",
            Self::DuplicateKey => "duplicate_key",
        }
    }
}

/// A row that is no record, and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bad {
    /// Why.
    pub reason: Reason,
    /// The line, or the element of the array, from 1.
    pub line: u64,
    /// Its first byte, counted in the unpacked file.
    pub offset: u64,
}

/// Rows with the values that were wanted, in the order they were read.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) offset: Vec<u64>,
    pub(crate) length: Vec<u32>,
    pub(crate) id: Vec<u128>,
    pub(crate) digest: Vec<u128>,
    /// One column a component of the reward; NaN where it is missing.
    pub(crate) components: Vec<Vec<f64>>,
    pub(crate) group: Category,
    pub(crate) domain: Category,
    pub(crate) partition: Category,
    pub(crate) fingerprint: Vec<u128>,
    pub(crate) bad: Vec<Bad>,
    pub(crate) lines: u64,
    pub(crate) blank: u64,
    pub(crate) welded: u64,
    pub(crate) duplicate_keys: u64,
    pub(crate) without_id: u64,
}

/// Where the scan leaves what.
#[derive(Debug)]
pub(crate) struct Scanner {
    wanted: Wanted,
    id: Vec<Seat>,
    group: Vec<Seat>,
    reward: Vec<Seat>,
    domain: Vec<Seat>,
    partition: Vec<Seat>,
    failed: Option<Seat>,
    trajectory: Vec<Seat>,
    strict: bool,
    values: Vec<Option<Range<usize>>>,
}

impl Scanner {
    /// Prepares to scan records that keep things in `fields`; `fingerprint` asks for a hash of each trajectory.
    pub(crate) fn new(fields: &Fields, fingerprint: bool, strict: bool) -> Self {
        let mut paths: Vec<Path> = Vec::new();
        let id = fields.id.iter().map(|path| Seat::plain(path, &mut paths)).collect();
        let failed = fields.failed.as_ref().map(|path| Seat::plain(path, &mut paths));
        let mut seats = |more: &mut dyn Iterator<Item = &Field>| -> Vec<Seat> {
            more.map(|field| Seat::new(field, &mut paths)).collect()
        };
        let group = seats(&mut fields.group.iter());
        let reward = seats(&mut fields.reward.iter());
        let domain = seats(&mut fields.domain.iter());
        let partition = seats(&mut fields.partition.iter());
        let trajectory = seats(&mut fields.trajectory().take(if fingerprint { usize::MAX } else { 0 }));
        let wanted = Wanted::new(&paths);
        let values = vec![None; wanted.slots()];
        Self { wanted, id, group, reward, domain, partition, failed, trajectory, strict, values }
    }

    /// An empty chunk with a column for each component.
    pub(crate) fn chunk(&self) -> Chunk {
        Chunk { components: vec![Vec::new(); self.reward.len()], ..Chunk::default() }
    }

    /// Adds one piece of a file to a chunk: a record, several that were welded together, or none.
    pub(crate) fn piece(&mut self, piece: &Piece<'_>, chunk: &mut Chunk) {
        chunk.lines += 1;
        let (offset, bytes, ended) = match *piece {
            Piece::TooLong { offset } => return chunk.bad(offset, Reason::TooLong),
            Piece::Cut { offset } => return chunk.bad(offset, Reason::Torn),
            Piece::Text { offset, bytes, ended } => (offset, bytes, ended),
        };
        let mut at = skip_space(bytes, 0);
        if at == bytes.len() {
            chunk.blank += 1;
            return;
        }
        let mut records = 0;
        while at < bytes.len() {
            let place = offset + at as u64;
            match self.record(&bytes[at..], place, chunk) {
                Ok(end) => at = skip_space(bytes, at + end),
                Err(fault) => {
                    chunk.bad(place, reason(fault, ended));
                    break;
                }
            }
            records += 1;
        }
        chunk.welded += u64::from(records > 1);
    }

    /// Adds the record at the start of `bytes`; its length.
    fn record(&mut self, bytes: &[u8], offset: u64, chunk: &mut Chunk) -> Result<usize, Fault> {
        let mut values = std::mem::take(&mut self.values);
        let scanned = scan(bytes, &self.wanted, &mut values);
        self.values = values;
        let scanned = scanned?;
        let record = &bytes[..scanned.end];
        chunk.duplicate_keys += u64::from(scanned.duplicate);
        if let Err(reason) = self.row(record, offset, scanned.duplicate, chunk) {
            chunk.bad(offset, reason);
        }
        Ok(scanned.end)
    }

    fn row(&mut self, record: &[u8], offset: u64, duplicate: bool, chunk: &mut Chunk) -> Result<(), Reason> {
        let length = u32::try_from(record.len()).map_err(|_| Reason::TooLong)?;
        if self.strict {
            trusted::parse(record).map_err(|_| Reason::Malformed)?;
            if duplicate {
                return Err(Reason::DuplicateKey);
            }
        }
        let digest = id128(record);
        let found = Found { record, values: &self.values };
        if self
            .failed
            .as_ref()
            .and_then(|seat| seat.raw(found))
            .is_some_and(|raw| holds(raw) && raw != b"false")
        {
            return Err(Reason::FailedRollout);
        }
        let id = joined(&self.id, found, Reason::BadId)?;
        let rewards = self.rewards(found)?;
        let group = joined(&self.group, found, Reason::BadGroup)?;
        let domain = joined(&self.domain, found, Reason::BadCategory)?;
        let partition = joined(&self.partition, found, Reason::BadCategory)?;
        chunk.offset.push(offset);
        chunk.length.push(length);
        chunk.without_id += u64::from(id.is_none());
        chunk.id.push(id.map_or(digest, |id| id128(id.as_bytes())));
        chunk.digest.push(digest);
        chunk.group.push(group.as_deref());
        chunk.domain.push(domain.as_deref());
        chunk.partition.push(partition.as_deref());
        chunk.components.iter_mut().zip(rewards).for_each(|(column, reward)| column.push(reward));
        if !self.trajectory.is_empty() {
            chunk.fingerprint.push(self.fingerprint(found));
        }
        Ok(())
    }

    fn rewards(&self, found: Found<'_>) -> Result<Vec<f64>, Reason> {
        let one = |seat: &Seat| match reward(seat.raw(found)) {
            Reward::Missing => Ok(f64::NAN),
            Reward::Value(value) => Ok(value),
            Reward::Infinite => Err(Reason::RewardInfinite),
            Reward::NotANumber => Err(Reason::RewardNotANumber),
        };
        self.reward.iter().map(one).collect()
    }

    /// A hash of the trajectory's bytes as they were written, absent parts told apart from empty ones.
    fn fingerprint(&self, found: Found<'_>) -> u128 {
        // A record whose trajectory is not found equals only itself.
        if self.trajectory.iter().all(|seat| seat.raw(found).is_none()) {
            return id128(found.record);
        }
        let part = |seat: &Seat| seat.raw(found).map_or(0, id128).to_le_bytes();
        let parts: Vec<u8> = self.trajectory.iter().flat_map(part).collect();
        id128(&parts)
    }
}

impl Chunk {
    fn bad(&mut self, offset: u64, reason: Reason) {
        self.bad.push(Bad { reason, line: self.lines, offset });
    }
}

fn reason(fault: Fault, ended: bool) -> Reason {
    match fault {
        Fault::NotAnObject => Reason::NotAnObject,
        Fault::Truncated if !ended => Reason::Torn,
        Fault::Truncated | Fault::Malformed(_) => Reason::Malformed,
    }
}

/// The names of the seats, joined by `/`; none where there is no seat, or one of them is empty.
fn joined<'r>(seats: &[Seat], found: Found<'r>, bad: Reason) -> Result<Option<Cow<'r, str>>, Reason> {
    let mut whole: Option<Cow<'r, str>> = None;
    for seat in seats {
        whole = match (whole, seat.name(found)) {
            (_, Name::Bad) => return Err(bad),
            (_, Name::Missing) => return Ok(None),
            (None, Name::Text(first)) => Some(first),
            (Some(before), Name::Text(next)) => Some(Cow::Owned(format!("{before}/{next}"))),
        };
    }
    Ok(whole)
}
