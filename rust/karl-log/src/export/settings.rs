//! Which rows are wanted, and how they are made.

use karl_core::Copies;
use karl_core::sample::Ranking;

use super::quota::Strata;
use super::render::Shape;
use crate::conversation::Flaw;

/// The caller's own flaw of a rendered row, if it has one; an error ends the job.
pub type Judge<'a> = &'a dyn Fn(&str) -> std::result::Result<Option<Flaw>, String>;

/// What the selection knows of each row of the log.
#[derive(Clone, Copy)]
pub struct RowFacts<'a> {
    /// The reward, composite or not. `[B]`
    pub rewards: &'a [f64],
    /// What was tempered. `[B]`
    pub scores: &'a [f64],
    /// Its log-weight under the target, by row.
    pub log_weight: &'a (dyn Fn(usize) -> f64 + Sync),
}

/// Which rows are wanted, and what becomes of one that fails.
pub enum Draw<'a> {
    /// So many rows in the order of a ranking; the next key takes the place of one that fails.
    Ranked {
        /// The order.
        ranking: Ranking<'a>,
        /// How many.
        count: usize,
        /// How many of each stratum, together `count`.
        strata: Option<Strata<'a>>,
    },
    /// Rows with replacement; the draw is made again without one that fails.
    Copied(Copies<'a>),
}

/// How far the long records of plain files are prepared that are written as they came; all others are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepared {
    /// Their texts are held: nothing is read again.
    Held,
    /// They are known to be rows. They are read again, and have to be what they were.
    Judged,
    /// Not at all, of files of lines, where nothing can be wrong with a row but that it is no JSON on one line: each is read
    /// once, and judged as it is written; see [`Error::Unwritable`](crate::Error::Unwritable).
    Unread,
}

impl Prepared {
    /// That of a name; none for another.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "held" => Some(Self::Held),
            "judged" => Some(Self::Judged),
            "unread" => Some(Self::Unread),
            _ => None,
        }
    }

    /// The same, and at least judged.
    #[must_use]
    pub const fn judged(self) -> Self {
        if let Self::Unread = self { Self::Judged } else { self }
    }
}

/// How to make rows of records.
#[derive(Clone, Copy, Debug)]
pub struct ExportSettings {
    /// What a row looks like.
    pub shape: Shape,
    /// Whether secrets stay as they are.
    pub allow_secrets: bool,
    /// How far records that are written as they came are prepared.
    pub prepared: Prepared,
    /// How many rows of a group there may be, in a draw without replacement.
    pub max_per_group: Option<usize>,
    /// Whether rows are to be dealt into several splits: then the prompt of each row without a group is looked for.
    pub dealt: bool,
    /// How many threads to make rows with; at least one is used.
    pub threads: usize,
}

impl ExportSettings {
    /// How far records are prepared: a judge of the caller's sees every text, and what may hold a secret is read for it.
    pub(super) fn preparing(&self, judge: bool) -> Prepared {
        match self.prepared {
            _ if judge => Prepared::Held,
            prepared if self.shape != Shape::Raw || !self.allow_secrets => prepared.judged(),
            prepared => prepared,
        }
    }
}
