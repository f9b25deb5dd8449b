//! Which rows are one group: by a code a row, or end to end.

use crate::error::{Result, check_length};
use crate::group::Groups;
use crate::ragged::Offsets;

/// The groups of rows, as a caller has them.
#[derive(Clone, Copy, Debug)]
pub enum Layout<'a> {
    /// A code a row, in any order; a row may have no group.
    Coded(&'a Groups<'a>),
    /// Groups end to end, as GRPO lays them out: no code is read, and rows of a group are neighbours in memory.
    Ragged(Offsets<'a>),
}

impl Layout<'_> {
    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        match self {
            Self::Coded(groups) => groups.rows(),
            Self::Ragged(offsets) => offsets.values(),
        }
    }

    /// Whether a row has a group.
    pub(super) fn has(&self, row: usize) -> bool {
        match self {
            Self::Coded(groups) => groups.code(row).is_some(),
            Self::Ragged(_) => true,
        }
    }

    /// The number of groups.
    pub(super) fn groups(&self) -> usize {
        match self {
            Self::Coded(groups) => groups.len(),
            Self::Ragged(offsets) => offsets.len(),
        }
    }

    /// Calls `visit` with group and row, for each row that has a group.
    pub(super) fn each(&self, mut visit: impl FnMut(usize, usize)) {
        match self {
            Self::Coded(groups) => {
                let rows = (0..groups.rows()).filter_map(|row| Some((groups.code(row)?, row)));
                rows.for_each(|(group, row)| visit(group, row));
            }
            Self::Ragged(offsets) => {
                for (group, rows) in offsets.rows().enumerate() {
                    rows.for_each(|row| visit(group, row));
                }
            }
        }
    }

    /// Refuses a column of another number of rows.
    pub(super) fn check(&self, what: &'static str, rows: usize) -> Result<()> {
        check_length(what, rows, self.rows())
    }
}

impl<'a> From<&'a Groups<'a>> for Layout<'a> {
    fn from(groups: &'a Groups<'a>) -> Self {
        Self::Coded(groups)
    }
}

impl<'a> From<Offsets<'a>> for Layout<'a> {
    fn from(offsets: Offsets<'a>) -> Self {
        Self::Ragged(offsets)
    }
}
