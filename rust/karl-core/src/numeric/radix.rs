//! Rows bucketed by range of groups, and results gathered back into row order.
//!
//! The statistics of a few thousand groups fit the second-level cache. With more groups every row would wait for memory, so
//! rows are scattered into buckets, one for each range of groups, each bucket is processed by itself, and results are gathered
//! back. Scattering keeps the row order within a bucket; neither threads nor ranges change a bit of what is folded in row order.
//!
//! Rejected: a full sort of the rows by group, which moves every row to a place of its own instead of into one of a few
//! hundred streams.
//!
//! Speed: tables of groups stay in the second-level cache. Record: `benches/record/kernels.json`, "groups of 8
//! shuffled, 10000000 rows".

use std::ops::Range;

use crate::numeric::Real;
use crate::numeric::parallel::{ALONE, each};

/// Rows of one range, where groups are of one size: with what is made of them they fill half of the second-level cache.
const ROWS: usize = 1 << 15;

/// Groups of one range at most, as a power of two.
const MOST_BITS: u32 = 12;

/// Largest number of groups with a table that stays in the second-level cache for access in any order.
const NEAR: usize = 1 << 12;

/// Return whether rows of this many groups are bucketed.
pub(crate) const fn needs_buckets(groups: usize) -> bool {
    groups > NEAR
}

/// The group of each row, or `u32::MAX` for none, and how many groups there are.
#[derive(Clone, Copy)]
pub(crate) struct Codes<'a> {
    pub(crate) codes: &'a [u32],
    pub(crate) groups: usize,
}

/// Scratch memory owned by the caller; reusing it avoids page faults.
#[derive(Debug, Default)]
pub struct Scratch<'a> {
    groups: &'a mut [u16],
    values: &'a mut [f64],
}

impl<'a> Scratch<'a> {
    /// Take two columns as scratch; their contents are lost, and columns shorter than the rows are not used.
    pub fn new(groups: &'a mut [u16], values: &'a mut [f64]) -> Self {
        Self { groups, values }
    }

    fn holds(&self, rows: usize) -> bool {
        self.groups.len() >= rows && self.values.len() >= rows
    }

    /// Take the room for some rows off its front.
    fn split(self, rows: usize) -> (Self, Self) {
        let (groups, more_groups) = self.groups.split_at_mut(rows);
        let (values, more_values) = self.values.split_at_mut(rows);
        (Self::new(groups, values), Self::new(more_groups, more_values))
    }
}

/// Run `work` with scratch for `rows` rows: the given scratch, or a fresh one where that is too small.
pub(crate) fn with_scratch<T>(room: Scratch<'_>, rows: usize, work: impl FnOnce(Scratch<'_>) -> T) -> T {
    if room.holds(rows) {
        return work(room);
    }
    let (mut groups, mut values) = (vec![0; rows], vec![0.0; rows]);
    work(Scratch::new(&mut groups, &mut values))
}

/// Run `work` on each range, on as many threads as `rows` rows are worth, each with a state of its own. Return whether every
/// call returned true; a false one stops no other.
pub(crate) fn all_ok<T: Send, S>(
    ranges: &mut [T],
    rows: usize,
    threads: usize,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, &mut T) -> bool + Sync,
) -> bool {
    let threads = if rows < ALONE { 1 } else { threads.max(1) };
    let share = ranges.len().div_ceil(threads).max(1);
    let wrong = each(ranges.chunks_mut(share), |ranges| {
        let mut state = state();
        ranges.iter_mut().map(|range| work(&mut state, range)).filter(|fine| !fine).count()
    });
    wrong.iter().all(|&wrong| wrong == 0)
}

/// A column bucketed by range of groups. Rows without a group are the last range.
pub(crate) struct Buckets<'g, 'r> {
    codes: &'g [u32],
    ranges: Ranges,
    parts: Vec<ThreadBuckets<'r>>,
}

/// The rows of one range that one thread has scattered, in row order: the group of each within the range, and its value.
pub(crate) struct Bucket<'a> {
    pub(crate) groups: &'a [u16],
    pub(crate) values: &'a mut [f64],
}

#[derive(Clone, Copy)]
struct Ranges {
    bits: u32,
    count: usize,
}

/// The rows that one thread has scattered.
struct ThreadBuckets<'r> {
    rows: Range<usize>,
    begins: Vec<usize>,
    room: Scratch<'r>,
}

