//! Groups end to end: no codes and no table, each group is read where it lies.
//!
//! Neighbouring groups of one size are folded side by side, a lane a group. Every group's sums fold its own rows in
//! row order whether it has a lane or not, so both give the same bits.
//!
//! Every loop over lanes runs without a branch, which the compiler makes vector instructions of. Nothing is added across
//! lanes, so their width changes no bit. There are more lanes than a register holds: a loop of eight is unrolled before it
//! is seen to be a vector, and then is none.
//!
//! Speed: no codes are read, and one vector lane a group. Record: `benches/record/kernels.json`, "groups of 8 end to end,
//! 10000000 rows".

use std::ops::{Range, RangeInclusive};
use std::sync::atomic::{AtomicBool, Ordering};

use super::stats::{AffineMap, Formula, GroupStats};
use crate::group::offsets::Offsets;
use crate::numeric::Real;
use crate::numeric::parallel::{ALONE, each};
use crate::numeric::simd::{Kernel, wide};
use crate::numeric::sum::Compensated;

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
            fine &= if alike {
                room.score(now, filled, size, formula)
            } else {
                score_group(now, filled, formula)
            };
            (rewards, advantages, group) = (later, empty, group + count);
        }
        fine
    }
}

/// One group.
fn score_group<R: Real, F: Formula>(rewards: &[R], advantages: &mut [f64], formula: &F) -> bool {
    let mut spread = GroupStats::EMPTY;
    for reward in rewards {
        spread.push(reward.widen());
    }
    let about = formula.about(&spread);
    let line = formula.line(&spread, about, sum_terms(rewards, about, formula));
    for (advantage, reward) in advantages.iter_mut().zip(rewards) {
        *advantage = line.at(reward.widen());
    }
    line.fits(&spread)
}

fn sum_terms<R: Real, F: Formula>(rewards: &[R], about: f64, formula: &F) -> f64 {
    let mut total = Compensated::ZERO;
    if F::TERMS {
        for reward in rewards.iter().map(|reward| reward.widen()).filter(|reward| !reward.is_nan()) {
            total.add(formula.term(reward, about));
        }
    }
    total.value()
}

/// Groups side by side.
const WIDTH: usize = 32;

/// Sizes of groups that are worth it: more of larger groups do not stay in the first-level cache between two passes.
pub(in crate::advantage) const SIZES: RangeInclusive<usize> = 2..=LARGEST;
const LARGEST: usize = 64;

type Lane = [f64; WIDTH];

/// Rewards laid side by side: each place of all groups together.
struct LaneBuffer([Lane; LARGEST]);

impl LaneBuffer {
    /// Room for one batch after another.
    const EMPTY: Self = Self([[0.0; WIDTH]; LARGEST]);

    /// [`WIDTH`] groups of `size` rewards, end to end; whether all advantages are finite.
    #[inline(always)]
    fn score<R: Real, F: Formula>(
        &mut self,
        rewards: &[R],
        advantages: &mut [f64],
        size: usize,
        formula: &F,
    ) -> bool {
        let places = self.fill(rewards, size);
        let spreads = LaneStats::of(places);
        let mut abouts = [0.0; WIDTH];
        for (lane, about) in abouts.iter_mut().enumerate() {
            *about = formula.about(&spreads.lane(lane));
        }
        let terms = if F::TERMS { sum_terms_by_lane(places, &abouts, formula) } else { LaneSums::ZERO };
        let mut lines = LaneMaps::ZERO;
        let mut fitting = 0;
        for (lane, &about) in abouts.iter().enumerate() {
            let spread = spreads.lane(lane);
            let line = formula.line(&spread, about, terms.lane(lane).value());
            lines.set(lane, line);
            fitting += u64::from(line.fits(&spread));
        }
        lines.apply(rewards, advantages, size);
        fitting == WIDTH as u64
    }

    #[inline(always)]
    fn fill<R: Real>(&mut self, rewards: &[R], size: usize) -> &[Lane] {
        let places = &mut self.0[..size];
        for (at, place) in places.iter_mut().enumerate() {
            for lane in 0..WIDTH {
                place[lane] = rewards[lane * size + at].widen();
            }
        }
        places
    }
}

