//! Groups end to end: no codes and no table, each group is read where it lies.
//!
//! Neighbouring groups of one size are folded side by side, a lane a group. Every group's sums fold its own rows in
//! row order whether it has a lane or not, so both give the same bits.
//!
//! Speed: no codes are read. Record: `benches/record/kernels.json`, "groups of 8 end to end, 10000000 rows".

use std::ops::Range;

use super::equal_size_groups::{LaneBuffer, SIZES, WIDTH};
use super::stats::{AffineMap, Formula, GroupStats};
use crate::group::offsets::Offsets;
use crate::numeric::float::Real;
use crate::numeric::parallel::{ALONE, each};
use crate::numeric::simd::{Kernel, wide};
use crate::numeric::sum::Compensated;
use std::sync::atomic::{AtomicBool, Ordering};

/// Cut rows and the column they fill into one piece a thread, at borders of rows.
pub(in crate::advantage) fn cut<'a>(
    offsets: Offsets<'_>,
    column: &'a mut [f64],
    threads: usize,
) -> Vec<(Range<usize>, &'a mut [f64])> {
    let parts = if column.len() < ALONE { 1 } else { threads.clamp(1, offsets.len().max(1)) };
    let mut rest = column;
    let mut pieces = Vec::with_capacity(parts);
    for part in 0..parts {
        let rows = offsets.len() * part / parts..offsets.len() * (part + 1) / parts;
        let values = offsets.begin(rows.end) - offsets.begin(rows.start);
        let (piece, after) = rest.split_at_mut(values);
        pieces.push((rows, piece));
        rest = after;
    }
    pieces
}

/// Fill in the advantages, and return whether all of them are finite.
pub(in crate::advantage) fn fill<R: Real, F: Formula>(
    rewards: &[R],
    offsets: Offsets<'_>,
    formula: &F,
    advantages: &mut [f64],
    threads: usize,
) -> bool {
    let fine = AtomicBool::new(true);
    each(cut(offsets, advantages, threads), |(groups, advantages)| {
        let rewards = &rewards[offsets.begin(groups.start)..offsets.begin(groups.end)];
        if !wide(GroupRun { rewards, offsets, groups, advantages, formula }) {
            fine.store(false, Ordering::Relaxed);
        }
    });
    fine.into_inner()
}

/// Groups that lie end to end; `rewards` and `advantages` are those of these groups.
pub(in crate::advantage) struct GroupRun<'a, R, F> {
    pub(in crate::advantage) rewards: &'a [R],
    pub(in crate::advantage) offsets: Offsets<'a>,
    pub(in crate::advantage) groups: Range<usize>,
    pub(in crate::advantage) advantages: &'a mut [f64],
    pub(in crate::advantage) formula: &'a F,
}

impl<R: Real, F: Formula> Kernel for GroupRun<'_, R, F> {
    /// True if all advantages are finite.
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let Self { mut rewards, offsets, groups, mut advantages, formula } = self;
        let (mut room, mut fine, mut group) = (LaneBuffer::EMPTY, true, groups.start);
        while group < groups.end {
            let size = offsets.row(group).len();
            let batch = group..group + WIDTH;
            let alike = SIZES.contains(&size) && batch.end <= groups.end && offsets.are_alike(batch, size);
            let count = if alike { WIDTH } else { 1 };
            let (now, later) = rewards.split_at(count * size);
            let (filled, empty) = advantages.split_at_mut(count * size);
            fine &= if alike { room.score(now, filled, size, formula) } else { one(now, filled, formula) };
            (rewards, advantages, group) = (later, empty, group + count);
        }
        fine
    }
}

/// One group.
fn one<R: Real, F: Formula>(rewards: &[R], advantages: &mut [f64], formula: &F) -> bool {
    let mut spread = GroupStats::EMPTY;
    for reward in rewards {
        spread.push(reward.widen());
    }
    let about = formula.about(&spread);
    let line = formula.line(&spread, about, terms(rewards, about, formula));
    apply(rewards, advantages, line);
    line.fits(&spread)
}

fn terms<R: Real, F: Formula>(rewards: &[R], about: f64, formula: &F) -> f64 {
    let mut total = Compensated::ZERO;
    if F::TERMS {
        for reward in rewards.iter().map(|reward| reward.widen()).filter(|reward| !reward.is_nan()) {
            total.add(formula.term(reward, about));
        }
    }
    total.value()
}

fn apply<R: Real>(rewards: &[R], advantages: &mut [f64], line: AffineMap) {
    for (advantage, reward) in advantages.iter_mut().zip(rewards) {
        *advantage = line.at(reward.widen());
    }
}
