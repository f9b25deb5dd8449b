//! Objectives of whole rollouts: a few numbers of each row, then one coefficient for all its tokens.

use std::ops::Range;

use super::chunks;
use super::lane::Lane;
use super::pieces::{Room, drift};
use super::rollouts::{Part, Rollouts};
use super::statistics::{Statistics, Sums};
use crate::numeric::simd::{Kernel, wide};

/// Return what `of` finds of each rollout, by its number and its tokens.
pub(super) fn row_facts<T: Lane, F: Default + Clone + Send>(
    rollouts: &Rollouts<'_, T>,
    threads: usize,
    of: impl Fn(usize, Part<'_, T>) -> F + Sync,
) -> Vec<F> {
    let mut found = vec![F::default(); rollouts.offsets.len()];
    chunks::map(&rollouts.offsets, &mut found, threads, ExactSizeIterator::len, |rows, out| {
        wide(Facts { rollouts, rows, out, of: &of });
    });
    found
}

struct Facts<'a, 'b, T, F, O> {
    rollouts: &'b Rollouts<'a, T>,
    rows: Range<usize>,
    out: &'b mut [F],
    of: &'b O,
}

impl<T: Lane, F, O: Fn(usize, Part<'_, T>) -> F> Kernel for Facts<'_, '_, T, F, O> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (out, row) in self.out.iter_mut().zip(self.rows) {
            *out = (self.of)(row, self.rollouts.part(self.rollouts.offsets.row(row)));
        }
    }
}

/// Fill a column a rollout at a time.
pub(super) fn fill_rows<T: Lane>(
    rollouts: &Rollouts<'_, T>,
    column: &mut [T],
    threads: usize,
    fill: impl Fn(usize, Part<'_, T>, &mut [T]) + Sync,
) {
    let size = |rows: &Range<usize>| rollouts.tokens(rows);
    chunks::map(&rollouts.offsets, column, threads, size, |rows, mut out| {
        for row in rows {
            let tokens = rollouts.offsets.row(row);
            let (own, rest) = out.split_at_mut(tokens.len());
            fill(row, rollouts.part(tokens), own);
            out = rest;
        }
    });
}

/// Compute how far the tokens have moved from the behaviour policy, each by its own ratio.
pub(super) fn drift_of<T: Lane>(rollouts: &Rollouts<'_, T>, threads: usize) -> Statistics {
    let one = |rows: Range<usize>, _: &mut [()]| wide(Drifts { rollouts, rows });
    let blocks = chunks::map(&rollouts.offsets, &mut [], threads, |_| 0, one);
    blocks.iter().fold(Sums::NONE, Sums::merge).statistics(rollouts.old.is_some(), false)
}

struct Drifts<'a, 'b, T> {
    rollouts: &'b Rollouts<'a, T>,
    rows: Range<usize>,
}

impl<T: Lane> Kernel for Drifts<'_, '_, T> {
    type Output = Sums;

    #[inline(always)]
    fn run(self) -> Sums {
        let (mut sums, mut room) = (Sums::NONE, Room::new());
        for row in self.rows {
            let part = self.rollouts.part(self.rollouts.offsets.row(row));
            let kept = part.kept();
            if kept > 0 {
                sums.tokens += kept as u64;
                sums.rollouts += 1;
                sums.moved(part.sum_log_ratio());
                drift(&part, true, &mut sums, &mut room);
            }
        }
        sums
    }
}

/// Rollouts by group: those that count, each without a group by itself.
pub(super) struct Groups {
    rows: Vec<usize>,
    starts: Vec<usize>,
}

impl Groups {
    /// Gather the rollouts of each group, in the order of the rows; a negative number is that of no group.
    pub(super) fn of(groups: &[i64], counted: impl Fn(usize) -> bool) -> Self {
        let mut rows: Vec<usize> = (0..groups.len()).filter(|&row| counted(row)).collect();
        rows.sort_by_key(|&row| groups[row]);
        let alone = |at: usize| at == 0 || groups[rows[at]] < 0 || groups[rows[at]] != groups[rows[at - 1]];
        let starts = (0..rows.len()).filter(|&at| alone(at)).chain([rows.len()]).collect();
        Self { rows, starts }
    }

    /// Return the rows of each group.
    pub(super) fn members(&self) -> impl Iterator<Item = &[usize]> {
        self.starts.windows(2).map(|ends| &self.rows[ends[0]..ends[1]])
    }
}
