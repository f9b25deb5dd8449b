//! The rows of a draft dealt into train, valid and test.

use karl_core::Keys;
use karl_core::order::{check_fractions, split_of, write_order};
use karl_core::rng::{Key, id128};
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

impl Draft {
    /// The lines of each split (train, valid, test), each in the order of a second uniform of (seed, id); a
    /// line stands as often as its row was drawn.
    ///
    /// A split other than train with fewer than `fewest` rows goes to train, unless that is to have none: trainers refuse
    /// one smaller than their batch. The second result is how many rows went.
    ///
    /// # Errors
    /// [`Error::Draw`](crate::Error::Draw) for fractions that are none.
    pub fn split(
        &self,
        log: &Log,
        ordinals: Ordinals,
        seed: u64,
        fractions: &[f64; 3],
        fewest: usize,
    ) -> Result<([Vec<usize>; 3], [usize; 3])> {
        check_fractions(fractions)?;
        let line_of: FxHashMap<u32, usize> =
            self.rows.iter().enumerate().map(|(line, &row)| (row, line)).collect();
        let order = self.order(log, ordinals, seed)?;
        // Every number is below 1: where train has it all, no group need be looked up.
        let whole = fractions[0] >= 1.0;
        let of =
            |&row: &u32| if whole { 0 } else { split_of(seed, group_key(log, row, ordinals), fractions) };
        let splits: Vec<usize> = order.iter().map(of).collect();
        let sizes = [0, 1, 2].map(|split| splits.iter().filter(|&&one| one == split).count());
        let goes = |split: usize| split > 0 && fractions[0] > 0.0 && sizes[split] < fewest;
        let merged = std::array::from_fn(|split| if goes(split) { sizes[split] } else { 0 });
        let mut lines: [Vec<usize>; 3] = Default::default();
        for (row, split) in order.into_iter().zip(splits) {
            lines[if merged[split] > 0 { 0 } else { split }].push(line_of[&row]);
        }
        Ok((lines, merged))
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

/// All rollouts of one group fall into one split; a record without a group stands for itself.
fn group_key(log: &Log, row: u32, ordinals: Ordinals) -> Key {
    let own = || match ordinals {
        Ordinals::Ranks => log.keys.get(row as usize),
        Ordinals::Digests => log.key_by_digest(row),
    };
    log.group.name(row as usize).map_or_else(own, |group| Key { id: id128(group.as_bytes()), ordinal: 0 })
}
