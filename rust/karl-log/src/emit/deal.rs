//! The rows of a draft dealt into train, valid and test.

use std::collections::HashMap;

use karl_core::order::{check_fractions, split_of, write_order};
use karl_core::rng::{Key, id128};

use super::Draft;
use crate::error::Result;
use crate::log::Log;

impl Draft {
    /// The lines of each split (train, valid, test), each in the order of a second uniform of (seed, id); a
    /// line stands as often as its row was drawn.
    ///
    /// A split other than train with fewer than `fewest` rows goes to train: trainers refuse one smaller than
    /// their batch. The second result is how many rows went.
    ///
    /// # Errors
    /// [`Error::Draw`](crate::Error::Draw) for fractions that are none.
    pub fn split(
        &self,
        log: &Log,
        seed: u64,
        fractions: &[f64; 3],
        fewest: usize,
    ) -> Result<([Vec<usize>; 3], [usize; 3])> {
        check_fractions(fractions)?;
        let line_of: HashMap<u32, usize> =
            self.rows.iter().enumerate().map(|(line, &row)| (row, line)).collect();
        let order = write_order(&self.drawn(), &log.keys, seed)?;
        let of = |row: u32| split_of(seed, group_key(log, row as usize), fractions);
        let mut sizes = [0; 3];
        for &row in &order {
            sizes[of(row)] += 1;
        }
        let merged =
            std::array::from_fn(|split| if split > 0 && sizes[split] < fewest { sizes[split] } else { 0 });
        let mut lines: [Vec<usize>; 3] = Default::default();
        for row in order {
            let split = of(row);
            lines[if merged[split] > 0 { 0 } else { split }].push(line_of[&row]);
        }
        Ok((lines, merged))
    }
}

/// All rollouts of one group fall into one split; a record without a group stands for itself.
fn group_key(log: &Log, row: usize) -> Key {
    log.group
        .name(row)
        .map_or_else(|| log.keys.get(row), |group| Key { id: id128(group.as_bytes()), ordinal: 0 })
}
