//! One record's text to one row of columns, or to a reason why not.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use karl_core::rng::id128;

use crate::field::{Fault, Path, Wanted, scan, skip_space};
use crate::format::Fields;
use crate::rows::{Found, Rows, Spot};
use crate::split::Piece;
use crate::trusted;
use crate::value::{Name, Reward, name, reward};

/// How many places of bad rows are kept for each file; all are counted.
pub(crate) const PLACES_KEPT: usize = 20;

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

/// What was found in a file, or in a range of it, beside its rows.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Rows that are records.
    pub(crate) rows: u64,
    /// Rows that are none, by reason.
    pub(crate) bad: BTreeMap<Reason, u64>,
    /// The first of them.
    pub(crate) places: Vec<Bad>,
    pub(crate) lines: u64,
    pub(crate) blank: u64,
    pub(crate) welded: u64,
    pub(crate) duplicate_keys: u64,
    pub(crate) without_id: u64,
    /// How far the last row comes, or where the last that is none begins.
    pub(crate) reached: u64,
}

/// Which slot of the scan holds what.
#[derive(Debug)]
pub(crate) struct Scanner {
    input: usize,
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
    rewards: Vec<f64>,
}

impl Scanner {
    /// Prepares to scan the records of a file, which keep things in `fields`; `fingerprint` asks for a hash of each
    /// trajectory.
    pub(crate) fn new(input: usize, fields: &Fields, fingerprint: bool, strict: bool) -> Self {
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
        Self {
            input,
            wanted,
            id,
            group,
            reward,
            domain,
            partition,
            trajectory,
            strict,
            values,
            name: String::new(),
            rewards: Vec::new(),
        }
    }

    /// Takes one piece of a file: a record, several that were welded together, or none.
    pub(crate) fn piece(&mut self, piece: &Piece<'_>, rows: &mut Rows, tally: &mut Tally) {
        tally.lines += 1;
        let (offset, bytes, ended) = match *piece {
            Piece::TooLong { offset } => return tally.bad(offset, Reason::TooLong),
            Piece::Cut { offset } => return tally.bad(offset, Reason::Torn),
            Piece::Text { offset, bytes, ended } => (offset, bytes, ended),
        };
        let mut at = skip_space(bytes, 0);
        if at == bytes.len() {
            tally.blank += 1;
            return;
        }
        let mut records = 0;
        while at < bytes.len() {
            let place = offset + at as u64;
            match self.record(&bytes[at..], place, rows, tally) {
                Ok(end) => at = skip_space(bytes, at + end),
                Err(fault) => {
                    tally.bad(place, reason(fault, ended));
                    break;
                }
            }
            records += 1;
        }
        tally.welded += u64::from(records > 1);
    }

    /// Takes the record at the start of `bytes`; its length.
    fn record(
        &mut self,
        bytes: &[u8],
        offset: u64,
        rows: &mut Rows,
        tally: &mut Tally,
    ) -> Result<usize, Fault> {
        let mut values = std::mem::take(&mut self.values);
        let scanned = scan(bytes, &self.wanted, &mut values);
        self.values = values;
        let scanned = scanned?;
        let record = &bytes[..scanned.end];
        tally.duplicate_keys += u64::from(scanned.duplicate);
        match self.row(record, offset, scanned.duplicate, rows) {
            Ok(named) => {
                tally.rows += 1;
                tally.without_id += u64::from(!named);
                tally.reached = offset + scanned.end as u64;
            }
            Err(reason) => tally.bad(offset, reason),
        }
        Ok(scanned.end)
    }

    /// Adds a row; whether it has an id of its own.
    fn row(&mut self, record: &[u8], offset: u64, duplicate: bool, rows: &mut Rows) -> Result<bool, Reason> {
        let length = u32::try_from(record.len()).map_err(|_| Reason::TooLong)?;
        let spot = Spot::new(self.input, offset).ok_or(Reason::TooLong)?;
        if self.strict {
            trusted::check(record).map_err(|_| Reason::Malformed)?;
            if duplicate {
                return Err(Reason::DuplicateKey);
            }
        }
        let digest = id128(record);
        let id = self.id(record)?;
        self.rewards(record)?;
        let text = |slot: Option<usize>, reason| text(self.raw(record, slot), reason);
        let group = text(self.group, Reason::BadGroup)?;
        let domain = text(self.domain, Reason::BadCategory)?;
        let partition = text(self.partition, Reason::BadCategory)?;
        rows.push(&Found {
            id: id.unwrap_or(digest),
            digest: upper(digest),
            spot,
            length,
            rewards: &self.rewards,
            group: group.as_deref(),
            domain: domain.as_deref(),
            partition: partition.as_deref(),
            fingerprint: (!self.trajectory.is_empty()).then(|| self.fingerprint(record)),
        });
        Ok(id.is_some())
    }

    fn raw<'r>(&self, record: &'r [u8], slot: Option<usize>) -> Option<&'r [u8]> {
        record.get(self.values.get(slot?)?.clone()?)
    }

    /// The hash of the id's text; none where the record lacks a part of it.
    fn id(&mut self, record: &[u8]) -> Result<Option<u128>, Reason> {
        if self.id.len() == 1 {
            let name = text(self.raw(record, Some(self.id.start)), Reason::BadId)?;
            return Ok(name.map(|name| id128(name.as_bytes())));
        }
        let mut whole = std::mem::take(&mut self.name);
        whole.clear();
        for slot in self.id.clone() {
            let Some(part) = text(self.raw(record, Some(slot)), Reason::BadId)? else {
                return Ok(None);
            };
            if slot > self.id.start {
                whole.push('/');
            }
            whole.push_str(&part);
        }
        self.name = whole;
        Ok(Some(id128(self.name.as_bytes())))
    }

    /// Leaves the components of the reward in `self.rewards`.
    fn rewards(&mut self, record: &[u8]) -> Result<(), Reason> {
        self.rewards.clear();
        for slot in self.reward.clone() {
            self.rewards.push(match reward(self.raw(record, Some(slot))) {
                Reward::Missing => f64::NAN,
                Reward::Value(value) => value,
                Reward::Infinite => return Err(Reason::RewardInfinite),
                Reward::NotANumber => return Err(Reason::RewardNotANumber),
            });
        }
        Ok(())
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

/// The half of a digest that is kept: enough to order records of one id, and to see that one has changed.
pub(crate) fn upper(digest: u128) -> u64 {
    u64::try_from(digest >> 64).unwrap_or(u64::MAX)
}

impl Tally {
    pub(crate) fn bad(&mut self, offset: u64, reason: Reason) {
        *self.bad.entry(reason).or_default() += 1;
        self.reached = self.reached.max(offset);
        if self.places.len() < PLACES_KEPT {
            self.places.push(Bad { reason, line: self.lines, offset });
        }
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
