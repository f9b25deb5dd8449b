//! Settings of a draw and of its rows.

use karl_core::Copies;
use karl_core::sample::Ranking;
use karl_redact::Pseudonyms;

use super::quota::Strata;
use super::shape::Shape;
use crate::conversation::Flaw;

/// Check by the caller that returns the flaw of a rendered row, if any; an error ends the job.
pub type Judge<'a> = &'a dyn Fn(&str) -> std::result::Result<Option<Flaw>, String>;

/// Values of the selection for each row of the log.
#[derive(Clone, Copy)]
pub struct SelectionValues<'a> {
    /// Reward, composite or not. `[B]`
    pub rewards: &'a [f64],
    /// Score, which is tempered. `[B]`
    pub scores: &'a [f64],
    /// Log-weight under the target, by row.
    pub log_weight: &'a (dyn Fn(usize) -> f64 + Sync),
}

/// Draw of rows, and the replacement of rows that fail.
pub enum Draw<'a> {
    /// Given number of rows in the order of a ranking; a row that fails is replaced by the next key.
    Ranked {
        /// Ranking.
        ranking: Ranking<'a>,
        /// Number of rows.
        count: usize,
        /// Number of rows of each stratum, in total `count`.
        strata: Option<Strata<'a>>,
    },
    /// Rows with replacement; the draw is repeated without rows that failed.
    Copied(Copies<'a>),
}

/// Preparation of the long records of plain files that are copied unchanged; all others are held in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepared {
    /// Texts held in memory: nothing is read again.
    Held,
    /// Validated as rows, read again when written, and compared with the first read.
    Judged,
    /// None, for files of lines, where a row is wrong only if it is not JSON on one line: each is read once,
    /// and validated as it is written; see [`Error::Unwritable`](crate::Error::Unwritable).
    Unread,
}

impl Prepared {
    /// Return the variant of a name; `None` if unknown.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "held" => Some(Self::Held),
            "judged" => Some(Self::Judged),
            "unread" => Some(Self::Unread),
            _ => None,
        }
    }

    /// Return the same, and at least `Judged`.
    #[must_use]
    pub const fn judged(self) -> Self {
        if let Self::Unread = self { Self::Judged } else { self }
    }
}

/// Settings of the conversion of records to rows.
#[derive(Clone, Copy, Debug)]
pub struct ExportSettings<'a> {
    /// Shape of a row.
    pub shape: Shape,
    /// True to leave secrets in place.
    pub allow_secrets: bool,
    /// Replacement of personal data.
    pub pseudonyms: Option<&'a Pseudonyms>,
    /// Preparation of records that are copied unchanged.
    pub prepared: Prepared,
    /// Maximum rows of a group in a draw without replacement.
    pub max_per_group: Option<usize>,
    /// True if rows go to several splits: then the prompt of each row without a group is hashed.
    pub dealt: bool,
    /// Seed, for the choice of the rejected answer of a pair.
    pub seed: u64,
    /// Number of threads; at least one is used.
    pub threads: usize,
}

impl ExportSettings<'_> {
    /// Return whether something in a record may be replaced.
    pub(super) fn protects(&self) -> bool {
        !self.allow_secrets || self.pseudonyms.is_some()
    }

    /// Return the preparation of records: a judge of the caller needs held texts; any shape but raw, and the
    /// search for secrets and personal data, need at least validation.
    pub(super) fn preparation(&self, judge: bool) -> Prepared {
        match self.prepared {
            _ if judge => Prepared::Held,
            prepared if self.shape != Shape::Raw || self.protects() => prepared.judged(),
            prepared => prepared,
        }
    }
}
