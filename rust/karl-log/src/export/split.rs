//! Split of the rows of a draft into train, valid and test.

use karl_core::Keys;
use karl_core::output_order::write_order;
use karl_core::rng::{Key, id128};
use karl_core::split::{Group, split};
use rustc_hash::FxHashMap;

use super::Draft;
use crate::error::Result;
use crate::log::Log;

/// Distinction between records of one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordinals {
    /// Rank by the hash of their bytes.
    Ranks,
    /// The hash itself: the rank is unknown in a single pass.
    Digests,
}

/// Settings of the split.
#[derive(Clone, Copy, Debug)]
pub struct Dealing {
    /// Fraction of the rows for each split (train, valid, test).
    pub fractions: [f64; 3],
    /// Minimum rows of a split other than train; smaller ones go to train, unless the fraction of
    /// train is zero: trainers reject splits smaller than their batch.
    pub fewest: usize,
    /// Seed of the random split.
    pub seed: u64,
}

/// Rows of each split (train, valid, test).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Splits {
    /// Lines, each split in the order of a second uniform of (seed, id); a line occurs as often as its row
    /// was drawn.
    pub lines: [Vec<usize>; 3],
    /// Target number of rows of each.
    pub quotas: [f64; 3],
    /// Number of groups of each, or of prompts if rows have no group.
    pub groups: [usize; 3],
    /// Number of rows moved to train because the split was too small.
    pub merged: [usize; 3],
}

impl Draft {
    /// Split the rows; rows of a group, or of a prompt if there is no group, go to one split.
    ///
    /// # Errors
    /// [`Error::Draw`](crate::Error::Draw) for invalid fractions.
    pub fn split(&self, log: &Log, ordinals: Ordinals, dealing: Dealing) -> Result<Splits> {
        let Dealing { fractions, fewest, seed } = dealing;
        let (groups, group_of) = self.groups(log);
        let mut split_of = split(&groups, &fractions, seed, fewest as u64)?;
        let merged = merge(&groups, &mut split_of, dealing);
        let all: u64 = groups.iter().map(|group| group.rows).sum();
        let mut splits =
            Splits { quotas: fractions.map(|share| share * all as f64), merged, ..Splits::default() };
        for &split in &split_of {
            splits.groups[split] += 1;
        }
        let line_of: FxHashMap<u32, usize> =
            self.rows.iter().enumerate().map(|(line, &row)| (row, line)).collect();
        for row in self.order(log, ordinals, seed)? {
            let line = line_of[&row];
            splits.lines[split_of[group_of[line]]].push(line);
        }
        Ok(splits)
    }

    /// Return the groups that are split, and the group of each line.
    fn groups(&self, log: &Log) -> (Vec<Group>, Vec<usize>) {
        let mut numbers: FxHashMap<u128, usize> = FxHashMap::default();
        let (mut groups, mut group_of) = (Vec::new(), Vec::with_capacity(self.rows.len()));
        for (line, (&row, &copies)) in self.rows.iter().zip(&self.copies).enumerate() {
            let id = self.group_id(log, line, row);
            let number = *numbers.entry(id).or_insert_with(|| {
                groups.push(Group { key: Key { id, ordinal: 0 }, rows: 0 });
                groups.len() - 1
            });
            groups[number].rows += u64::from(copies);
            group_of.push(number);
        }
        (groups, group_of)
    }

    /// Return the hash of a row's group, or else of its prompt. If all rows go to one split, prompts were not
    /// hashed, and any number of the row will do.
    fn group_id(&self, log: &Log, line: usize, row: u32) -> u128 {
        let group = log.group.name(row as usize).map(|group| id128(group.as_bytes()));
        group.or(self.prompts[line]).unwrap_or_else(|| u128::from(row))
    }

    fn order(&self, log: &Log, ordinals: Ordinals, seed: u64) -> Result<Vec<u32>> {
        match ordinals {
            Ordinals::Ranks => Ok(write_order(&self.drawn(), &log.keys, seed)?),
            Ordinals::Digests => {
                // A draw without replacement: each row occurs once.
                let keys = Keys::given(self.rows.iter().map(|&row| log.key_by_digest(row)).collect());
                let places: Vec<u32> = (0..).take(self.rows.len()).collect();
                let order = write_order(&places, &keys, seed)?;
                Ok(order.into_iter().map(|place| self.rows[place as usize]).collect())
            }
        }
    }
}

/// Merge splits with too few rows into train; return the number of rows moved from each.
fn merge(groups: &[Group], split_of: &mut [usize], dealing: Dealing) -> [usize; 3] {
    let mut rows = [0; 3];
    for (group, &split) in groups.iter().zip(&*split_of) {
        rows[split] += usize::try_from(group.rows).unwrap_or(usize::MAX);
    }
    let goes = |split: usize| split > 0 && dealing.fractions[0] > 0.0 && rows[split] < dealing.fewest;
    let merged: [usize; 3] = std::array::from_fn(|split| if goes(split) { rows[split] } else { 0 });
    for split in split_of.iter_mut().filter(|split| merged[**split] > 0) {
        *split = 0;
    }
    merged
}