/// Statistics of each group of a lane.
struct LaneStats {
    counts: Lane,
    min: Lane,
    max: Lane,
    sums: LaneSums,
}

impl LaneStats {
    #[inline(always)]
    fn of(places: &[Lane]) -> Self {
        let (min, max) = ([f64::INFINITY; WIDTH], [f64::NEG_INFINITY; WIDTH]);
        let mut spreads = Self { counts: [0.0; WIDTH], min, max, sums: LaneSums::ZERO };
        for rewards in places {
            spreads.push(rewards);
            spreads.sums.add(|lane| rewards[lane]);
        }
        spreads
    }

    #[inline(always)]
    fn push(&mut self, rewards: &Lane) {
        for (lane, &reward) in rewards.iter().enumerate() {
            let (min, max) = (self.min[lane], self.max[lane]);
            // A comparison with a NaN is false.
            self.counts[lane] += if reward.is_nan() { 0.0 } else { 1.0 };
            self.min[lane] = if reward < min { reward } else { min };
            self.max[lane] = if reward > max { reward } else { max };
        }
    }

    #[inline(always)]
    fn lane(&self, lane: usize) -> GroupStats {
        let count = count_of(self.counts[lane]);
        GroupStats { count, min: self.min[lane], max: self.max[lane], total: self.sums.lane(lane) }
    }
}

#[inline(always)]
fn sum_terms_by_lane<F: Formula>(places: &[Lane], abouts: &Lane, formula: &F) -> LaneSums {
    let mut sums = LaneSums::ZERO;
    for rewards in places {
        // The term of a NaN is NaN, which adds nothing.
        sums.add(|lane| formula.term(rewards[lane], abouts[lane]));
    }
    sums
}

/// A compensated sum a lane.
struct LaneSums {
    total: Lane,
    lost: Lane,
}

impl LaneSums {
    const ZERO: Self = Self { total: [0.0; WIDTH], lost: [0.0; WIDTH] };

    /// Add a term to each, as [`Compensated::add`] does; a NaN adds nothing.
    #[inline(always)]
    fn add(&mut self, term: impl Fn(usize) -> f64) {
        for lane in 0..WIDTH {
            let (total, term) = (self.total[lane], term(lane));
            // Adding 0 leaves both parts as they are.
            let term = if term.is_nan() { 0.0 } else { term };
            let next = total + term;
            let larger = total.abs() >= term.abs();
            let (large, small) = if larger { (total, term) } else { (term, total) };
            self.lost[lane] += (large - next) + small;
            self.total[lane] = next;
        }
    }

    #[inline(always)]
    fn lane(&self, lane: usize) -> Compensated {
        Compensated::of(self.total[lane], self.lost[lane])
    }
}

/// A line a lane.
struct LaneMaps {
    baselines: Lane,
    factors: Lane,
    divisors: Lane,
}

impl LaneMaps {
    const ZERO: Self = Self { baselines: [0.0; WIDTH], factors: [0.0; WIDTH], divisors: [0.0; WIDTH] };

    #[inline(always)]
    fn set(&mut self, at: usize, line: AffineMap) {
        self.baselines[at] = line.baseline;
        self.factors[at] = line.factor;
        self.divisors[at] = line.divisor;
    }

    #[inline(always)]
    fn apply<R: Real>(&self, rewards: &[R], advantages: &mut [f64], size: usize) {
        let groups = advantages.chunks_exact_mut(size).zip(rewards.chunks_exact(size));
        for (lane, (advantages, rewards)) in groups.enumerate().take(WIDTH) {
            let (baseline, factor, divisor) = (self.baselines[lane], self.factors[lane], self.divisors[lane]);
            let line = AffineMap { baseline, factor, divisor };
            for (advantage, reward) in advantages.iter_mut().zip(rewards) {
                *advantage = line.at(reward.widen());
            }
        }
    }
}

/// Return a count of at most [`SIZES`] that was added up as a float: it is put into the bits of 2^52.
#[allow(clippy::cast_possible_truncation, reason = "a small whole number")]
#[inline(always)]
fn count_of(count: f64) -> u32 {
    (count + (1_u64 << 52) as f64).to_bits() as u32
}
