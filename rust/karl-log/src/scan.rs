//! One record's text to one row of columns, or to a reason why not.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use karl_core::rng::id128;

use crate::category::Category;
use crate::field::{Fault, Path, Wanted, scan, skip_space};
use crate::format::Fields;
use crate::split::Piece;
use crate::trusted;
use crate::value::{Name, Reward, name, reward};

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

/// How many places of bad rows are kept for each file; all are counted.
pub(crate) const PLACES_KEPT: usize = 20;

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
    /// Rows that are no records, by reason.
    pub(crate) bad: BTreeMap<Reason, u64>,
    /// The first of them; there may be as many as there are bytes.
    pub(crate) places: Vec<Bad>,
    pub(crate) last_bad: u64,
    pub(crate) lines: u64,
    pub(crate) blank: u64,
    pub(crate) welded: u64,
    pub(crate) duplicate_keys: u64,
    pub(crate) without_id: u64,
}

/// Which slot of the scan holds what.
#[derive(Debug)]
pub(crate) struct Scanner {
    wanted: Wanted,
    id: Range<usize>,
    group: Option<usize>,
    reward: Range<usize>,
    domain: Option<usize>,
    partition: Option<usize>,
    trajectory: Range<usize>,
    strict: bool,
    values: Vec<Option<Range<usize>>>,
    name: String,
}

impl Scanner {
    /// Prepares to scan records that keep things in `fields`; `fingerprint` asks for a hash of each trajectory.
    pub(crate) fn new(fields: &Fields, fingerprint: bool, strict: bool) -> Self {
        let mut paths: Vec<Path> = Vec::new();
        let mut add = |more: &mut dyn Iterator<Item = &Path>| {
            let start = paths.len();
            paths.extend(more.cloned());
            start..paths.len()
        };
        let id = add(&mut fields.id.iter());
        let group = add(&mut fields.group.iter());
        let reward = add(&mut fields.reward.iter());
        let domain = add(&mut fields.domain.iter());
        let partition = add(&mut fields.partition.iter());
        let trajectory = add(&mut fields.trajectory().take(if fingerprint { usize::MAX } else { 0 }));
        let one = |mut range: Range<usize>| range.next();
        let (group, domain, partition) = (one(group), one(domain), one(partition));
        let wanted = Wanted::new(&paths);
        let values = vec![None; wanted.slots()];
        Self { wanted, id, group, reward, domain, partition, trajectory, strict, values, name: String::new() }
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
        let named = self.id(record)?;
        let rewards = self.rewards(record)?;
        let text = |slot: Option<usize>, reason| text(self.raw(record, slot), reason);
        let group = text(self.group, Reason::BadGroup)?;
        let domain = text(self.domain, Reason::BadCategory)?;
        let partition = text(self.partition, Reason::BadCategory)?;
        chunk.offset.push(offset);
        chunk.length.push(length);
        chunk.without_id += u64::from(!named);
        chunk.id.push(if named { id128(self.name.as_bytes()) } else { digest });
        chunk.digest.push(digest);
        chunk.group.push(group.as_deref());
        chunk.domain.push(domain.as_deref());
        chunk.partition.push(partition.as_deref());
        chunk.components.iter_mut().zip(rewards).for_each(|(column, reward)| column.push(reward));
        if !self.trajectory.is_empty() {
            chunk.fingerprint.push(self.fingerprint(record));
        }
        Ok(())
    }

    fn raw<'r>(&self, record: &'r [u8], slot: Option<usize>) -> Option<&'r [u8]> {
        record.get(self.values.get(slot?)?.clone()?)
    }

    /// Leaves the id's text in `self.name`; whether the record has all of its parts.
    fn id(&mut self, record: &[u8]) -> Result<bool, Reason> {
        let mut whole = std::mem::take(&mut self.name);
        whole.clear();
        for slot in self.id.clone() {
            let Some(part) = text(self.raw(record, Some(slot)), Reason::BadId)? else {
                return Ok(false);
            };
            if slot > self.id.start {
                whole.push('/');
            }
            whole.push_str(&part);
        }
        self.name = whole;
        Ok(true)
    }

    fn rewards(&self, record: &[u8]) -> Result<Vec<f64>, Reason> {
        let one = |slot| match reward(self.raw(record, Some(slot))) {
            Reward::Missing => Ok(f64::NAN),
            Reward::Value(value) => Ok(value),
            Reward::Infinite => Err(Reason::RewardInfinite),
            Reward::NotANumber => Err(Reason::RewardNotANumber),
        };
        self.reward.clone().map(one).collect()
    }

    /// A hash of the trajectory's bytes as they were written, absent parts told apart from empty ones.
    fn fingerprint(&self, record: &[u8]) -> u128 {
        // A record whose trajectory is not found equals only itself.
        if self.trajectory.clone().all(|slot| self.raw(record, Some(slot)).is_none()) {
            return id128(record);
        }
        let part = |slot| self.raw(record, Some(slot)).map_or(0, id128).to_le_bytes();
        let parts: Vec<u8> = self.trajectory.clone().flat_map(part).collect();
        id128(&parts)
    }
}

impl Chunk {
    /// Counts a row that is no record.
    pub(crate) fn bad(&mut self, offset: u64, reason: Reason) {
        *self.bad.entry(reason).or_default() += 1;
        if self.places.len() < PLACES_KEPT {
            self.places.push(Bad { reason, line: self.lines, offset });
        }
        self.last_bad = offset;
    }

    /// How far its rows come in its file.
    pub(crate) fn reached(&self) -> u64 {
        let end = |(at, length): (&u64, &u32)| at + u64::from(*length);
        self.offset.last().zip(self.length.last()).map_or(0, end).max(self.last_bad)
    }
}

fn reason(fault: Fault, ended: bool) -> Reason {
    match fault {
        Fault::NotAnObject => Reason::NotAnObject,
        Fault::Truncated if !ended => Reason::Torn,
        Fault::Truncated | Fault::Malformed(_) => Reason::Malformed,
    }
}

fn text(raw: Option<&[u8]>, reason: Reason) -> Result<Option<Cow<'_, str>>, Reason> {
    match name(raw) {
        Name::Missing => Ok(None),
        Name::Text(text) => Ok(Some(text)),
        Name::Bad => Err(reason),
    }
}
