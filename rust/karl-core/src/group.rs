//! Which rows belong together: the rollouts of one prompt, or the rows of one partition.
//!
//! Rows come as codes, one a row; the members of each group are laid out once, side by side, in row order
//! (values and offsets, as in Arrow's lists), so that every later pass is linear and touches no hash map.

use crate::error::{Error, Result};

/// The rows of each group, and the group of each row.
///
/// ```
/// use karl_core::group::Groups;
/// let groups = Groups::from_ids(&[70, 3, 70, -1])?;
/// assert_eq!((groups.len(), groups.members(0), groups.members(1)), (2, &[0, 2][..], &[1][..]));
/// assert_eq!(groups.code(3), None);
/// # Ok::<(), karl_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    codes: Vec<u32>,
    offsets: Vec<u32>,
    members: Vec<u32>,
}

impl Groups {
    /// The code of a row that has no group.
    pub const NONE: u32 = u32::MAX;

    /// Groups from dense codes: `codes[row]` is in `0..count`, or [`Groups::NONE`].
    ///
    /// A group may be empty. Cost: two passes over the rows (a counting sort), 4 bytes a row and a group.
    ///
    /// # Errors
    /// [`Error::Code`] for a code that is out of range; [`Error::Length`] for more rows than a `u32` can count.
    pub fn from_codes(codes: Vec<u32>, count: usize) -> Result<Self> {
        check_rows(codes.len())?;
        let wrong = codes.iter().position(|&code| code != Self::NONE && code as usize >= count);
        if let Some(index) = wrong {
            return Err(Error::Code { index, code: codes[index], count });
        }
        let offsets = offsets(&codes, count);
        let members = members(&codes, &offsets);
        Ok(Self { codes, offsets, members })
    }

    /// Groups from ids: rows with one id are one group, and groups stand in order of first appearance. A negative
    /// id says that the row has no group.
    ///
    /// Cost: one sort. A hash map would be linear, but its keys are either random, or open to ids made to
    /// collide.
    ///
    /// # Errors
    /// [`Error::Length`] for more rows than a `u32` can count.
    pub fn from_ids(ids: &[i64]) -> Result<Self> {
        let rows = check_rows(ids.len())?;
        let mut sorted: Vec<(i64, u32)> = ids.iter().copied().zip(0..rows).collect();
        sorted.sort_unstable();
        let mut first = vec![Self::NONE; ids.len()];
        for run in sorted.chunk_by(|a, b| a.0 == b.0).filter(|run| run[0].0 >= 0) {
            for &(_, row) in run {
                first[row as usize] = run[0].1;
            }
        }
        let (codes, count) = number_by_appearance(&first);
        Self::from_codes(codes, count)
    }

    /// The same groups, and one of its own for each row that has none.
    ///
    /// # Errors
    /// [`Error::Length`] for more groups than a `u32` can count.
    pub fn with_singles(&self) -> Result<Self> {
        let count = check_rows(self.len() + self.rows() - self.grouped())?;
        let mut singles = check_rows(self.len())?..count;
        let own = |&code: &u32| if code == Self::NONE { singles.next().unwrap_or(code) } else { code };
        let codes = self.codes.iter().map(own).collect();
        Self::from_codes(codes, count as usize)
    }

    /// All rows in one group; no group where there are no rows.
    ///
    /// # Errors
    /// [`Error::Length`] for more rows than a `u32` can count.
    pub fn whole(rows: usize) -> Result<Self> {
        Self::from_codes(vec![0; rows], usize::from(rows > 0))
    }

    /// The number of groups, empty ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there is no group at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of rows, those without a group included.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.codes.len()
    }

    /// The number of rows that have a group.
    #[must_use]
    pub fn grouped(&self) -> usize {
        self.members.len()
    }

    /// The group of `row`; none where the row has no group or does not exist.
    #[must_use]
    pub fn code(&self, row: usize) -> Option<usize> {
        let code = *self.codes.get(row)?;
        (code != Self::NONE).then_some(code as usize)
    }

    /// The rows of `group` in row order; none where there is no such group.
    #[must_use]
    pub fn members(&self, group: usize) -> &[u32] {
        match self.offsets.get(group..) {
            Some([start, end, ..]) => &self.members[*start as usize..*end as usize],
            _ => &[],
        }
    }

    /// The rows of each group, group by group.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.offsets.windows(2).map(|ends| &self.members[ends[0] as usize..ends[1] as usize])
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

/// `offsets[g]` is where the rows of group g start; one more at the end.
fn offsets(codes: &[u32], count: usize) -> Vec<u32> {
    let mut offsets = vec![0; count + 1];
    codes.iter().filter(|&&code| code != Groups::NONE).for_each(|&code| offsets[code as usize + 1] += 1);
    for group in 0..count {
        offsets[group + 1] += offsets[group];
    }
    offsets
}

/// Rows in the order of their groups, and within a group in row order.
fn members(codes: &[u32], offsets: &[u32]) -> Vec<u32> {
    let mut next = offsets.to_vec();
    let mut members = vec![0; offsets[offsets.len() - 1] as usize];
    for (row, &code) in (0..).zip(codes).filter(|&(_, &code)| code != Groups::NONE) {
        let place = &mut next[code as usize];
        members[*place as usize] = row;
        *place += 1;
    }
    members
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
