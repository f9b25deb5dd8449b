//! What a row needs to know of the other rows of its log: a worse answer for a pair, or where labels change.

use karl_core::numeric::differ;
use karl_core::reward::midrange;
use karl_core::rng::{Key, Purpose, id128, uniform};
use rustc_hash::FxHashMap;

use super::SelectionValues;
use super::shape::Shape;
use crate::conversation::Flaw;
use crate::log::Log;

/// Facts about the rewards of a log, for the shapes that need them.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    /// Rows of each group with a reward, in ascending order of it. Empty unless rows are pairs.
    groups: Vec<Vec<(f64, u32)>>,
    /// Reward above which an answer is wanted; `None` if all are equal, or labels are not needed.
    pub(super) label_above: Option<f64>,
}

impl Comparison {
    /// Compare the rewards of a log as far as a shape needs it.
    pub(super) fn new(log: &Log, values: &SelectionValues<'_>, shape: Shape) -> Self {
        match shape {
            Shape::Preference => Self { groups: by_reward(log, values.rewards), label_above: None },
            Shape::Kto => Self { groups: Vec::new(), label_above: midrange(values.rewards) },
            _ => Self::default(),
        }
    }

    /// Return the search for the row that is rejected in favour of another: one of its group with a lower reward.
    pub(super) fn search(&self, log: &Log, rewards: &[f64], row: u32) -> PartnerSearch {
        let group = log.group.codes().get(row as usize).map_or(usize::MAX, |&code| code as usize);
        let reward = rewards.get(row as usize).copied().unwrap_or(f64::NAN);
        let members = self.groups.get(group).map_or(&[][..], Vec::as_slice);
        let count = members.partition_point(|&(other, _)| differ(other, reward));
        PartnerSearch {
            row,
            flaw: if count == 0 { Flaw::NoRejected } else { Flaw::BadRejected },
            key: log.keys.get(row as usize),
            group,
            count,
            tried: 0,
            unfit: 0,
            moved: FxHashMap::default(),
        }
    }

    /// Return the next row to try: the first, and the first that has no flaw, each with the same probability. It depends
    /// on the seed and the records alone. `None` after the last.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count is neither negative nor above it"
    )]
    pub(super) fn next(&self, search: &mut PartnerSearch, seed: u64) -> Option<u32> {
        let members = self.groups.get(search.group)?;
        if search.tried >= search.count || search.unfit >= UNFIT_TRIED {
            return None;
        }
        let key = match search.tried {
            0 => search.key,
            tried => Key {
                id: id128(&[&search.key.id.to_le_bytes()[..], &tried.to_le_bytes()].concat()),
                ..search.key
            },
        };
        let left = search.count - search.tried;
        let at =
            search.tried + ((uniform(seed, key, Purpose::Rejected) * left as f64) as usize).min(left - 1);
        // A step of the shuffle of Fisher and Yates, of which only what was moved is held.
        let first = search.moved.get(&search.tried).copied().unwrap_or(search.tried);
        let chosen = search.moved.insert(at, first).unwrap_or(at);
        search.tried += 1;
        members.get(chosen).map(|&(_, row)| row)
    }

    /// Return whether an answer is wanted; `None` if that is unknown.
    pub(super) fn label(&self, reward: f64) -> Option<bool> {
        self.label_above.filter(|_| !reward.is_nan()).map(|above| reward > above)
    }
}

/// Rows that make no pair with another one, as those of another prompt, after which no more are tried: in a group of many
/// prompts hardly any does.
const UNFIT_TRIED: usize = 8;

/// Search for the row that is rejected in favour of another.
#[derive(Debug)]
pub(super) struct PartnerSearch {
    /// Row that is chosen.
    pub(super) row: u32,
    /// Flaw of the row if no other can be rejected.
    pub(super) flaw: Flaw,
    key: Key,
    group: usize,
    /// Number of rows of its group with a lower reward.
    count: usize,
    /// Number of them that were tried.
    tried: usize,
    /// Number of those that make no pair with it.
    unfit: usize,
    /// Places of the shuffled order that are not the place itself.
    moved: FxHashMap<usize, usize>,
}

impl PartnerSearch {
    /// Note that a row makes no pair with this one.
    pub(super) fn note_unfit(&mut self, flaw: Flaw) {
        self.unfit += 1;
        self.flaw = flaw;
    }
}

/// Return the rows of each group with a reward, in ascending order of it; rows of one reward are in the order of the
/// log, which is that of their ids.
fn by_reward(log: &Log, rewards: &[f64]) -> Vec<Vec<(f64, u32)>> {
    let mut groups = vec![Vec::new(); log.group.names().len()];
    for (row, (&code, &reward)) in (0..).zip(log.group.codes().iter().zip(rewards)) {
        // Rows without a group have a code of their own, behind the others.
        if let Some(group) = groups.get_mut(code as usize).filter(|_| reward.is_finite()) {
            group.push((reward, row));
        }
    }
    for group in &mut groups {
        group.sort_by(|left, right| left.0.total_cmp(&right.0));
    }
    groups
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn comparison(rewards: &[f64]) -> Comparison {
        let mut group: Vec<(f64, u32)> = rewards.iter().copied().zip(0..).collect();
        group.sort_by(|left, right| left.0.total_cmp(&right.0));
        Comparison { groups: vec![group], label_above: None }
    }

    /// Return the rows that are tried for one of a number of lower ones.
    fn tried(comparison: &Comparison, count: usize, id: u128) -> Vec<u32> {
        let key = Key { id, ordinal: 0 };
        let mut search = PartnerSearch {
            row: 99,
            flaw: Flaw::BadRejected,
            key,
            group: 0,
            count,
            tried: 0,
            unfit: 0,
            moved: FxHashMap::default(),
        };
        std::iter::from_fn(|| comparison.next(&mut search, 7)).collect()
    }

    #[test]
    fn every_lower_row_is_tried_once_and_each_order_is_as_likely() {
        let comparison = comparison(&[0.0, 1.0, 2.0, 3.0]);
        let mut orders: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
        for id in 0..24_000 {
            *orders.entry(tried(&comparison, 4, id)).or_default() += 1;
        }
        assert_eq!(orders.len(), 24);
        for (order, count) in orders {
            assert_eq!(BTreeSet::from_iter(order).len(), 4);
            // Six standard deviations.
            assert!((1000.0 - f64::from(count)).abs() < 190.0, "{count}");
        }
        assert!(tried(&comparison, 0, 1).is_empty());
    }

    #[test]
    fn no_more_than_some_rows_that_do_not_fit_are_tried() {
        let comparison = comparison(&[0.0; 100]);
        let mut search = PartnerSearch {
            row: 99,
            flaw: Flaw::BadRejected,
            key: Key { id: 1, ordinal: 0 },
            group: 0,
            count: 100,
            tried: 0,
            unfit: 0,
            moved: FxHashMap::default(),
        };
        let mut count = 0;
        while comparison.next(&mut search, 7).is_some() {
            search.note_unfit(Flaw::OtherPrompt);
            count += 1;
        }
        assert_eq!((count, search.flaw), (UNFIT_TRIED, Flaw::OtherPrompt));
    }
}
