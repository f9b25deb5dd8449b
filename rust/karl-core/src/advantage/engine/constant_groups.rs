//! Constant groups, and the scores in the same pass.
//!
//! Rows of many groups are bucketed by range of groups, as in [`by_id`](super::by_id): the statistics of a range, and the rows
//! that look them up, then stay in the second-level cache from the first pass to the last. What is left of a spread is
//! what rules ask for, a quarter of its size.
//!
//! Speed: one pass for constancy and scores. No record isolates it.

use super::by_id::{lines, spreads, with_spreads};
use super::stats::{Formula, GroupStats};
use crate::group::Groups;
use crate::numeric::Real;
use crate::numeric::radix::{Bucket, Buckets, Scratch, all_ok, with_scratch};
use crate::numeric::sum::Compensated;

/// Comparison of the present rewards of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Agreement {
    /// There are fewer than two.
    Few,
    /// They differ.
    Differing,
    /// They are equal.
    Equal,
}

/// Comparison of the present rewards of each group.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ConstantGroups {
    kinds: Vec<Agreement>,
    /// The common reward of each group with equal rewards; 0 for the others.
    rewards: Vec<f64>,
}

impl ConstantGroups {
    pub(crate) fn of<R: Real>(rewards: &[R], groups: &Groups<'_>, threads: usize) -> Self {
        let mut constancy = Self::empty(groups);
        if groups.needs_buckets() {
            with_scratch(Scratch::default(), rewards.len(), |room| {
                constancy
                    .fill(&mut Buckets::new(rewards, groups.dense(), room, threads), threads, |_, _| true);
            });
        } else {
            constancy.whole().fill(&spreads(rewards, groups, threads));
        }
        constancy
    }

    /// Return the same, fill in the advantages of all rows, and return whether all of those are finite.
    pub(in crate::advantage) fn and_scores<R: Real, F: Formula>(
        rewards: &[R],
        groups: &Groups<'_>,
        formula: &F,
        advantages: &mut [f64],
        threads: usize,
    ) -> (Self, bool) {
        let mut constancy = Self::empty(groups);
        let fine = if groups.needs_buckets() {
            with_scratch(Scratch::default(), rewards.len(), |room| {
                let mut bucketed = Buckets::new(rewards, groups.dense(), room, threads);
                let fine = constancy
                    .fill(&mut bucketed, threads, |buckets, spreads| score(buckets, spreads, formula));
                bucketed.gather(advantages);
                fine
            })
        } else {
            let spreads = spreads(rewards, groups, threads);
            constancy.whole().fill(&spreads);
            with_spreads(rewards, groups, &spreads, formula, advantages, threads)
        };
        (constancy, fine)
    }

    /// Return the number of groups with two or more present rewards.
    pub(crate) fn comparable(&self) -> usize {
        self.kinds.iter().filter(|&&kind| kind != Agreement::Few).count()
    }

    /// Return the reward of each group that has two or more, all of them equal.
    pub(crate) fn rewards(&self) -> impl Iterator<Item = f64> {
        let pairs = self.kinds.iter().zip(&self.rewards);
        pairs.filter(|&(&kind, _)| kind == Agreement::Equal).map(|(_, &reward)| reward)
    }

    /// Return whether a group has two or more present rewards.
    pub(crate) fn is_comparable(&self, group: usize) -> bool {
        self.kinds[group] != Agreement::Few
    }

    /// Return whether no two present rewards of a group differ.
    pub(crate) fn is_constant(&self, group: usize) -> bool {
        self.kinds[group] != Agreement::Differing
    }

    fn empty(groups: &Groups<'_>) -> Self {
        Self { kinds: vec![Agreement::Few; groups.len()], rewards: vec![0.0; groups.len()] }
    }

