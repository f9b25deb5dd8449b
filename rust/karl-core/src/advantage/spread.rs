//! What is known of each group, and the scores that follow from it where somebody wants both.
//!
//! Rows of many groups are dealt into ranges of groups, as in [`coded`](super::coded): the spreads of a range, and the rows
//! that look for them, then stay in the second-level cache from the first pass to the last.

use super::coded::{are_dealt, lines, with_spreads};
use super::frame::{Formula, Spread};
use crate::deal::{Deals, Hand, Room, all_fine, with_room};
use crate::group::Groups;
use crate::numeric::Compensated;
use crate::real::Real;

/// The spread of each group.
pub(crate) fn spreads<R: Real>(rewards: &[R], groups: &Groups<'_>, threads: usize) -> Vec<Spread> {
    if !are_dealt(groups) {
        return groups.fold(threads, Spread::EMPTY, |spread, _, row| spread.push(rewards[row].widen()));
    }
    let mut spreads = vec![Spread::EMPTY; groups.len()];
    with_room(Room::default(), rewards.len(), |room| {
        by_range(&mut Deals::new(rewards, groups, room, threads), &mut spreads, threads, |_, _| true);
    });
    spreads
}

/// The spread of each group, and its rows' advantages filled in; whether all of those are finite.
pub(super) fn fill_with_spreads<R: Real, F: Formula>(
    rewards: &[R],
    groups: &Groups<'_>,
    formula: &F,
    advantages: &mut [f64],
    threads: usize,
) -> (Vec<Spread>, bool) {
    if !are_dealt(groups) {
        let spreads = spreads(rewards, groups, threads);
        let fine = with_spreads(rewards, groups, &spreads, formula, advantages, threads);
        return (spreads, fine);
    }
    let mut spreads = vec![Spread::EMPTY; groups.len()];
    let fine = with_room(Room::default(), rewards.len(), |room| {
        let mut deals = Deals::new(rewards, groups, room, threads);
        let fine =
            by_range(&mut deals, &mut spreads, threads, |hands, spreads| score(hands, spreads, formula));
        deals.back(advantages);
        fine
    });
    (spreads, fine)
}

/// Folds the rewards of each range into the spreads of its groups, and works on the range; whether all of that went well.
fn by_range(
    deals: &mut Deals<'_, '_>,
    spreads: &mut [Spread],
    threads: usize,
    work: impl Fn(&mut [Hand<'_>], &[Spread]) -> bool + Sync,
) -> bool {
    let (width, rows) = (deals.width(), deals.rows());
    let mut ranges: Vec<_> = deals.grouped().into_iter().zip(spreads.chunks_mut(width)).collect();
    all_fine(
        &mut ranges,
        rows,
        threads,
        || (),
        |(), (hands, spreads)| {
            fold(hands, spreads);
            work(hands, spreads)
        },
    )
}

fn fold(hands: &[Hand<'_>], spreads: &mut [Spread]) {
    for hand in hands {
        for (&group, &reward) in hand.groups.iter().zip(&*hand.values) {
            spreads[usize::from(group)].push(reward);
        }
    }
}

/// Turns the rewards of a range into advantages; whether all of them are finite.
fn score<F: Formula>(hands: &mut [Hand<'_>], spreads: &[Spread], formula: &F) -> bool {
    let abouts: Vec<f64> = spreads.iter().map(|spread| formula.about(spread)).collect();
    let terms = terms(hands, &abouts, formula);
    let lines = lines(spreads, &abouts, &terms, formula);
    for hand in hands {
        for (&group, value) in hand.groups.iter().zip(&mut *hand.values) {
            *value = lines[usize::from(group)].at(*value);
        }
    }
    spreads.iter().zip(lines).all(|(spread, line)| line.fits(spread))
}

fn terms<F: Formula>(hands: &[Hand<'_>], abouts: &[f64], formula: &F) -> Vec<Compensated> {
    let mut terms = vec![Compensated::ZERO; if F::TERMS { abouts.len() } else { 0 }];
    for hand in hands.iter().filter(|_| F::TERMS) {
        for (&group, &reward) in hand.groups.iter().zip(&*hand.values).filter(|(_, reward)| !reward.is_nan())
        {
            let group = usize::from(group);
            terms[group].add(formula.term(reward, abouts[group]));
        }
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advantage::zscore::ZScore;
    use crate::rng::{Key, Purpose, uniform};

    #[test]
    fn ranges_of_groups_change_no_bit() {
        let rows = 50_000;
        let number = |row, purpose| uniform(3, Key::of_index(row), purpose);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 9999")]
        let code = |row| (number(row, Purpose::Split) * 1e4) as u32;
        let codes: Vec<u32> =
            (0..rows).map(|row| if row % 97 == 0 { Groups::NONE } else { code(row) }).collect();
        let reward = |row| if row % 89 == 0 { f64::NAN } else { number(row, Purpose::Draw) };
        let rewards: Vec<f64> = (0..rows).map(reward).collect();
        let (groups, formula) = (Groups::from_codes(codes, 10_000).unwrap(), ZScore { ddof: 1, eps: 1e-6 });
        assert!(are_dealt(&groups));
        let plain = groups.fold(1, Spread::EMPTY, |spread, _, row| spread.push(rewards[row]));
        let mut wanted = vec![0.0; rows];
        assert!(with_spreads(&rewards, &groups, &plain, &formula, &mut wanted, 1));
        let bits = |spreads: &[Spread]| -> Vec<_> {
            spreads.iter().map(|one| (one.count, one.max.to_bits(), one.mean().to_bits())).collect()
        };
        for threads in [0, 1, 2, 5] {
            let mut scores = vec![0.0; rows];
            let (found, fine) = fill_with_spreads(&rewards, &groups, &formula, &mut scores, threads);
            assert!(fine && bits(&found) == bits(&plain));
            assert!(scores.iter().zip(&wanted).all(|(a, b)| a.to_bits() == b.to_bits()), "{threads}");
            assert!(bits(&spreads(&rewards, &groups, threads)) == bits(&plain));
        }
    }
}
