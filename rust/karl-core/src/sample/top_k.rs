//! Rows by descending key, found and sorted only as far as requested.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::error::{Error, Result};
use crate::group::{check_rows, numbered};
use crate::numeric::parallel::{BLOCK, in_parts};

/// A row with its key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    /// The key, by which rows are ordered.
    pub key: f64,
    /// The row.
    pub row: u32,
}

/// Keys of rows, computed when they are asked for.
pub trait Keyed: Send + Sync {
    /// Return the number of rows.
    fn rows(&self) -> usize;

    /// Return the key of a row; minus infinity or NaN for one that has none.
    fn key(&self, row: usize) -> f64;

    /// Add each row of a block with a key of `least` or more. Rows with key minus infinity or NaN are never added.
    fn scan(&self, block: Range<usize>, least: f64, found: &mut Vec<Ranked>);
}

impl Keyed for Vec<f64> {
    fn rows(&self) -> usize {
        self.len()
    }

    fn key(&self, row: usize) -> f64 {
        self[row]
    }

    fn scan(&self, block: Range<usize>, least: f64, found: &mut Vec<Ranked>) {
        let keys = block.map(|row| Ranked { key: self[row], row: numbered(row) });
        found.extend(keys.filter(|ranked| ranked.key >= least && ranked.key > f64::NEG_INFINITY));
    }
}

/// The rows of a draw in the order of the draw, one piece at a time.
///
/// Rows stand by descending key; equal keys stand in row order. Only the first rows are held, 16 bytes each: when more
/// are asked for, another pass finds at least twice as many.
///
/// ```
/// use karl_core::sample::Ranking;
/// let mut ranking = Ranking::new(vec![0.5, f64::NEG_INFINITY, 2.0, 0.5])?;
/// assert_eq!(ranking.take(2), [2, 0]);
/// assert_eq!(ranking.threshold(), Some(0.5));
/// assert_eq!(ranking.take(9), [3]);
/// # Ok::<(), karl_core::Error>(())
/// ```
pub struct Ranking<'a> {
    keys: Box<dyn Keyed + 'a>,
    threads: usize,
    first: Vec<Ranked>,
    /// True if `first` holds all rows.
    whole: bool,
    taken: usize,
}

impl std::fmt::Debug for Ranking<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ranking")
            .field("first", &self.first)
            .field("taken", &self.taken)
            .finish_non_exhaustive()
    }
}

impl<'a> Ranking<'a> {
    /// Return a ranking of all rows by keys that are there.
    /// Cost: nothing yet.
    ///
    /// # Errors
    /// [`Error::Length`] for more rows than a `u32` can count.
    pub fn new(keys: Vec<f64>) -> Result<Self> {
        Self::of(keys, 1)
    }

    /// Return a ranking of all rows by keys that are computed on the way.
    /// Cost: nothing yet.
    ///
    /// # Errors
    /// [`Error::Length`] for more rows than a `u32` can count.
    pub fn of(keys: impl Keyed + 'a, threads: usize) -> Result<Self> {
        check_rows(keys.rows())?;
        Ok(Self { keys: Box::new(keys), threads, first: Vec::new(), whole: false, taken: 0 })
    }

    /// Return a ranking that is given: these rows, in this order, of a log of `count` rows. A row given twice comes
    /// once.
    ///
    /// # Errors
    /// [`Error::Row`] for a row that the log does not have; [`Error::Length`] as in [`Ranking::new`].
    pub fn given(rows: &[i64], count: usize) -> Result<Self> {
        check_rows(count)?;
        let mut first = Vec::with_capacity(rows.len());
        for (index, &row) in rows.iter().enumerate() {
            let found = u32::try_from(row).ok().filter(|&row| (row as usize) < count);
            let row = found.ok_or(Error::Row { index, row, count })?;
            first.push(Ranked { key: -(index as f64), row });
        }
        first.sort_by_key(|ranked| ranked.row);
        first.dedup_by_key(|ranked| ranked.row);
        first.sort_unstable_by(by_key);
        Ok(Self { keys: Box::new(Vec::new()), threads: 1, first, whole: true, taken: 0 })
    }

    /// Return the first `count` rows of the ranking with their keys, or all where there are fewer.
    ///
    /// Cost: nothing where they are held; else a pass over the rows that holds twice as many, and a sort of them.
    pub fn reach(&mut self, count: usize) -> &[Ranked] {
        if self.first.len() < count && !self.whole {
            let wanted = count.max(2 * self.first.len()).min(self.keys.rows());
            self.first = top(self.keys.as_ref(), wanted, self.threads);
            self.whole = self.first.len() < wanted || wanted == self.keys.rows();
        }
        &self.first[..count.min(self.first.len())]
    }

    /// Take the next `count` rows, or all that are left.
    pub fn take(&mut self, count: usize) -> Vec<u32> {
        let from = self.taken;
        let rows: Vec<u32> =
            self.reach(from.saturating_add(count)).iter().skip(from).map(|one| one.row).collect();
        self.taken += rows.len();
        rows
    }

