//! The place of a drawn row in its file. It follows from (seed, key) alone.

use crate::error::{Error, Result};
use crate::rng::keys::Keys;
use crate::rng::{Key, Purpose, uniform};

/// First bit of the ordinal that numbers the copies of a row: no log has so many records of one id.
const COPIES_FROM: u32 = 40;

/// Return the drawn rows in the order of writing: by a second uniform number of each record, then by row.
///
/// A row that is repeated in adjacent places is written as often, each copy by a number of its own.
///
/// A draw comes out best first; written that way, a trainer that reads in file order would see the best rows
/// first. Shapes: rows `[k]`, keys `[B]`. Cost: one hash a row and a sort.
///
/// # Errors
/// [`Error::Length`] for a row that has no key.
pub fn write_order(rows: &[u32], keys: &Keys, seed: u64) -> Result<Vec<u32>> {
    let mut placed = Vec::with_capacity(rows.len());
    for copies in rows.chunk_by(|a, b| a == b) {
        for (copy, &row) in (0..).zip(copies) {
            placed.push(place(row, copy, keys, seed)?);
        }
    }
    placed.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    Ok(placed.into_iter().map(|(_, row)| row).collect())
}

fn place(row: u32, copy: u64, keys: &Keys, seed: u64) -> Result<(f64, u32)> {
    let at = row as usize;
    if at >= keys.len() {
        return Err(Error::Length { what: "keys", got: keys.len(), wanted: at + 1 });
    }
    let Key { id, ordinal } = keys.get(at);
    Ok((uniform(seed, Key { id, ordinal: ordinal + (copy << COPIES_FROM) }, Purpose::Order), row))
}
