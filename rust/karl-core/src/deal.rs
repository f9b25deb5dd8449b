//! Rows dealt into ranges of groups, and back.
//!
//! What is known of a few thousand groups stays in the second-level cache, and rows find it there. Of more groups the
//! table does not, and every row would wait for memory: rows are dealt into ranges of groups, each range is worked on by
//! itself, and results are dealt back. Dealing keeps the order of rows, so that neither threads nor ranges change a bit of
//! what is folded in row order.
//!
//! Not taken: sorting rows by group at once, which moves every row to a place of its own instead of into one of a few
//! hundred streams.

use std::ops::Range;

use crate::blocks::{ALONE, each, in_parts};
use crate::group::Groups;
use crate::real::Real;

/// Rows of one range, where groups are of one size: with what is made of them they fill half of the second-level cache.
const ROWS: usize = 1 << 15;

/// Groups of one range at most, as a power of two.
const MOST_BITS: u32 = 12;

/// A column by range of groups. Rows without a group are the last range.
pub(crate) struct Deals<'g> {
    codes: &'g [u32],
    ranges: Ranges,
    parts: Vec<Part>,
}

/// The rows of one range that one thread has dealt, in row order: the group of each within the range, and its value.
pub(crate) struct Hand<'a> {
    pub(crate) groups: &'a [u16],
    pub(crate) values: &'a mut [f64],
}

#[derive(Clone, Copy)]
struct Ranges {
    bits: u32,
    count: usize,
}

/// What one thread has dealt.
struct Part {
    rows: Range<usize>,
    begins: Vec<usize>,
    groups: Vec<u16>,
    values: Vec<f64>,
}

impl<'g> Deals<'g> {
    pub(crate) fn new<R: Real>(values: &[R], groups: &'g Groups<'_>, threads: usize) -> Self {
        let (codes, ranges) = (groups.codes(), Ranges::of(groups));
        let parts = in_parts(values.len(), if values.len() < ALONE { 1 } else { threads }, |rows| {
            Part::new(&values[rows.clone()], &codes[rows.clone()], rows, ranges)
        });
        Self { codes, ranges, parts }
    }

    /// Groups of one range; the last may have fewer.
    pub(crate) fn width(&self) -> usize {
        1 << self.ranges.bits
    }

    /// The hands of each range, in row order. The last range is that of no group.
    pub(crate) fn hands(&mut self) -> Vec<Vec<Hand<'_>>> {
        let mut hands: Vec<Vec<Hand<'_>>> = (0..self.ranges.count).map(|_| Vec::new()).collect();
        for part in &mut self.parts {
            let mut rest = part.values.as_mut_slice();
            for (range, hands) in hands.iter_mut().enumerate() {
                let place = part.begins[range]..part.begins[range + 1];
                let (values, after) = rest.split_at_mut(place.len());
                hands.push(Hand { groups: &part.groups[place], values });
                rest = after;
            }
        }
        hands
    }

    /// The values in the order of the rows.
    pub(crate) fn back(&self) -> Vec<f64> {
        let mut column = vec![0.0; self.codes.len()];
        let mut rest = column.as_mut_slice();
        let mut pieces = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let (piece, after) = rest.split_at_mut(part.rows.len());
            pieces.push((part, piece));
            rest = after;
        }
        each(pieces, |(part, piece)| part.back(self.codes, self.ranges, piece));
        column
    }
}

impl Ranges {
    /// Ranges of about [`ROWS`] rows.
    fn of(groups: &Groups<'_>) -> Self {
        let wanted = (ROWS * groups.len() / groups.rows().max(1)).max(1);
        let bits = wanted.ilog2().min(MOST_BITS);
        Self { bits, count: groups.len().div_ceil(1 << bits) + 1 }
    }

    #[inline]
    fn range(self, code: u32) -> usize {
        ((code >> self.bits) as usize).min(self.count - 1)
    }

    /// The group within its range.
    #[allow(clippy::cast_possible_truncation, reason = "a range has fewer groups than 2^16")]
    #[inline]
    fn within(self, code: u32) -> u16 {
        (code & ((1 << self.bits) - 1)) as u16
    }

    /// Where each range begins, and where the last ends.
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

impl Part {
    fn new<R: Real>(column: &[R], codes: &[u32], rows: Range<usize>, ranges: Ranges) -> Self {
        let begins = ranges.begins(codes);
        let mut next = begins.clone();
        let (mut groups, mut values) = (vec![0; codes.len()], vec![0.0; codes.len()]);
        for (&code, value) in codes.iter().zip(column) {
            let next = &mut next[ranges.range(code)];
            groups[*next] = ranges.within(code);
            values[*next] = value.widen();
            *next += 1;
        }
        Self { rows, begins, groups, values }
    }

    fn back(&self, codes: &[u32], ranges: Ranges, column: &mut [f64]) {
        let mut next = self.begins.clone();
        for (&code, value) in codes[self.rows.clone()].iter().zip(column) {
            let next = &mut next[ranges.range(code)];
            *value = self.values[*next];
            *next += 1;
        }
    }
}
