//! Ragged columns: values end to end, and where each row of them begins (Arrow's list layout).

use std::ops::Range;

use crate::error::{Error, Result};

/// Offsets of rows in a column of values, with the end of the last: `offsets[i]..offsets[i + 1]` is row i.
///
/// ```
/// use karl_core::group::offsets::Offsets;
/// let offsets = Offsets::new("offsets", &[0, 2, 2, 5], 5)?;
/// assert_eq!((offsets.len(), offsets.row(0), offsets.row(1)), (3, 0..2, 2..2));
/// assert!(Offsets::new("offsets", &[0, 3, 2, 5], 5).is_err());
/// # Ok::<(), karl_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offsets<'a>(&'a [i64]);

impl<'a> Offsets<'a> {
    /// Take offsets over `values` values: they begin at 0, never fall, and end at the number of values.
    ///
    /// Shapes: `[B + 1]`. Cost: one pass.
    ///
    /// # Errors
    /// [`Error::Length`] for no offset at all; [`Error::Offset`] for one that is out of place.
    pub fn new(what: &'static str, offsets: &'a [i64], values: usize) -> Result<Self> {
        let Some((&last, before)) = offsets.split_last() else {
            return Err(Error::Length { what, got: 0, wanted: 1 });
        };
        let end = i64::try_from(values).unwrap_or(i64::MAX);
        let wrong = |index: usize, got, low, high| Err(Error::Offset { what, index, got, low, high });
        if offsets[0] != 0 {
            return wrong(0, offsets[0], 0, 0);
        }
        if let Some(at) = offsets.windows(2).position(|pair| pair[1] < pair[0]) {
            return wrong(at + 1, offsets[at + 1], offsets[at], end);
        }
        if last == end { Ok(Self(offsets)) } else { wrong(before.len(), last, end, end) }
    }

    /// Offsets that were counted up from 0, of which nothing has to be checked.
    pub(crate) const fn from_counts(offsets: &'a [i64]) -> Self {
        Self(offsets)
    }

    /// Return the number of rows.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len() - 1
    }

    /// Return whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Return the number of values.
    #[must_use]
    pub fn values(&self) -> usize {
        self.begin(self.len())
    }

    /// Return the places of the values of a row.
    #[inline]
    #[must_use]
    pub fn row(&self, row: usize) -> Range<usize> {
        self.begin(row)..self.begin(row + 1)
    }

    /// Return the rows that have a value in a stretch, and empty ones between them. Cost: two binary searches.
    pub(crate) fn rows_of(&self, values: &Range<usize>) -> Range<usize> {
        let begin = |limit: usize| self.0.partition_point(|&offset| place(offset) < limit);
        let first = self.row_of(values.start);
        first..begin(values.end).clamp(first, self.len())
    }

    /// Return the row of a value. Cost: a binary search.
    pub(crate) fn row_of(&self, value: usize) -> usize {
        self.0.partition_point(|&offset| place(offset) <= value).saturating_sub(1)
    }

    /// Return the places of the values of each row.
    #[must_use]
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Range<usize>> + '_ {
        (0..self.len()).map(|row| self.row(row))
    }

    /// Return whether each of these rows has `size` values.
    #[inline]
    pub(crate) fn are_alike(&self, rows: Range<usize>, size: usize) -> bool {
        // Without a way out, so that many are looked at together.
        let ends = self.0[rows.start..=rows.end].windows(2);
        ends.fold(true, |alike, pair| alike & (place(pair[1]) - place(pair[0]) == size))
    }

    /// Return the first position of a row; the end of the last, for one more.
    #[inline]
    pub(crate) fn begin(&self, row: usize) -> usize {
        place(self.0[row])
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to lie within a column")]
fn place(offset: i64) -> usize {
    offset as usize
}
