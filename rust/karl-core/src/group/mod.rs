//! Groups of rows: the rollouts of one prompt, or the rows of one partition; and scopes, sets of rows that are normalised
//! together.
//!
//! Rows come as dense codes, one a row. Nothing else is kept a row: what a group needs to know of its members is
//! folded from one pass over the rows, into one state a group.

pub mod layout;
pub mod offsets;

pub use layout::Layout;
pub use offsets::Offsets;

use std::borrow::Cow;

use crate::error::{Error, Result};
use crate::numeric::parallel::{ALONE, each};
use crate::numeric::radix::{Codes, needs_buckets};

/// The group of each row.
///
/// ```
/// use karl_core::group::Groups;
/// let groups = Groups::from_ids(&[70, 3, 70, -1])?;
/// assert_eq!((groups.len(), groups.code(0), groups.code(1), groups.code(2)), (2, Some(0), Some(1), Some(0)));
/// assert_eq!((groups.code(3), groups.grouped()), (None, 3));
/// # Ok::<(), karl_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups<'a> {
    codes: Cow<'a, [u32]>,
    count: usize,
    grouped: usize,
}

impl<'a> Groups<'a> {
    /// The code of a row that has no group.
    pub const NONE: u32 = u32::MAX;

    /// Make groups from dense codes, borrowed or owned: `codes[row]` is in `0..count`, or [`Groups::NONE`].
    ///
    /// A group may be empty. Cost: one pass over the rows, no memory.
    ///
    /// # Errors
    /// [`Error::Code`] for a code that is out of range; [`Error::Length`] for more rows than a `u32` can count.
    pub fn from_codes(codes: impl Into<Cow<'a, [u32]>>, count: usize) -> Result<Self> {
        let codes = codes.into();
        check_rows(codes.len())?;
        let beyond = |code: u32| code != Self::NONE && code as usize >= count;
        let (mut grouped, mut wrong) = (0, 0);
        for &code in codes.iter() {
            grouped += usize::from(code != Self::NONE);
            wrong += usize::from(beyond(code));
        }
        match codes.iter().position(|&code| wrong > 0 && beyond(code)) {
            Some(index) => Err(Error::Code { index, code: codes[index], count }),
            None => Ok(Self { codes, count, grouped }),
        }
    }

    /// Make groups from ids: rows with one id are one group, and groups stand in order of first appearance. A negative
    /// id says that the row has no group.
    ///
    /// Cost: linear where the ids are dense, as codes are; else one sort. A hash map would be linear too, but its keys
    /// are either random, or open to ids made to collide.
    ///
    /// # Errors
    /// [`Error::Length`] for more rows than a `u32` can count.
    pub fn from_ids(ids: &[i64]) -> Result<Groups<'static>> {
        check_rows(ids.len())?;
        let most = ids.iter().copied().max().and_then(|most| usize::try_from(most).ok()).unwrap_or(0);
        let (codes, count) = if most <= 2 * ids.len() { number_dense(ids, most) } else { number_any(ids) };
        Groups::from_codes(codes, count)
    }

    /// As [`from_ids`](Self::from_ids), with groups in no order that can be relied on: ids that are dense are codes as they
    /// are, and an id that no row has is an empty group.
    ///
    /// ```
    /// use karl_core::group::Groups;
    /// let groups = Groups::from_ids_in_any_order(&[2, 0, 2, -1])?;
    /// assert_eq!((groups.len(), groups.code(0), groups.code(1), groups.code(3)), (3, Some(2), Some(0), None));
    /// # Ok::<(), karl_core::Error>(())
    /// ```
    ///
    /// Cost: two passes where the ids are dense, else as [`from_ids`](Self::from_ids).
    ///
    /// # Errors
    /// [`Error::Length`] for more rows than a `u32` can count.
    pub fn from_ids_in_any_order(ids: &[i64]) -> Result<Groups<'static>> {
        check_rows(ids.len())?;
        let count =
            ids.iter().copied().max().and_then(|most| usize::try_from(most).ok()).map_or(0, |most| most + 1);
        if count > ids.len().saturating_mul(2).min(Self::NONE as usize) {
            return Self::from_ids(ids);
        }
        let codes: Vec<u32> = ids.iter().map(|&id| u32::try_from(id).unwrap_or(Self::NONE)).collect();
        let grouped = codes.iter().filter(|&&code| code != Self::NONE).count();
        Ok(Groups { codes: Cow::Owned(codes), count, grouped })
    }

    /// Return groups of adjacent rows: row `i` of the offsets is group `i`, which may be empty.
    ///
    /// Cost: linear.
    ///
    /// # Errors
    /// [`Error::Length`] for more rows or groups than a `u32` can count.
    pub fn from_offsets(offsets: &Offsets<'_>) -> Result<Groups<'static>> {
        check_rows(offsets.values())?;
        check_rows(offsets.len())?;
        let mut codes = Vec::with_capacity(offsets.values());
        for (group, rows) in offsets.rows().enumerate() {
            codes.resize(rows.end, numbered(group));
        }
        Ok(Groups { codes: Cow::Owned(codes), count: offsets.len(), grouped: offsets.values() })
    }

    /// Return the number of groups, empty ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Return whether there is no group at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Return the number of rows, those without a group included.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.codes.len()
    }

    /// Return the number of rows that have a group.
    #[must_use]
    pub fn grouped(&self) -> usize {
        self.grouped
    }

    /// Return the group of `row`; none where the row has no group or does not exist.
    #[must_use]
    pub fn code(&self, row: usize) -> Option<usize> {
        let code = *self.codes.get(row)?;
        (code != Self::NONE).then_some(code as usize)
    }

    /// Return the groups as bucketing takes them.
    pub(crate) fn dense(&self) -> Codes<'_> {
        Codes { codes: &self.codes, groups: self.count }
    }

    /// Return whether rows of these groups are bucketed.
    pub(crate) fn needs_buckets(&self) -> bool {
        needs_buckets(self.count)
    }

    /// Return the code of each row.
    pub(crate) fn codes(&self) -> &[u32] {
        &self.codes
    }

    /// Fold the rows of each group, in row order, into its state: `step` gets the state, the group and the row.
    ///
    /// Every thread reads all codes and takes the rows of its range of groups, so that no state is shared and a
    /// group's rows come in one order whatever the number of threads.
    pub(crate) fn fold<S: Clone + Send + Sync>(
        &self,
        threads: usize,
        empty: S,
        step: impl Fn(&mut S, usize, usize) + Sync,
    ) -> Vec<S> {
        let mut states = vec![empty; self.count];
        self.share(threads, &mut states, |first, states| {
            for (row, &code) in self.codes.iter().enumerate() {
                // `NONE` is past the last state of every range: there are fewer groups than that.
                if let Some(state) = (code as usize).checked_sub(first).and_then(|at| states.get_mut(at)) {
                    step(state, code as usize, row);
                }
            }
        });
        states
    }

    /// Cut one state a group into a range of them a thread: `work` gets the first group of a range, and its states.
    pub(crate) fn share<S: Send>(
        &self,
        threads: usize,
        states: &mut [S],
        work: impl Fn(usize, &mut [S]) + Sync,
    ) {
        let threads = if self.rows() < ALONE { 1 } else { threads.max(1) };
        let share = self.count.div_ceil(threads).max(1);
        each(states.chunks_mut(share).enumerate(), |(part, states)| work(part * share, states));
    }
}

