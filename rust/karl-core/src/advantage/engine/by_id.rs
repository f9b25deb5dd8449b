//! Groups by a code a row, in any order.
//!
//! What is known of a few thousand groups stays in the second-level cache, and rows find it there. Rows of more groups are
//! dealt into ranges of groups, and the groups of a range are laid end to end. A group folds its rows in row order either
//! way, and neither the ranges nor the threads change a bit.

use super::frame::{Formula, Line, Spread};
use super::gather::Laid;
use crate::group::Groups;
use crate::numeric::float::Real;
use crate::numeric::parallel;
use crate::numeric::radix::{Deals, Hand, Room, all_fine, with_room};
use crate::numeric::sum::Compensated;

/// Groups whose table is found in the second-level cache by any row.
const NEAR: usize = 1 << 12;

/// Fills the advantages in; whether all of them are finite.
pub(in crate::advantage) fn fill<R: Real, F: Formula>(
    rewards: &[R],
    groups: &Groups<'_>,
    formula: &F,
    (advantages, room): (&mut [f64], Room<'_>),
    threads: usize,
) -> bool {
    if are_dealt(groups) {
        return with_room(room, rewards.len(), |room| {
            dealt(rewards, groups, formula, (advantages, room), threads)
        });
    }
    let spreads = spreads(rewards, groups, threads);
    with_spreads(rewards, groups, &spreads, formula, advantages, threads)
}

/// The spread of each group, of those that are not dealt.
pub(in crate::advantage) fn spreads<R: Real>(
    rewards: &[R],
    groups: &Groups<'_>,
    threads: usize,
) -> Vec<Spread> {
    groups.fold(threads, Spread::EMPTY, |spread, _, row| spread.push(rewards[row].widen()))
}

/// Whether the rows of these groups are dealt into ranges of them.
pub(crate) fn are_dealt(groups: &Groups<'_>) -> bool {
    groups.len() > NEAR
}

fn dealt<R: Real, F: Formula>(
    rewards: &[R],
    groups: &Groups<'_>,
    formula: &F,
    (advantages, room): (&mut [f64], Room<'_>),
    threads: usize,
) -> bool {
    let mut deals = Deals::new(rewards, groups, room, threads);
    let width = deals.width().min(groups.len());
    let mut hands = deals.grouped();
    let score = |laid: &mut Laid, hands: &mut Vec<Hand<'_>>| laid.score(hands, formula);
    let fine = all_fine(&mut hands, rewards.len(), threads, || Laid::new(width), score);
    deals.back(advantages);
    fine
}

/// The same as [`fill`] where the spread of each group is known.
pub(in crate::advantage) fn with_spreads<R: Real, F: Formula>(
    rewards: &[R],
    groups: &Groups<'_>,
    spreads: &[Spread],
    formula: &F,
    advantages: &mut [f64],
    threads: usize,
) -> bool {
    let abouts: Vec<f64> = spreads.iter().map(|spread| formula.about(spread)).collect();
    let terms = terms(rewards, groups, &abouts, formula, threads);
    let lines = lines(spreads, &abouts, &terms, formula);
    parallel::fill(advantages, threads, |first, block| {
        for (advantage, row) in block.iter_mut().zip(first..) {
            *advantage = groups.code(row).map_or(f64::NAN, |group| lines[group].at(rewards[row].widen()));
        }
    });
    spreads.iter().zip(lines).all(|(spread, line)| line.fits(spread))
}

/// What turns a reward of each group into its advantage; groups without terms have a sum of 0 of them.
pub(in crate::advantage) fn lines<F: Formula>(
    spreads: &[Spread],
    abouts: &[f64],
    terms: &[Compensated],
    formula: &F,
) -> Vec<Line> {
    let line = |(group, spread): (usize, &Spread)| {
        formula.line(spread, abouts[group], terms.get(group).map_or(0.0, |terms| terms.value()))
    };
    spreads.iter().enumerate().map(line).collect()
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
