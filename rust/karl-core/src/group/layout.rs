//! Layout of groups: by a code for each row, or end to end.

use crate::check::check_length;
use crate::error::Result;
use crate::group::Groups;
use crate::group::offsets::Offsets;
use crate::numeric::parallel::{self, ALONE, in_parts};

/// The groups of rows, as a caller has them.
#[derive(Clone, Copy, Debug)]
pub enum Layout<'a> {
    /// A code a row, in any order; a row may have no group.
    Coded(&'a Groups<'a>),
    /// Groups end to end, as GRPO lays them out: no code is read, and rows of a group are neighbours in memory.
    Ragged(Offsets<'a>),
}

impl Layout<'_> {
    /// Return the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        match self {
            Self::Coded(groups) => groups.rows(),
            Self::Ragged(offsets) => offsets.values(),
        }
    }

    /// Return the rows that [`Scratch`](crate::Scratch) has to hold for a score of these groups; 0 where they are not bucketed.
    #[must_use]
    pub fn scratch_rows(&self) -> usize {
        match self {
            Self::Coded(groups) if groups.needs_buckets() => groups.rows(),
            _ => 0,
        }
    }

    /// Return whether a row has a group.
    pub(crate) fn has(&self, row: usize) -> bool {
        match self {
            Self::Coded(groups) => groups.code(row).is_some(),
            Self::Ragged(_) => true,
        }
    }

    /// Return the number of groups.
    pub(crate) fn groups(&self) -> usize {
        match self {
            Self::Coded(groups) => groups.len(),
            Self::Ragged(offsets) => offsets.len(),
        }
    }

    /// Call `visit` with group and row, for each row that has a group.
    pub(crate) fn each(&self, mut visit: impl FnMut(usize, usize)) {
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

    /// Return one state per group, folded over its rows in their order.
    pub(crate) fn fold<S: Clone + Send + Sync>(
        &self,
        threads: usize,
        start: S,
        step: impl Fn(&mut S, usize, usize) + Sync,
    ) -> Vec<S> {
        let offsets = match self {
            Self::Coded(groups) => return groups.fold(threads, start, step),
            Self::Ragged(offsets) => offsets,
        };
        let one = |group: usize| {
            let mut state = start.clone();
            offsets.row(group).for_each(|row| step(&mut state, group, row));
            state
        };
        let threads = if self.rows() < ALONE { 1 } else { threads };
        in_parts(offsets.len(), threads, |groups| groups.map(one).collect::<Vec<S>>()).concat()
    }

    /// Return the number of each row's group; NaN for a row without one.
    pub(crate) fn on_rows(&self, numbers: &[f64], threads: usize) -> Vec<f64> {
        let mut column = vec![f64::NAN; self.rows()];
        match self {
            Self::Coded(groups) => parallel::fill(&mut column, threads, |first, block| {
                for (number, row) in block.iter_mut().zip(first..) {
                    *number = groups.code(row).map_or(f64::NAN, |group| numbers[group]);
                }
            }),
            Self::Ragged(offsets) => {
                offsets.rows().zip(numbers).for_each(|(rows, number)| column[rows].fill(*number));
            }
        }
        column
    }

    /// Reject a column of another number of rows: by the name of what names the groups, where that is a column too.
    pub(crate) fn check(&self, what: &'static str, rows: usize) -> Result<()> {
        match self {
            Self::Coded(groups) => check_length("group_ids", groups.rows(), rows),
            Self::Ragged(offsets) => check_length(what, rows, offsets.values()),
        }
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
