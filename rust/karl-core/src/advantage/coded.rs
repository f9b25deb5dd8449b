//! Groups by a code a row, in any order.
//!
//! What is known of a few thousand groups stays in the second-level cache, and rows find it there. Of more groups the
//! table does not, and every row would wait for memory: rows are first dealt into ranges of groups, each range is worked
//! on by itself, and the results are dealt back. Dealing keeps the order of rows, so a group folds its rows in row order
//! either way, and neither the threads nor the ranges change a bit.
//!
//! Not taken: sorting rows by group, which moves every row to a place of its own instead of into one of a few hundred
//! streams.

use super::frame::{Formula, Line, Spread};
use crate::blocks::{self, ALONE, each, in_parts};
use crate::group::Groups;
use crate::numeric::Compensated;
use crate::real::Real;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Groups of one range, as a power of two: 4096 states and lines are 352 KiB.
const RANGE_BITS: u32 = 12;
const RANGE: usize = 1 << RANGE_BITS;

/// The advantages, and whether all of them are finite.
pub(super) fn score<R: Real, F: Formula>(
    rewards: &[R],
    groups: &Groups<'_>,
    formula: &F,
    threads: usize,
) -> (Vec<f64>, bool) {
    if groups.len() <= RANGE {
        let spreads = spreads(rewards, groups, threads);
        return with_spreads(rewards, groups, &spreads, formula, threads);
    }
    dealt(rewards, groups, formula, if rewards.len() < ALONE { 1 } else { threads })
}

/// The spread of each group.
pub(crate) fn spreads<R: Real>(rewards: &[R], groups: &Groups, threads: usize) -> Vec<Spread> {
    groups.fold(threads, Spread::EMPTY, |spread, _, row| spread.push(rewards[row].widen()))
}

/// The same as [`score`] where the spread of each group is known.
pub(super) fn with_spreads<R: Real, F: Formula>(
    rewards: &[R],
    groups: &Groups<'_>,
    spreads: &[Spread],
    formula: &F,
    threads: usize,
) -> (Vec<f64>, bool) {
    let abouts: Vec<f64> = spreads.iter().map(|spread| formula.about(spread)).collect();
    let terms = terms(rewards, groups, &abouts, formula, threads);
    let line = |(group, spread): (usize, &Spread)| {
        formula.line(spread, abouts[group], terms.get(group).map_or(0.0, |terms| terms.value()))
    };
    let lines: Vec<Line> = spreads.iter().enumerate().map(line).collect();
    let mut advantages = vec![0.0; rewards.len()];
    blocks::fill(&mut advantages, threads, |first, block| {
        for (advantage, row) in block.iter_mut().zip(first..) {
            *advantage = groups.code(row).map_or(f64::NAN, |group| lines[group].at(rewards[row].widen()));
        }
    });
    (advantages, spreads.iter().zip(lines).all(|(spread, line)| line.fits(spread)))
}

fn terms<R: Real, F: Formula>(
    rewards: &[R],
    groups: &Groups<'_>,
    abouts: &[f64],
    formula: &F,
    threads: usize,
) -> Vec<Compensated> {
    if !F::TERMS {
        return Vec::new();
    }
    groups.fold(threads, Compensated::ZERO, |total, group, row| {
        let reward = rewards[row].widen();
        if !reward.is_nan() {
            total.add(formula.term(reward, abouts[group]));
        }
    })
}

/// What a range of groups is to know of each.
#[derive(Clone, Copy)]
struct State {
    spread: Spread,
    about: f64,
    terms: Compensated,
}

impl State {
    const EMPTY: Self = Self { spread: Spread::EMPTY, about: 0.0, terms: Compensated::ZERO };
}

/// The rows of one thread by range of groups, in row order within each. Rows without a group are the last range.
struct Deal {
    rows: Range<usize>,
    begins: Vec<usize>,
    codes: Vec<u32>,
    values: Vec<f64>,
}

/// The rows of one range that one thread has dealt: codes, and rewards that become advantages.
type Hand<'a> = (&'a [u32], &'a mut [f64]);

fn range_of(code: u32, ranges: usize) -> usize {
    ((code >> RANGE_BITS) as usize).min(ranges - 1)
}