    /// Return the key of the next row; none where no row is left.
    ///
    /// After `take(k)` it is the (k + 1)-th key, which [`inclusion`](super::gumbel::inclusion) needs.
    pub fn threshold(&mut self) -> Option<f64> {
        let next = self.taken;
        self.reach(next + 1).get(next).map(|one| one.key)
    }
}

/// Return the `count` first rows in their order.
///
/// A pass begins with a bar that a sample of rows has set. Where fewer rows reach it, another pass begins with none.
fn top(keys: &dyn Keyed, count: usize, threads: usize) -> Vec<Ranked> {
    let guess = guess_threshold(keys, count);
    let found = above(keys, count, threads, guess);
    if found.len() < count && guess > f64::NEG_INFINITY {
        return above(keys, count, threads, f64::NEG_INFINITY);
    }
    found
}

/// Return the first rows, up to `count`, of those with a key of `least` or more.
///
/// Each thread scans its blocks with a lower bound from its own best rows and those of other threads: a row below a
/// bound that `count` rows have reached cannot be among the first, so that the result does not depend on the bounds.
fn above(keys: &dyn Keyed, count: usize, threads: usize, least: f64) -> Vec<Ranked> {
    let (rows, bar) = (keys.rows(), Bar::at(least));
    let blocks = rows.div_ceil(BLOCK);
    let part = |blocks: Range<usize>| {
        let mut found = Vec::new();
        for block in blocks {
            keys.scan(block * BLOCK..rows.min((block + 1) * BLOCK), bar.least(), &mut found);
            if found.len() >= count.saturating_mul(2).max(BLOCK) {
                cut(&mut found, count);
                found.last().into_iter().for_each(|last| bar.raise(last.key));
            }
        }
        cut(&mut found, count);
        found
    };
    let mut found = in_parts(blocks, if blocks < 4 { 1 } else { threads }, part).concat();
    cut(&mut found, count);
    found.sort_unstable_by(by_key);
    found
}

/// One row in so many is looked at for the first bar: its key costs what passing over a hundred others does.
const STRIDE: usize = 256;

/// Return a key that `count` rows are all but sure to reach, and few more do: by its rank among the keys of a sample,
/// four standard deviations below the rank it should have. Minus infinity where so few are left out that no bar
/// helps.
fn guess_threshold(keys: &dyn Keyed, count: usize) -> f64 {
    let mut sample: Vec<f64> = (0..keys.rows()).step_by(STRIDE).map(|row| keys.key(row)).collect();
    let share = count as f64 / STRIDE as f64;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank, zero or more")]
    let rank = (share + 4.0 * share.sqrt()) as usize + 4;
    if 2 * rank >= sample.len() {
        return f64::NEG_INFINITY;
    }
    let (_, &mut guess, _) = sample.select_nth_unstable_by(rank, |a, b| b.total_cmp(a));
    if guess.is_nan() { f64::NEG_INFINITY } else { guess }
}

/// Leave the first `count`, the last of them at the end.
fn cut(found: &mut Vec<Ranked>, count: usize) {
    if count == 0 {
        found.clear();
    } else if found.len() > count {
        found.select_nth_unstable_by(count - 1, by_key);
        found.truncate(count);
    }
}

/// A key that enough rows have reached, shared by threads; it only rises.
struct Bar(AtomicU64);

/// Bits that rise with the float.
fn rising(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

impl Bar {
    fn at(key: f64) -> Self {
        Self(AtomicU64::new(rising(if key == 0.0 { -0.0 } else { key })))
    }

    fn raise(&self, key: f64) {
        // 0 and -0 are equal keys; the lower bits let both pass.
        self.0.fetch_max(rising(if key == 0.0 { -0.0 } else { key }), Relaxed);
    }

    fn least(&self) -> f64 {
        let bits = self.0.load(Relaxed);
        f64::from_bits(if bits >> 63 == 1 { bits & !(1 << 63) } else { !bits })
    }
}

/// Keep the `most` largest keys of each group, set the others to minus infinity, and return the number of these.
///
/// Ranking what is left equals a sequential draw that passes over the rows of every group that has had its
/// share: the rows of a group come in descending key, so those passed over are all but its largest. Ties stand
/// in row order. Rows without a group are not capped. Cost: one sort.
///
/// # Errors
/// [`Error::Length`] where keys and groups differ in rows; the keys are then unchanged.
pub fn cap_per_group(keys: &mut [f64], groups: &crate::group::Groups<'_>, most: usize) -> Result<usize> {
    crate::check::check_length("keys", keys.len(), groups.rows())?;
    let mut had = vec![0; groups.len()];
    let mut capped = 0;
    for row in Ranking::new(keys.to_vec())?.take(usize::MAX).into_iter().map(|row| row as usize) {
        let Some(group) = groups.code(row) else { continue };
        had[group] += 1;
        if had[group] > most {
            keys[row] = f64::NEG_INFINITY;
            capped += 1;
        }
    }
    Ok(capped)
}

/// Descending by key, then ascending by row: a total order, so that an unstable sort has one outcome.
///
/// NaN never gets here, and 0 and -0 are equal keys, which `total_cmp` would tell apart.
fn by_key(a: &Ranked, b: &Ranked) -> Ordering {
    b.key.partial_cmp(&a.key).unwrap_or(Ordering::Equal).then(a.row.cmp(&b.row))
}