impl<'g, 'r> Buckets<'g, 'r> {
    /// Scatter the rows into scratch that holds them.
    pub(crate) fn new<R: Real>(values: &[R], groups: Codes<'g>, room: Scratch<'r>, threads: usize) -> Self {
        let (codes, ranges) = (groups.codes, Ranges::of(groups));
        let threads = if values.len() < ALONE { 1 } else { threads.max(1) };
        let (mut parts, mut rest) = (Vec::with_capacity(threads), room);
        for part in 0..threads {
            let rows = values.len() * part / threads..values.len() * (part + 1) / threads;
            let (room, later) = rest.split(rows.len());
            parts.push(ThreadBuckets { rows, begins: Vec::new(), room });
            rest = later;
        }
        each(&mut parts, |part| part.scatter(&values[part.rows.clone()], &codes[part.rows.clone()], ranges));
        Self { codes, ranges, parts }
    }

    /// Groups of one range; the last may have fewer.
    pub(crate) fn width(&self) -> usize {
        1 << self.ranges.bits
    }

    /// Return the number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.codes.len()
    }

    /// Return the buckets of each range of groups, in row order; rows without a group are in none, and their values become NaN.
    pub(crate) fn buckets_by_group(&mut self) -> Vec<Vec<Bucket<'_>>> {
        let mut buckets = self.buckets();
        for bucket in buckets.pop().into_iter().flatten() {
            bucket.values.fill(f64::NAN);
        }
        buckets
    }

    /// Return the buckets of each range, in row order. The last range is that of no group.
    pub(crate) fn buckets(&mut self) -> Vec<Vec<Bucket<'_>>> {
        let mut buckets: Vec<Vec<Bucket<'_>>> = (0..self.ranges.count).map(|_| Vec::new()).collect();
        for part in &mut self.parts {
            let mut rest = &mut *part.room.values;
            for (range, buckets) in buckets.iter_mut().enumerate() {
                let place = part.begins[range]..part.begins[range + 1];
                let (values, after) = rest.split_at_mut(place.len());
                buckets.push(Bucket { groups: &part.room.groups[place], values });
                rest = after;
            }
        }
        buckets
    }

    /// Fill a column with the values in the order of the rows.
    pub(crate) fn gather(&self, column: &mut [f64]) {
        let mut rest = column;
        let mut pieces = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let (piece, after) = rest.split_at_mut(part.rows.len());
            pieces.push((part, piece));
            rest = after;
        }
        each(pieces, |(part, piece)| part.gather(self.codes, self.ranges, piece));
    }
}

impl Ranges {
    /// Ranges of about [`ROWS`] rows.
    fn of(Codes { codes, groups }: Codes<'_>) -> Self {
        let wanted = (ROWS * groups / codes.len().max(1)).max(1);
        let bits = wanted.ilog2().min(MOST_BITS);
        Self { bits, count: groups.div_ceil(1 << bits) + 1 }
    }

    #[inline]
    fn range(self, code: u32) -> usize {
        ((code >> self.bits) as usize).min(self.count - 1)
    }

    /// Return the group within its range.
    #[allow(clippy::cast_possible_truncation, reason = "a range has fewer groups than 2^16")]
    #[inline]
    fn within(self, code: u32) -> u16 {
        (code & ((1 << self.bits) - 1)) as u16
    }

    /// Return the first position of each range, and the end of the last.
    fn begins(self, codes: &[u32]) -> Vec<usize> {
        let mut begins = vec![0; self.count + 1];
        for &code in codes {
            begins[self.range(code) + 1] += 1;
        }
        for range in 0..self.count {
            begins[range + 1] += begins[range];
        }
        begins
    }
}

impl ThreadBuckets<'_> {
    fn scatter<R: Real>(&mut self, column: &[R], codes: &[u32], ranges: Ranges) {
        self.begins = ranges.begins(codes);
        let mut next = self.begins.clone();
        let Scratch { groups, values } = &mut self.room;
        for (&code, value) in codes.iter().zip(column) {
            let next = &mut next[ranges.range(code)];
            groups[*next] = ranges.within(code);
            values[*next] = value.widen();
            *next += 1;
        }
    }

    fn gather(&self, codes: &[u32], ranges: Ranges, column: &mut [f64]) {
        let mut next = self.begins.clone();
        for (&code, value) in codes[self.rows.clone()].iter().zip(column) {
            let next = &mut next[ranges.range(code)];
            *value = self.room.values[*next];
            *next += 1;
        }
    }
}
