//! What is found in a file beside its rows: what is no record, why, and where.

use std::collections::BTreeMap;

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad {
    /// Why.
    pub reason: Reason,
    /// The line, or the element of the array, from 1.
    pub line: u64,
    /// Its first byte, counted in the unpacked file.
    pub offset: u64,
    /// The path of the key that stands twice, where that is the reason.
    pub key: Option<String>,
}

/// What was found in a file, or in a range of it, beside its rows.
#[derive(Clone, Debug, Default)]
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
    pub(crate) unusable_domains: u64,
    /// Whether reading stopped at a record that goes on beyond its line, which a range cannot tell the end of.
    pub(crate) beyond: bool,
    /// How far the last row comes, or where the last that is none begins.
    pub(crate) reached: u64,
}

impl Tally {
    pub(crate) fn bad(&mut self, offset: u64, reason: Reason) {
        self.count(offset, reason, None);
    }

    /// Counts a record in which a key stands twice.
    pub(crate) fn bad_key(&mut self, offset: u64, key: Option<String>) {
        self.count(offset, Reason::DuplicateKey, key);
    }

    fn count(&mut self, offset: u64, reason: Reason, key: Option<String>) {
        *self.bad.entry(reason).or_default() += 1;
        self.reached = self.reached.max(offset);
        if self.places.len() < PLACES_KEPT {
            self.places.push(Bad { reason, line: self.lines, offset, key });
        }
    }
}
