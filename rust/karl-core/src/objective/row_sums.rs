//! Objectives of whole rollouts: a few numbers of each row, then one coefficient for all its tokens.

use std::ops::Range;

use super::arithmetic::RealArithmetic;
use super::batch_statistics::{Statistics, Sums};
use super::ratio::{Room, drift};
use super::rollouts::{RolloutPart, Rollouts, map_blocks};
use crate::numeric::simd::{Kernel, wide};

/// A formula of a few numbers of each rollout. Mark `of` `#[inline(always)]`: it is compiled at the width of its caller.
pub(super) trait RowSummary<T>: Sync {
    /// The numbers of a rollout.
    type Row: Default + Clone + Send;

    /// Compute those of a rollout, by its number and its tokens.
    fn of(&self, row: usize, part: &RolloutPart<'_, T>) -> Self::Row;
}

/// Return the numbers of each rollout, and how far the tokens have moved from the behaviour policy, each by its own ratio.
pub(super) fn collect_row_facts<T: RealArithmetic, F: RowSummary<T>>(
    rollouts: &Rollouts<'_, T>,
    threads: usize,
    formula: &F,
) -> (Vec<F::Row>, Statistics) {
    let mut facts = vec![F::Row::default(); rollouts.offsets.len()];
    let blocks = map_blocks(&rollouts.offsets, &mut facts, threads, ExactSizeIterator::len, |rows, out| {
        wide(Facts { rollouts, rows, out, formula })
    });
    let sums = blocks.iter().fold(Sums::NONE, Sums::merge);
    (facts, sums.statistics(rollouts.old.is_some(), false))
}

struct Facts<'a, 'b, T, F: RowSummary<T>> {
    rollouts: &'b Rollouts<'a, T>,
    rows: Range<usize>,
    out: &'b mut [F::Row],
    formula: &'b F,
}

impl<T: RealArithmetic, F: RowSummary<T>> Kernel for Facts<'_, '_, T, F> {
    type Output = Sums;

    #[inline(always)]
    fn run(self) -> Sums {
        let (mut sums, mut room) = (Sums::NONE, Room::new());
        for (out, row) in self.out.iter_mut().zip(self.rows) {
            let part = self.rollouts.part(self.rollouts.live(row));
            *out = self.formula.of(row, &part);
            let kept = part.kept();
            if kept > 0 {
                add_drift(&part, kept, &mut sums, &mut room);
            }
        }
        sums
    }
}

/// Take in a rollout with tokens that count, and how far these have moved, each by its own ratio.
#[inline(always)]
pub(super) fn add_drift<T: RealArithmetic>(
    part: &RolloutPart<'_, T>,
    kept: usize,
    sums: &mut Sums,
    room: &mut Room<T>,
) {
    sums.tokens += kept as u64;
    sums.rollouts += 1;
    sums.moved(part.sum_log_ratio());
    drift(part, true, sums, room);
}

/// Fill a column a rollout at a time; `fill` gets its number and its live tokens.
pub(super) fn fill_rows<T: RealArithmetic>(
    rollouts: &Rollouts<'_, T>,
    column: &mut [T],
    threads: usize,
    fill: impl Fn(usize, &RolloutPart<'_, T>, &mut [T]) + Sync,
) {
    let size = |rows: &Range<usize>| rollouts.tokens(rows);
    map_blocks(&rollouts.offsets, column, threads, size, |rows, mut out| {
        for row in rows {
            let (own, rest) = rollouts.split(row, out);
            fill(row, &rollouts.part(rollouts.live(row)), own);
            out = rest;
        }
    });
}

/// Rollouts by group: those that count, each without a group by itself.
pub(super) struct RolloutGroups {
    rows: Vec<usize>,
    starts: Vec<usize>,
}

impl RolloutGroups {
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
