//! Where a drawn row goes: its place in the file, and its split. Both follow from (seed, key) alone.

use crate::check::{check_finite, check_not_negative};
use crate::error::{Error, Result};
use crate::keys::Keys;
use crate::rng::{Key, Purpose, uniform};

/// How far the fractions of a split may be from 1 in sum: 0.7 + 0.2 + 0.1 is not 1 in floats.
const SLACK: f64 = 1e-9;

/// Copies of a row are told apart by this bit of the ordinal and those above: no log has so many records of one id.
const COPIES_FROM: u32 = 40;

/// The drawn rows in the order they are written: by a second uniform number of each record, then by row.
///
/// A row that stands several times in a row is written as often, each time by a number of its own.
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

/// The split (train, valid, test) that `key` falls into: 0, 1 or 2.
///
/// ```text
/// the smallest s with u < fraction_0 + ... + fraction_s,    u = uniform(seed, key, Split)
/// ```
///
/// Use the key of the group, not of the row, so that rollouts of one prompt stay on one side. A split with
/// fraction 0 gets nothing. Check the fractions once with [`check_fractions`]. Cost: one hash.
#[must_use]
pub fn split_of(seed: u64, key: Key, fractions: &[f64; 3]) -> usize {
    let u = uniform(seed, key, Purpose::Split);
    let mut below = 0.0;
    for (split, fraction) in fractions.iter().enumerate() {
        below += fraction;
        if u < below {
            return split;
        }
    }
    // Fractions may add up to a hair less than 1: that hair belongs to the last split that is not empty.
    fractions.iter().rposition(|&fraction| fraction > 0.0).unwrap_or(0)
}

/// Refuses fractions that are no split: each has to be zero or more, and together they have to be 1.
///
/// # Errors
/// [`Error::NotFinite`], [`Error::Negative`], or [`Error::Total`] for a sum further than 1e-9 from 1.
pub fn check_fractions(fractions: &[f64; 3]) -> Result<()> {
    check_finite("split fraction", fractions)?;
    fractions.iter().try_for_each(|&fraction| check_not_negative("split fraction", fraction))?;
    let got: f64 = fractions.iter().sum();
    if (got - 1.0).abs() <= SLACK { Ok(()) } else { Err(Error::Total { what: "split fractions", got }) }
}
