//! The rows of a draft dealt into train, valid and test.

use karl_core::Keys;
use karl_core::output_order::write_order;
use karl_core::rng::{Key, id128};
use karl_core::split::{Group, split};
use rustc_hash::FxHashMap;

use super::Draft;
use crate::error::Result;
use crate::log::Log;

/// What tells records of one id apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordinals {
    /// Their rank by the hash of their bytes.
    Ranks,
    /// That hash itself: all that is known in one pass.
    Digests,
}

/// How to deal rows into splits.
#[derive(Clone, Copy, Debug)]
pub struct Dealing {
    /// What each split (train, valid, test) is to have of the rows.
    pub fractions: [f64; 3],
    /// A split other than train with fewer rows goes to train, unless that is to have none: trainers refuse one smaller
    /// than their batch.
    pub fewest: usize,
    /// Which of all deals.
    pub seed: u64,
}

/// The rows of each split (train, valid, test).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Splits {
    /// The lines, each in the order of a second uniform of (seed, id); a line stands as often as its row was drawn.
    pub lines: [Vec<usize>; 3],
    /// How many rows each was to have.
    pub quotas: [f64; 3],
    /// How many groups each has, or prompts where rows have no group.
    pub groups: [usize; 3],
    /// How many rows of it went to train because they were too few.
    pub merged: [usize; 3],
}

impl Draft {
    /// Deals the rows into splits; rows of a group, or of a prompt where there is no group, fall into one.
    ///
    /// # Errors
    /// [`Error::Draw`](crate::Error::Draw) for fractions that are none.
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

    /// The groups that rows fall into splits by, and which of them each line belongs to.
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

    /// The hash of a row's group, or else of its prompt. Where all rows are of one split no prompt was looked for, and any
    /// number of the row will do.
    fn group_id(&self, log: &Log, line: usize, row: u32) -> u128 {
        let group = log.group.name(row as usize).map(|group| id128(group.as_bytes()));
        group.or(self.prompts[line]).unwrap_or_else(|| u128::from(row))
    }

    fn order(&self, log: &Log, ordinals: Ordinals, seed: u64) -> Result<Vec<u32>> {
        match ordinals {
            Ordinals::Ranks => Ok(write_order(&self.drawn(), &log.keys, seed)?),
            Ordinals::Digests => {
                // A draw without replacement: each row stands once.
                let keys = Keys::given(self.rows.iter().map(|&row| log.key_by_digest(row)).collect());
                let places: Vec<u32> = (0..).take(self.rows.len()).collect();
                let order = write_order(&places, &keys, seed)?;
                Ok(order.into_iter().map(|place| self.rows[place as usize]).collect())
            }
        }
    }
}

/// Gives train the splits that have too few rows; how many each had.
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
