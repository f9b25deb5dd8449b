//! Eight groups of one size side by side, a lane a group: the same additions in the same order as one group at a time,
//! eight at once.
//!
//! The loops run over arrays of eight without a branch, which the compiler makes vector instructions of. Nothing is added
//! across lanes, so their width changes no bit.

use std::ops::RangeInclusive;

use super::frame::{Formula, Line, Spread};
use crate::numeric::Compensated;
use crate::real::Real;

/// Groups side by side.
pub(super) const WIDTH: usize = 8;

/// Sizes of groups that are worth it: eight larger groups do not stay in the first-level cache between two passes.
pub(super) const SIZES: RangeInclusive<usize> = 2..=LARGEST;
const LARGEST: usize = 64;

type Lane = [f64; WIDTH];

/// Eight groups of `size` rewards, end to end; whether all advantages are finite.
pub(super) fn score<R: Real, F: Formula>(
    rewards: &[R],
    advantages: &mut [f64],
    size: usize,
    formula: &F,
) -> bool {
    let mut room = [[0.0; WIDTH]; LARGEST];
    let places = &mut room[..size];
    for (lane, rewards) in rewards.chunks_exact(size).enumerate().take(WIDTH) {
        for (place, reward) in places.iter_mut().zip(rewards) {
            place[lane] = reward.widen();
        }
    }
    let spreads = spreads(places);
    let abouts: Lane = std::array::from_fn(|lane| formula.about(&spreads[lane]));
    let terms = if F::TERMS { terms(places, &abouts, formula) } else { [0.0; WIDTH] };
    let lines: [Line; WIDTH] =
        std::array::from_fn(|lane| formula.line(&spreads[lane], abouts[lane], terms[lane]));
    for (lane, advantages) in advantages.chunks_exact_mut(size).enumerate().take(WIDTH) {
        let line = lines[lane];
        for (advantage, reward) in advantages.iter_mut().zip(&rewards[lane * size..]) {
            *advantage = line.at(reward.widen());
        }
    }
    spreads.iter().zip(lines).all(|(spread, line)| line.fits(spread))
}

/// What is known of each group from its rewards, a place in all eight after the other.
#[inline]
fn spreads(places: &[Lane]) -> [Spread; WIDTH] {
    let (mut counts, mut min, mut max) = ([0.0; WIDTH], [f64::INFINITY; WIDTH], [f64::NEG_INFINITY; WIDTH]);
    let mut sums = Sums::default();
    for rewards in places {
        for lane in 0..WIDTH {
            let reward = rewards[lane];
            // A comparison with a NaN is false.
            counts[lane] += if reward.is_nan() { 0.0 } else { 1.0 };
            min[lane] = if reward < min[lane] { reward } else { min[lane] };
            max[lane] = if reward > max[lane] { reward } else { max[lane] };
        }
        sums.add(rewards);
    }
    std::array::from_fn(|lane| Spread {
        count: counted(counts[lane]),
        min: min[lane],
        max: max[lane],
        total: sums.lane(lane),
    })
}

#[inline]
fn terms<F: Formula>(places: &[Lane], abouts: &Lane, formula: &F) -> Lane {
    let mut sums = Sums::default();
    for rewards in places {
        // The term of a NaN is NaN, which adds nothing.
        sums.add(&std::array::from_fn(|lane| formula.term(rewards[lane], abouts[lane])));
    }
    std::array::from_fn(|lane| sums.lane(lane).value())
}

/// Eight compensated sums.
#[derive(Default)]
struct Sums {
    total: Lane,
    lost: Lane,
}

impl Sums {
    /// Adds a term to each, as [`Compensated::add`] does; a NaN adds nothing.
    #[inline]
    fn add(&mut self, terms: &Lane) {
        for ((total, lost), &term) in self.total.iter_mut().zip(&mut self.lost).zip(terms) {
            let next = *total + term;
            let large = if total.abs() >= term.abs() { *total } else { term };
            let small = if total.abs() >= term.abs() { term } else { *total };
            *lost += if term.is_nan() { 0.0 } else { (large - next) + small };
            *total = if term.is_nan() { *total } else { next };
        }
    }

    #[inline]
    fn lane(&self, lane: usize) -> Compensated {
        Compensated::of(self.total[lane], self.lost[lane])
    }
}

/// A count of at most [`SIZES`] that was added up as a float.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small whole number")]
#[inline]
fn counted(count: f64) -> u32 {
    count as u32
}
