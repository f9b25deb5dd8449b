//! Passes over rows that draw without replacement: most rows cost one hash and a comparison, on whole vectors of rows.
//!
//! A key takes two logarithms, and few of the rows of a draw come near the least key that matters. So each point says of a
//! row by its size and its hash alone whether its key could be that large; what says yes, and little else, gets its key.
//!
//! The rejected alternative jumps over runs of rows by exponential waiting times (A-ExpJ): it needs fewer numbers, but they
//! belong to the order of the rows, and a draw has to follow the records alone.
//!
//! Speed: most rows are rejected by their uniform alone, without a logarithm. Record: `benches/record/kernels.json`, "k
//! of n without replacement".
use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::{Keyed, Ranked};
use crate::group::numbered;

/// Rows that are looked at together: their columns stay in the first cache.
const CHUNK: usize = 256;

/// A law that gives each row a key.
pub(super) trait Race: Send + Sync {
    /// Return the number of rows.
    fn rows(&self) -> usize;

    /// Return the sizes (weights or log weights) of a run of rows: where they lie, or in `room`, which is as long.
    fn sizes<'a>(&'a self, rows: Range<usize>, room: &'a mut [f64]) -> &'a [f64];

    /// The hashes of a run of rows, which is as long as `out`.
    fn hashes(&self, rows: Range<usize>, out: &mut [u64]);

    /// Return whether a row of this size and hash can have a key of `least` or more, without false negatives.
    fn near(size: f64, hash: u64, least: f64) -> bool;

    /// Return the key of a row; minus infinity for one that is never drawn.
    fn key(&self, row: usize) -> f64;
}

impl<R: Race> Keyed for R {
    fn rows(&self) -> usize {
        Race::rows(self)
    }

    fn key(&self, row: usize) -> f64 {
        Race::key(self, row)
    }

    fn scan(&self, block: Range<usize>, least: f64, found: &mut Vec<Ranked>) {
        Arch::new().dispatch(Pass { race: self, block, least, found });
    }
}

/// One pass over a block of rows.
struct Pass<'a, R> {
    race: &'a R,
    block: Range<usize>,
    least: f64,
    found: &'a mut Vec<Ranked>,
}

impl<R: Race> WithSimd for Pass<'_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let (mut room, mut hashes, mut near) = ([0.0; CHUNK], [0; CHUNK], [0; CHUNK]);
        for first in self.block.clone().step_by(CHUNK) {
            let rows = first..self.block.end.min(first + CHUNK);
            let count = rows.len();
            self.race.hashes(rows.clone(), &mut hashes[..count]);
            let sizes = self.race.sizes(rows, &mut room[..count]);
            for ((near, &size), &hash) in near.iter_mut().zip(sizes).zip(&hashes) {
                *near = u8::from(R::near(size, hash, self.least));
            }
            // Past the last row stand those of the chunk before.
            near[count..].fill(0);
            visit(&near, |at| push(self.race, first + at, self.least, self.found));
        }
    }
}

/// Call `one` with the places that are not zero; eight zeros cost one comparison.
#[inline(always)]
fn visit(near: &[u8; CHUNK], mut one: impl FnMut(usize)) {
    for (word, bytes) in near.as_chunks::<8>().0.iter().enumerate() {
        let mut left = u64::from_le_bytes(*bytes);
        while left != 0 {
            one(word * 8 + left.trailing_zeros() as usize / 8);
            left &= left - 1;
        }
    }
}

#[inline(never)]
fn push<R: Race>(race: &R, row: usize, least: f64, found: &mut Vec<Ranked>) {
    let key = Race::key(race, row);
    if key >= least && key > f64::NEG_INFINITY {
        found.push(Ranked { key, row: numbered(row) });
    }
}

/// Steps of a power of two that [`reach`] tells apart.
const FINE: f64 = (1_u64 << 20) as f64;

/// Adding this leaves a number's multiples of 2^-20 in the low half of its bits.
const SHIFT: f64 = 1.5 * (1_u64 << 52) as f64 / FINE;

/// Return whether `log + gumbel(u)` can be `least` or more, without a logarithm and without a branch.
///
/// `-ln u >= 1 - u`, so that this needs `1 - u <= exp(log - least)`, and `2^y <= 2^floor(y) (1 + y - floor(y))`,
/// which are the bits of `y` read as a float. The slack covers the roundings of `y`, of the logarithms and of the
/// addition.
#[allow(clippy::manual_clamp, reason = "clamp would keep NaN")]
#[inline(always)]
pub(super) fn reach(log: f64, hash: u64, least: f64) -> bool {
    let slack = 1e-5 + least.abs() * f64::EPSILON;
    let power = (log - least + slack) * std::f64::consts::LOG2_E + 1023.0;
    // NaN, from a row without weight where no key is too small, becomes 0.
    let most = f64::from_bits((power.max(0.0).min(2046.0) + SHIFT).to_bits() << 32);
    let above = f64::from_bits(hash >> 12 | 1.0_f64.to_bits());
    2.0 - above - 0.5 * f64::EPSILON <= most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{gumbel, open};

    /// Hashes at the ends and between, so that `1 - u` has every size.
    fn hashes() -> impl Iterator<Item = u64> {
        let ends = (0..64).flat_map(|bit| [u64::MAX >> bit, u64::MAX << bit, 1 << bit, !(1 << bit)]);
        ends.chain((0..20_000_u64).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    #[test]
    fn no_row_that_reaches_the_bar_is_passed_over_and_few_others_are_not() {
        for size in [0.0, -3.25, 1e6, -1e12, 1e17] {
            let (mut passed, mut wrong) = (0, 0);
            for (at, hash) in hashes().enumerate() {
                let key: f64 = size + gumbel(open(hash));
                let below = key - f64::from(u32::try_from(at % 7).unwrap_or(0)) * 0.3;
                assert!(reach(size, hash, key) && reach(size, hash, below), "{size} {hash:x}");
                passed += u32::from(reach(size, hash, size + 5.0));
                wrong += u32::from(key < size + 5.0 && reach(size, hash, size + 5.0));
            }
            assert!(size.abs() > 1e12 || wrong * 4 < passed, "{wrong} of {passed} at {size}");
        }
    }

    #[test]
    fn a_row_without_weight_reaches_nothing() {
        for least in [f64::NEG_INFINITY, -1e300, 0.0] {
            assert!(!hashes().any(|hash| reach(f64::NEG_INFINITY, hash, least)));
        }
        assert!(hashes().all(|hash| reach(-7.0, hash, f64::NEG_INFINITY)), "and no bar lets all others pass");
    }
}
