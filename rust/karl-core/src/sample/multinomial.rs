//! Drawing with replacement by k independent points.
//!
//! ```text
//! draw j falls on the row that covers u_j of the total weight,    u_j = uniform(seed, Key { id: j, ordinal: a }, Point)
//! ```
//!
//! The copies of the rows are multinomial: a row of probability p is drawn `Binomial(k, p)` times. `a` counts how often
//! draws were made before, because some fell on rows that could not be used.
//!
//! Not by conditional binomials, one a row, which need no sort: their inverses are hard to pin to the last bit.

use super::systematic::part;
use crate::rng::{Key, Purpose, uniform};

/// Where draw `draw` falls on a line of integer length `total`, having been made `before` times.
pub(super) fn point(total: u128, draw: usize, before: u32, seed: u64) -> u128 {
    part(total, uniform(seed, Key { id: draw as u128, ordinal: u64::from(before) }, Purpose::Point))
}