fn dealt<R: Real, F: Formula>(
    rewards: &[R],
    groups: &Groups<'_>,
    formula: &F,
    threads: usize,
) -> (Vec<f64>, bool) {
    let ranges = groups.len().div_ceil(RANGE) + 1;
    let mut deals = in_parts(rewards.len(), threads, |rows| Deal::new(rewards, groups.codes(), rows, ranges));
    let fine = AtomicBool::new(true);
    let mut hands = hands(&mut deals, ranges);
    let share = ranges.div_ceil(threads.max(1));
    each(hands.chunks_mut(share).enumerate(), |(part, hands)| {
        let mut table = (vec![State::EMPTY; RANGE], vec![Line::less(0.0); RANGE]);
        for (at, hands) in hands.iter_mut().enumerate() {
            let range = part * share + at;
            if range + 1 == ranges {
                for (_, values) in hands {
                    values.fill(f64::NAN);
                }
            } else if !settle(&mut table, range * RANGE, hands, formula) {
                fine.store(false, Ordering::Relaxed);
            }
        }
    });
    let mut advantages = vec![0.0; rewards.len()];
    let mut rest = advantages.as_mut_slice();
    let pieces: Vec<_> = deals.iter().map(|deal| (deal, rest.split_off_mut(..deal.rows.len()))).collect();
    each(pieces, |(deal, piece)| deal.back(groups.codes(), ranges, piece.unwrap_or_default()));
    (advantages, fine.into_inner())
}

impl Deal {
    fn new<R: Real>(rewards: &[R], codes: &[u32], rows: Range<usize>, ranges: usize) -> Self {
        let (rewards, chosen) = (&rewards[rows.clone()], &codes[rows.clone()]);
        let begins = begins(chosen, ranges);
        let mut next = begins.clone();
        let mut deal = Self { rows, begins, codes: vec![0; chosen.len()], values: vec![0.0; chosen.len()] };
        for (&code, reward) in chosen.iter().zip(rewards) {
            let next = &mut next[range_of(code, ranges)];
            deal.codes[*next] = code;
            deal.values[*next] = reward.widen();
            *next += 1;
        }
        deal
    }

    /// The advantages in the order of the rows.
    fn back(&self, codes: &[u32], ranges: usize, advantages: &mut [f64]) {
        let mut next = self.begins.clone();
        for (&code, advantage) in codes[self.rows.clone()].iter().zip(advantages) {
            let next = &mut next[range_of(code, ranges)];
            *advantage = self.values[*next];
            *next += 1;
        }
    }
}

/// Where each range begins, and where the last ends.
fn begins(codes: &[u32], ranges: usize) -> Vec<usize> {
    let mut begins = vec![0; ranges + 1];
    for &code in codes {
        begins[range_of(code, ranges) + 1] += 1;
    }
    for range in 0..ranges {
        begins[range + 1] += begins[range];
    }
    begins
}

/// The hands of each range, in row order.
fn hands(deals: &mut [Deal], ranges: usize) -> Vec<Vec<Hand<'_>>> {
    let mut hands: Vec<Vec<Hand<'_>>> = (0..ranges).map(|_| Vec::new()).collect();
    for deal in deals {
        let mut rest = deal.values.as_mut_slice();
        for (range, hands) in hands.iter_mut().enumerate() {
            let place = deal.begins[range]..deal.begins[range + 1];
            let (values, after) = rest.split_at_mut(place.len());
            hands.push((&deal.codes[place], values));
            rest = after;
        }
    }
    hands
}

/// Turns the rewards of a range into advantages; whether all of them are finite. The range begins at group `first`.
fn settle<F: Formula>(
    (states, lines): &mut (Vec<State>, Vec<Line>),
    first: usize,
    hands: &mut [Hand<'_>],
    formula: &F,
) -> bool {
    states.fill(State::EMPTY);
    let place = |code: u32| (code as usize - first) & (RANGE - 1);
    for (&code, &value) in hands.iter().flat_map(|(codes, values)| codes.iter().zip(values.iter())) {
        states[place(code)].spread.push(value);
    }
    for state in states.iter_mut() {
        state.about = formula.about(&state.spread);
    }
    if F::TERMS {
        for (&code, &value) in hands.iter().flat_map(|(codes, values)| codes.iter().zip(values.iter())) {
            let state = &mut states[place(code)];
            if !value.is_nan() {
                state.terms.add(formula.term(value, state.about));
            }
        }
    }
    let mut fine = true;
    for (line, state) in lines.iter_mut().zip(states.iter()) {
        *line = formula.line(&state.spread, state.about, state.terms.value());
        fine &= line.fits(&state.spread);
    }
    for (codes, values) in hands {
        codes.iter().zip(values.iter_mut()).for_each(|(&code, value)| *value = lines[place(code)].at(*value));
    }
    fine
}
