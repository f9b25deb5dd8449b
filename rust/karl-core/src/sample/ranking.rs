//! Rows by descending key, sorted only as far as somebody asks.

use std::cmp::Ordering;

use crate::error::{Error, Result, check_length};
use crate::group::{Groups, check_rows};

/// The rows of a draw in the order of the draw, one piece at a time.
///
/// Rows stand by descending key; equal keys stand in row order. Rows with key minus infinity (or NaN) never
/// come.
///
/// ```
/// use karl_core::sample::Ranking;
/// let mut ranking = Ranking::new(vec![0.5, f64::NEG_INFINITY, 2.0, 0.5])?;
/// assert_eq!(ranking.take(2), [2, 0]);
/// assert_eq!(ranking.threshold(), Some(0.5));
/// assert_eq!(ranking.take(9), [3]);
/// # Ok::<(), karl_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking {
    keys: Vec<f64>,
    /// Rows that have not been taken, in no order.
    rest: Vec<u32>,
}

impl Ranking {
    /// A ranking of all rows that have a key. Cost: linear; nothing is sorted yet.
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length) for more rows than a `u32` can count.
    pub fn new(keys: Vec<f64>) -> Result<Self> {
        let rows = check_rows(keys.len())?;
        let rest = (0..rows).filter(|&row| keys[row as usize] > f64::NEG_INFINITY).collect();
        Ok(Self { keys, rest })
    }

    /// A ranking that is given: these rows, in this order, of a log of `count` rows. A row given twice comes once.
    ///
    /// # Errors
    /// [`Error::Row`] for a row that the log does not have; [`Error::Length`](crate::Error::Length) as in
    /// [`Ranking::new`].
    pub fn given(rows: &[i64], count: usize) -> Result<Self> {
        let mut keys = vec![f64::NEG_INFINITY; count];
        for (index, &row) in rows.iter().enumerate().rev() {
            let key = usize::try_from(row).ok().and_then(|row| keys.get_mut(row));
            *key.ok_or(Error::Row { index, row, count })? = -(index as f64);
        }
        Self::new(keys)
    }

    /// The number of rows not taken yet.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Takes the next `count` rows, or all that are left. Cost: linear in the rest, plus a sort of the piece.
    pub fn take(&mut self, count: usize) -> Vec<u32> {
        let Self { keys, rest } = self;
        // The rows taken sit at the end of `rest`, so that taking them moves nothing else.
        let keep = rest.len().saturating_sub(count);
        if keep > 0 && keep < rest.len() {
            rest.select_nth_unstable_by(keep, |&a, &b| by_key(keys, b, a));
        }
        let mut piece = rest.split_off(keep);
        piece.sort_unstable_by(|&a, &b| by_key(keys, a, b));
        piece
    }

    /// The rows not taken yet, in no order.
    pub fn rows(&self) -> impl Iterator<Item = u32> {
        self.rest.iter().copied()
    }

    /// Whether `row` comes before `other`.
    #[must_use]
    pub fn precedes(&self, row: u32, other: u32) -> bool {
        by_key(&self.keys, row, other).is_lt()
    }

    /// The key of each row. `[B]`
    #[must_use]
    pub fn keys(&self) -> &[f64] {
        &self.keys
    }

    /// The key of the next row; none where no row is left. Cost: linear in the rest.
    ///
    /// After `take(k)` it is the (k + 1)-th key, which [`inclusion`](super::gumbel::inclusion) needs.
    #[must_use]
    pub fn threshold(&self) -> Option<f64> {
        self.rest.iter().map(|&row| self.keys[row as usize]).max_by(f64::total_cmp)
    }
}

/// Keeps the `most` largest keys of each group and sets the others to minus infinity; returns how many.
///
/// Ranking what is left equals a sequential draw that passes over the rows of every group that has had its
/// share: the rows of a group come in descending key, so those passed over are all but its largest. Ties stand
/// in row order. Rows without a group are not capped. Cost: linear.
///
/// # Errors
/// [`Error::Length`](crate::Error::Length) where keys and groups differ in rows; the keys are then unchanged.
pub fn cap_per_group(keys: &mut [f64], groups: &Groups, most: usize) -> Result<usize> {
    check_length("keys", keys.len(), groups.rows())?;
    let mut capped = 0;
    let mut rows = Vec::new();
    for members in groups.iter() {
        rows.clear();
        rows.extend(members.iter().copied().filter(|&row| keys[row as usize] > f64::NEG_INFINITY));
        if rows.len() > most {
            rows.select_nth_unstable_by(most, |&a, &b| by_key(keys, a, b));
            rows[most..].iter().for_each(|&row| keys[row as usize] = f64::NEG_INFINITY);
            capped += rows.len() - most;
        }
    }
    Ok(capped)
}

/// Descending by key, then ascending by row: a total order, so that an unstable sort has one outcome.
///
/// NaN never gets here, and 0 and -0 are equal keys, which `total_cmp` would tell apart.
fn by_key(keys: &[f64], a: u32, b: u32) -> Ordering {
    keys[b as usize].partial_cmp(&keys[a as usize]).unwrap_or(Ordering::Equal).then(a.cmp(&b))
}
