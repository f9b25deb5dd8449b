//! Priority sampling: k rows from which the total weight of any set of rows can be estimated.
//!
//! ```text
//! q_i = w_i / u_i,   the k rows of the largest q,   tau = the next q,   estimate of row i: max(w_i, tau) if drawn, else 0
//! ```
//!
//! Each estimate is unbiased and estimates of two rows are uncorrelated, though k is fixed; the variance of their sum is at
//! most that of the best scheme for k - 1 rows. Every row's priority follows from its own weight and number, so the k + 1
//! largest of two shards together are those of the whole. References: Duffield, Lund and Thorup 2007; Szegedy 2006.
use std::ops::Range;

use super::threshold_scan::Race;
use super::{Estimated, Ranking};
use crate::check::{check_length, check_weights};
use crate::error::Result;
use crate::rng::keys::Keys;
use crate::rng::xxh3::Hashes;
use crate::rng::{Purpose, open};

/// Return the priority of a row; minus infinity without weight.
#[inline]
#[must_use]
pub fn priority(weight: f64, u: f64) -> f64 {
    if weight > 0.0 { weight / u } else { f64::NEG_INFINITY }
}

/// Draw k rows by priority, the largest first; all rows that have a weight where there are fewer.
///
/// Weights above 1e290 overflow their priorities. Shapes: all `[B]`. Cost: one pass, one hash and one division a row.
///
/// # Errors
/// [`Error::Weight`](crate::Error::Weight) for a weight that is negative, NaN or infinite;
/// [`Error::Length`](crate::Error::Length) where weights and keys differ in rows.
pub fn draw(weights: &[f64], k: usize, keys: &Keys, seed: u64, threads: usize) -> Result<Estimated> {
    check_weights(weights)?;
    check_length("keys", keys.len(), weights.len())?;
    let hashes = Hashes::new(seed, Purpose::Draw);
    let mut ranking = Ranking::of(Priorities { weights, keys, hashes }, threads)?;
    let rows = ranking.take(k);
    let threshold = ranking.threshold().unwrap_or(0.0);
    let estimates = rows.iter().map(|&row| weights[row as usize].max(threshold)).collect();
    Ok(Estimated { rows, threshold, estimates })
}

struct Priorities<'a> {
    weights: &'a [f64],
    keys: &'a Keys,
    hashes: Hashes,
}

impl Race for Priorities<'_> {
    fn rows(&self) -> usize {
        self.weights.len()
    }

    #[inline(always)]
    fn sizes<'a>(&'a self, rows: Range<usize>, _: &'a mut [f64]) -> &'a [f64] {
        &self.weights[rows]
    }

    #[inline(always)]
    fn hashes(&self, rows: Range<usize>, out: &mut [u64]) {
        self.keys.hash(rows, &self.hashes, out);
    }

    #[inline(always)]
    fn near(weight: f64, hash: u64, least: f64) -> bool {
        weight / open(hash) >= least
    }

    fn key(&self, row: usize) -> f64 {
        priority(self.weights[row], self.hashes.uniform(self.keys.get(row)))
    }
}
