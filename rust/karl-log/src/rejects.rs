//! Rejected rows of a file, with reason and place.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Number of places of rejected rows kept for each file; all are counted.
pub(crate) const PLACES_KEPT: usize = 20;

/// Reason to reject a row. Each is counted under its name on every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RejectReason {
    /// The stream ends inside the record, or inside the array of records: a torn write.
    Torn,
    /// Not a JSON object.
    NotAnObject,
    /// Invalid JSON.
    Malformed,
    /// Longer than `--max-line-bytes`.
    TooLong,
    /// Compressed bytes that cannot be unpacked; everything after them is lost.
    DamagedStream,
    /// Id that is not a string, number or boolean.
    BadId,
    /// Group that is not a string, number or boolean.
    BadGroup,
    /// Category that is not a string, number or boolean.
    BadCategory,
    /// Reward that is not a number.
    RewardNotANumber,
    /// Reward that is not finite, or has a magnitude above 1e100.
    RewardInfinite,
    /// Order that is missing, or neither a finite number nor an RFC 3339 time.
    BadOrder,
    /// Rollout that failed for reasons outside the model, so its reward is meaningless; not damage.
    FailedRollout,
    /// Duplicate key; a reason with `--strict` only.
    DuplicateKey,
    /// Record of which each element of its lists makes a row, without such a list, with an empty one, or with lists of
    /// several lengths.
    BadList,
}

impl RejectReason {
    /// Return the name used in reports.
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
            Self::BadOrder => "bad_order",
            Self::FailedRollout => "failed_rollout",
            Self::DuplicateKey => "duplicate_key",
            Self::BadList => "bad_list",
        }
    }
}

/// Rejected row and its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bad {
    /// Reason.
    pub reason: RejectReason,
    /// Number of the line, or of the element of the array, from 1.
    pub line: u64,
    /// Offset of the first byte in the unpacked file.
    pub offset: u64,
    /// Path of the duplicate key, if that is the reason.
    pub key: Option<String>,
    /// Beginning of the value as written, if the reason is a bad order and there is one.
    pub value: Option<String>,
}

/// First place of each kind of order in a file, or in a range of it: number of the line, and offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderKinds {
    /// Of an order that is a number.
    pub number: Option<(u64, u64)>,
    /// Of an order that is a time.
    pub time: Option<(u64, u64)>,
}

impl OrderKinds {
    /// Take in the kind of an order at its place.
    pub(crate) fn push(&mut self, is_time: bool, place: (u64, u64)) {
        let first = if is_time { &mut self.time } else { &mut self.number };
        first.get_or_insert(place);
    }

    /// Add those of the next range of the file.
    pub(crate) fn add(&mut self, next: Self, lines_before: u64) {
        let moved = |place: Option<(u64, u64)>| place.map(|(line, offset)| (line + lines_before, offset));
        self.number = self.number.or(moved(next.number));
        self.time = self.time.or(moved(next.time));
    }
}

/// Counts of a file, or of a range of it, besides its rows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FileTally {
    /// Number of records.
    pub rows: u64,
    /// Rejected rows, by reason.
    pub bad: BTreeMap<RejectReason, u64>,
    /// Places of the first of them.
    pub places: Vec<Bad>,
    /// Number of lines.
    pub lines: u64,
    /// Blank lines: not rows.
    pub blank: u64,
    /// Lines with several concatenated records; all were read.
    pub welded: u64,
    /// Records with a duplicate of a wanted key; the last one counts.
    pub duplicate_keys: u64,
    /// Records without an id, for which the hash of their bytes is used.
    pub without_id: u64,
    /// Records with a domain that is a list, an object or invalid text, if the caller did not name the
    /// domain: they have none.
    pub unusable_domains: u64,
    /// First place of each kind of order.
    pub orders: OrderKinds,
    /// True if reading stopped at a record that spans several lines; its end cannot be found in a range.
    pub beyond: bool,
    /// End of the last record, or start of the last rejected row.
    pub reached: u64,
}

impl FileTally {
    /// Count a rejected row.
    pub fn bad(&mut self, offset: u64, reason: RejectReason) {
        self.count(offset, reason, (None, None));
    }

    /// Count a record with a duplicate key.
    pub(crate) fn bad_key(&mut self, offset: u64, key: Option<String>) {
        self.count(offset, RejectReason::DuplicateKey, (key, None));
    }

    /// Count a record with a bad order, with its value.
    pub(crate) fn bad_order(&mut self, offset: u64, value: Option<String>) {
        self.count(offset, RejectReason::BadOrder, (None, value));
    }

    fn count(&mut self, offset: u64, reason: RejectReason, (key, value): (Option<String>, Option<String>)) {
        *self.bad.entry(reason).or_default() += 1;
        self.reached = self.reached.max(offset);
        if self.places.len() < PLACES_KEPT {
            self.places.push(Bad { reason, line: self.lines, offset, key, value });
        }
    }
}
