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

use crate::group::Groups;
use crate::numeric::float::Real;
use crate::numeric::parallel::{ALONE, each};

/// Rows of one range, where groups are of one size: with what is made of them they fill half of the second-level cache.
const ROWS: usize = 1 << 15;

/// Groups of one range at most, as a power of two.
const MOST_BITS: u32 = 12;

/// Memory that rows are dealt into, of the caller's own: who has pages that are large, or were touched before, spares
/// the system most of the work.
#[derive(Debug, Default)]
pub struct Room<'a> {
    groups: &'a mut [u16],
    values: &'a mut [f64],
}

impl<'a> Room<'a> {
    /// Takes two columns, whose contents are lost; as long as the rows are many, or they are not used.
    pub fn new(groups: &'a mut [u16], values: &'a mut [f64]) -> Self {
        Self { groups, values }
    }

    fn holds(&self, rows: usize) -> bool {
        self.groups.len() >= rows && self.values.len() >= rows
    }

    /// Takes the room for some rows off its front.
    fn split(self, rows: usize) -> (Self, Self) {
        let (groups, more_groups) = self.groups.split_at_mut(rows);
        let (values, more_values) = self.values.split_at_mut(rows);
        (Self::new(groups, values), Self::new(more_groups, more_values))
    }
}

/// A room for as many rows, made in place of one that is too small for them.
pub(crate) fn with_room<T>(room: Room<'_>, rows: usize, work: impl FnOnce(Room<'_>) -> T) -> T {
    if room.holds(rows) {
        return work(room);
    }
    let (mut groups, mut values) = (vec![0; rows], vec![0.0; rows]);
    work(Room::new(&mut groups, &mut values))
}

/// Works on each range, on as many threads as so many rows are worth, each with a state of its own; whether all of it went
/// well. All are worked on, whatever became of those before.
pub(crate) fn all_fine<T: Send, S>(
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

/// A column by range of groups. Rows without a group are the last range.
pub(crate) struct Deals<'g, 'r> {
    codes: &'g [u32],
    ranges: Ranges,
    parts: Vec<Part<'r>>,
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
struct Part<'r> {
    rows: Range<usize>,
    begins: Vec<usize>,
    room: Room<'r>,
}

impl<'g, 'r> Deals<'g, 'r> {
    /// Deals the rows into a room that holds them.
    pub(crate) fn new<R: Real>(values: &[R], groups: &'g Groups<'_>, room: Room<'r>, threads: usize) -> Self {
        let (codes, ranges) = (groups.codes(), Ranges::of(groups));
        let threads = if values.len() < ALONE { 1 } else { threads.max(1) };
        let (mut parts, mut rest) = (Vec::with_capacity(threads), room);
        for part in 0..threads {
            let rows = values.len() * part / threads..values.len() * (part + 1) / threads;
            let (room, later) = rest.split(rows.len());
            parts.push(Part { rows, begins: Vec::new(), room });
            rest = later;
        }
        each(&mut parts, |part| part.deal(&values[part.rows.clone()], &codes[part.rows.clone()], ranges));
        Self { codes, ranges, parts }
    }

    /// Groups of one range; the last may have fewer.
    pub(crate) fn width(&self) -> usize {
        1 << self.ranges.bits
    }

    /// How many rows were dealt.
    pub(crate) fn rows(&self) -> usize {
        self.codes.len()
    }

    /// The hands of each range of groups, in row order; rows without a group are in none, and their values become NaN.
    pub(crate) fn grouped(&mut self) -> Vec<Vec<Hand<'_>>> {
        let mut hands = self.hands();
        for hand in hands.pop().into_iter().flatten() {
            hand.values.fill(f64::NAN);
        }
        hands
    }

    /// The hands of each range, in row order. The last range is that of no group.
    pub(crate) fn hands(&mut self) -> Vec<Vec<Hand<'_>>> {
        let mut hands: Vec<Vec<Hand<'_>>> = (0..self.ranges.count).map(|_| Vec::new()).collect();
        for part in &mut self.parts {
            let mut rest = &mut *part.room.values;
            for (range, hands) in hands.iter_mut().enumerate() {
                let place = part.begins[range]..part.begins[range + 1];
                let (values, after) = rest.split_at_mut(place.len());
                hands.push(Hand { groups: &part.room.groups[place], values });
                rest = after;
            }
        }
        hands
    }

    /// Fills a column with the values in the order of the rows.
    pub(crate) fn back(&self, column: &mut [f64]) {
        let mut rest = column;
        let mut pieces = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let (piece, after) = rest.split_at_mut(part.rows.len());
            pieces.push((part, piece));
            rest = after;
        }
        each(pieces, |(part, piece)| part.back(self.codes, self.ranges, piece));
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

impl Part<'_> {
    fn deal<R: Real>(&mut self, column: &[R], codes: &[u32], ranges: Ranges) {
        self.begins = ranges.begins(codes);
        let mut next = self.begins.clone();
        let Room { groups, values } = &mut self.room;
        for (&code, value) in codes.iter().zip(column) {
            let next = &mut next[ranges.range(code)];
            groups[*next] = ranges.within(code);
            values[*next] = value.widen();
            *next += 1;
        }
    }

    fn back(&self, codes: &[u32], ranges: Ranges, column: &mut [f64]) {
        let mut next = self.begins.clone();
        for (&code, value) in codes[self.rows.clone()].iter().zip(column) {
            let next = &mut next[ranges.range(code)];
            *value = self.room.values[*next];
            *next += 1;
        }
    }
}