    fn whole(&mut self) -> Chunk<'_> {
        Chunk { kinds: &mut self.kinds, rewards: &mut self.rewards }
    }

    /// Fold the rewards of each range into the spreads of its groups, call `work` on the range, and return whether
    /// all calls succeeded.
    fn fill(
        &mut self,
        bucketed: &mut Buckets<'_, '_>,
        threads: usize,
        work: impl Fn(&mut [Bucket<'_>], &[GroupStats]) -> bool + Sync,
    ) -> bool {
        let (width, rows) = (bucketed.width(), bucketed.rows());
        let chunks = self.kinds.chunks_mut(width).zip(self.rewards.chunks_mut(width));
        let chunks = chunks.map(|(kinds, rewards)| Chunk { kinds, rewards });
        let mut ranges: Vec<_> = bucketed.buckets_by_group().into_iter().zip(chunks).collect();
        all_ok(&mut ranges, rows, threads, Vec::new, |spreads, (buckets, chunk)| {
            spreads.clear();
            spreads.resize(chunk.kinds.len(), GroupStats::EMPTY);
            fold(buckets, spreads);
            chunk.fill(spreads);
            work(buckets, spreads)
        })
    }
}

/// Comparison of the rewards of some adjacent groups.
struct Chunk<'a> {
    kinds: &'a mut [Agreement],
    rewards: &'a mut [f64],
}

impl Chunk<'_> {
    fn fill(&mut self, spreads: &[GroupStats]) {
        for (spread, (kind, reward)) in spreads.iter().zip(self.kinds.iter_mut().zip(&mut *self.rewards)) {
            (*kind, *reward) = match spread.count {
                0 | 1 => (Agreement::Few, 0.0),
                _ if spread.is_constant() => (Agreement::Equal, spread.max),
                _ => (Agreement::Differing, 0.0),
            };
        }
    }
}

fn fold(buckets: &[Bucket<'_>], spreads: &mut [GroupStats]) {
    for bucket in buckets {
        for (&group, &reward) in bucket.groups.iter().zip(&*bucket.values) {
            spreads[usize::from(group)].push(reward);
        }
    }
}

/// Turn the rewards of a range into advantages, and return whether all of them are finite.
fn score<F: Formula>(buckets: &mut [Bucket<'_>], spreads: &[GroupStats], formula: &F) -> bool {
    let abouts: Vec<f64> = spreads.iter().map(|spread| formula.about(spread)).collect();
    let terms = terms(buckets, &abouts, formula);
    let lines = lines(spreads, &abouts, &terms, formula);
    for bucket in buckets {
        for (&group, value) in bucket.groups.iter().zip(&mut *bucket.values) {
            *value = lines[usize::from(group)].at(*value);
        }
    }
    spreads.iter().zip(lines).all(|(spread, line)| line.fits(spread))
}

fn terms<F: Formula>(buckets: &[Bucket<'_>], abouts: &[f64], formula: &F) -> Vec<Compensated> {
    let mut terms = vec![Compensated::ZERO; if F::TERMS { abouts.len() } else { 0 }];
    for bucket in buckets.iter().filter(|_| F::TERMS) {
        for (&group, &reward) in
            bucket.groups.iter().zip(&*bucket.values).filter(|(_, reward)| !reward.is_nan())
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
        assert!(groups.needs_buckets());
        let plain = groups.fold(1, GroupStats::EMPTY, |spread, _, row| spread.push(rewards[row]));
        let mut constancy = ConstantGroups::empty(&groups);
        constancy.whole().fill(&plain);
        let mut wanted = vec![0.0; rows];
        assert!(with_spreads(&rewards, &groups, &plain, &formula, &mut wanted, 1));
        for threads in [0, 1, 2, 5] {
            let mut scores = vec![0.0; rows];
            let (found, fine) = ConstantGroups::and_scores(&rewards, &groups, &formula, &mut scores, threads);
            assert!(fine && found == constancy, "{threads}");
            assert!(scores.iter().zip(&wanted).all(|(a, b)| a.to_bits() == b.to_bits()), "{threads}");
            assert_eq!(ConstantGroups::of(&rewards, &groups, threads), constancy);
        }
    }

    #[test]
    fn equal_rewards_are_those_of_two_or_more() {
        let rewards = [1.0, 1.0, 0.5, f64::NAN, 2.0, 3.0, 0.0, -0.0, 4.0, f64::NAN, f64::NAN];
        let groups = Groups::from_ids(&[7, 7, 8, 8, 9, 9, 5, 5, -1, 6, 6]).unwrap();
        let constancy = ConstantGroups::of(&rewards, &groups, 1);
        let constant: Vec<bool> = (0..groups.len()).map(|group| constancy.is_constant(group)).collect();
        assert_eq!(constant, [true, true, false, true, true]);
        assert_eq!((constancy.comparable(), constancy.rewards().collect::<Vec<_>>()), (3, vec![1.0, 0.0]));
    }
}
