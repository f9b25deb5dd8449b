//! Drawing with replacement by k evenly spaced points.
//!
//! ```text
//! points (u + j) / k of the total weight, j = 0 .. k-1,    u = uniform(seed, Key { id: 0, ordinal: a }, Point)
//! ```
//!
//! A row of probability p is drawn `floor(k p)` or `ceil(k p)` times, and `k p` times on average: no sampler of k points
//! has copies nearer to their expectation. Draws of different rows depend on each other, through the order of the rows;
//! pairs of rows exist that are never drawn together. `a` is 0; where m points fell on rows that cannot be used, they are
//! thrown again as a draw of m of the other rows with `a` one more, and the bounds are those of the parts. References: Madow 1949; Carpenter et al. 1999 (resampling).

use crate::rng::{Key, Purpose, uniform};

/// The points on a line of integer length `total`, ascending.
///
/// A row that covers `[start, end)` gets the points below its end that are not below its start. Division rounds down, and
/// for integers `end > x` is `end > floor(x)`, so the counts are those of the exact points.
pub(super) fn points(total: u128, count: usize, before: u32, seed: u64) -> Vec<u128> {
    let first = part(total, uniform(seed, Key { id: 0, ordinal: u64::from(before) }, Purpose::Point));
    let point = |at: usize| (at as u128 * total + first) / count as u128;
    (0..count).map(point).collect()
}

/// `floor(u * total)`, exactly: u is a multiple of 2^-53.
pub(super) fn part(total: u128, u: f64) -> u128 {
    const BITS: u32 = 53;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an integer below 2^53")]
    let u = u128::from((u * (1_u64 << BITS) as f64) as u64);
    let (high, low) = (total >> BITS, total & ((1 << BITS) - 1));
    high * u + ((low * u) >> BITS)
}