/// Sets of rows that are normalised together.
#[derive(Clone, Copy, Debug)]
pub enum Scopes<'a> {
    /// All rows.
    Whole,
    /// The rows of each group; a row without one is in no scope.
    Of(&'a Groups<'a>),
    /// The rows of each group; a row without one is a scope of its own.
    OfOrAlone(&'a Groups<'a>),
}

impl<'a> From<&'a Groups<'a>> for Scopes<'a> {
    fn from(groups: &'a Groups<'a>) -> Self {
        Self::Of(groups)
    }
}

/// The scope of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One that has a number.
    Shared(usize),
    /// The row itself.
    Alone,
}

impl Scopes<'_> {
    /// Return the scope of a row; none where it has none.
    #[must_use]
    pub fn of(&self, row: usize) -> Option<Scope> {
        match self {
            Self::Whole => Some(Scope::Shared(0)),
            Self::Of(groups) => groups.code(row).map(Scope::Shared),
            Self::OfOrAlone(groups) => Some(groups.code(row).map_or(Scope::Alone, Scope::Shared)),
        }
    }

    /// Return the number of rows, where the scopes know it.
    pub(crate) fn rows(&self) -> Option<usize> {
        self.groups().map(Groups::rows)
    }

    pub(crate) fn groups(&self) -> Option<&Groups<'_>> {
        match self {
            Self::Whole => None,
            Self::Of(groups) | Self::OfOrAlone(groups) => Some(groups),
        }
    }
}

/// Rows are numbered in 32 bits, which halves the memory of a draw; the largest number says "no group".
pub(crate) fn check_rows(rows: usize) -> Result<u32> {
    let most = Groups::NONE as usize;
    u32::try_from(rows).ok().filter(|&rows| rows != Groups::NONE).ok_or(Error::Length {
        what: "column (its rows are numbered in 32 bits)",
        got: rows,
        wanted: most - 1,
    })
}

/// Return the number of a row of a column that [`check_rows`] has passed.
#[allow(clippy::cast_possible_truncation, reason = "a column that was checked has fewer rows")]
pub(crate) const fn numbered(row: usize) -> u32 {
    row as u32
}

/// Codes by first appearance of ids up to `most`, by a table of them.
fn number_dense(ids: &[i64], most: usize) -> (Vec<u32>, usize) {
    let mut table = vec![Groups::NONE; most + 1];
    let mut count = 0;
    let mut code = |id: i64| {
        let Some(code) = usize::try_from(id).ok().and_then(|id| table.get_mut(id)) else {
            return Groups::NONE;
        };
        if *code == Groups::NONE {
            *code = count;
            count += 1;
        }
        *code
    };
    (ids.iter().map(|&id| code(id)).collect(), count as usize)
}

/// Codes by first appearance of any ids, by sorting them.
fn number_any(ids: &[i64]) -> (Vec<u32>, usize) {
    let mut sorted: Vec<(i64, u32)> = ids.iter().copied().zip(0..).collect();
    sorted.sort_unstable();
    let mut first = vec![Groups::NONE; ids.len()];
    for run in sorted.chunk_by(|a, b| a.0 == b.0).filter(|run| run[0].0 >= 0) {
        for &(_, row) in run {
            first[row as usize] = run[0].1;
        }
    }
    number_by_appearance(&first)
}

/// Dense codes from each row's first row of the same id; a row that is its own first opens a group.
fn number_by_appearance(first: &[u32]) -> (Vec<u32>, usize) {
    let mut codes: Vec<u32> = Vec::with_capacity(first.len());
    let mut count = 0;
    for &first in first {
        // Only rows before this one have a code yet.
        let known = if first == Groups::NONE { Some(first) } else { codes.get(first as usize).copied() };
        codes.push(known.unwrap_or(count));
        count += u32::from(known.is_none());
    }
    (codes, count as usize)
}
