//! Drawing without replacement by Gumbel keys.
//!
//! Adding an independent Gumbel number to each log weight and sorting gives, exactly, the law of drawing one
//! row after another in proportion to the weights of what is left (Plackett-Luce):
//!
//! ```text
//! P(i_1, ..., i_k) = prod_j w_{i_j} / (W - w_{i_1} - ... - w_{i_{j-1}})
//! ```
//!
//! Why: `exp(-key_i)` is an exponential waiting time of rate `w_i`, and such a race has no memory. The probability
//! that a row is among the k is then *not* k times its probability `p_i`: for weights 1, 2, 3, 4 and k = 2 it is
//! 0.2345, 0.4413, 0.6083, 0.7159, not 0.2, 0.4, 0.6, 0.8.
//!
//! Not the equal keys `u^(1/w)` of Efraimidis and Spirakis: they underflow to 0 for w below 1e-3 and round to
//! 1 for w above 1e15, where log weights have no such range.

use std::ops::Range;

use super::threshold_scan::{Race, reach};
use super::{Sampler, Weighted};
use crate::error::Result;
use crate::rng::keys::Keys;
use crate::rng::xxh3::Hashes;
use crate::rng::{Key, Purpose, gumbel, uniform};

/// Return the key of each row: `key_i = log w_i + g_i`, `g_i = -ln(-ln u_i)`, `u_i` from (seed, key of i).
///
/// A row of log weight minus infinity has key minus infinity. Because u depends on the record alone, the k
/// largest keys of two shards together are the k largest of the whole. Shapes: all `[B]`. Cost: one hash and
/// two `log` a row. References: Kool et al. 2019 (arXiv:1903.06059); Vieira 2014.
///
/// # Errors
/// [`Error::Length`](crate::Error::Length) where log weights and keys differ in rows;
/// [`Error::NotFinite`](crate::Error::NotFinite) for a log weight that is NaN or plus infinity.
pub fn keys(log_weights: &[f64], keys: &Keys, seed: u64) -> Result<Vec<f64>> {
    Weighted::by_logs(log_weights, keys)?;
    // No branch for weight zero: minus infinity plus a finite number stays what it is.
    let draw = |(&log, key)| log + gumbel(uniform(seed, key, Purpose::Draw));
    Ok(log_weights.iter().zip(keys.iter()).map(draw).collect())
}

/// Weighted rows, by which of their log weights they race.
pub(super) struct Waiting<'a> {
    rows: Weighted<'a>,
    seed: u64,
    hashes: Hashes,
    own: bool,
}

impl<'a> Waiting<'a> {
    /// `own` takes the log weights before any sum over the log is taken from them.
    pub(super) fn new(rows: Weighted<'a>, seed: u64, own: bool) -> Self {
        Self { rows, seed, hashes: Hashes::new(seed, Purpose::Draw), own }
    }
}

impl Race for Waiting<'_> {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    #[inline(always)]
    fn sizes<'a>(&'a self, rows: Range<usize>, room: &'a mut [f64]) -> &'a [f64] {
        self.rows.logs(rows, self.own, room)
    }

    #[inline(always)]
    fn hashes(&self, rows: Range<usize>, out: &mut [u64]) {
        self.rows.hash(rows, &self.hashes, out);
    }

    #[inline(always)]
    fn near(log: f64, hash: u64, least: f64) -> bool {
        reach(log, hash, least)
    }

    fn key(&self, row: usize) -> f64 {
        let log = if self.own { self.rows.own_log(row) } else { self.rows.log(row) };
        log + gumbel(uniform(self.seed, self.rows.key(row), Purpose::Draw))
    }
}

/// More than any Gumbel number of a [`uniform`], which ends at 36.74.
const MOST: f64 = 37.0;

/// Return an upper bound of `gumbel(u)`, without a logarithm: `-ln u >= 1 - u`, and the exponent of `1 - u` bounds
/// its logarithm.
///
/// A hundred-millionth on top covers the roundings of both sides.
#[must_use]
pub fn bound(u: f64) -> f64 {
    let exponent = ((1.0 - u).to_bits() >> 52) as f64 - 1023.0;
    exponent * -std::f64::consts::LN_2 + 1e-8
}

/// Return the key of a row of this log weight, where it is `least` or more; most rows that fall short cost no
/// logarithm.
pub(crate) fn key_from(log: f64, seed: u64, key: impl FnOnce() -> Key, least: f64) -> Option<f64> {
    if log == f64::NEG_INFINITY || log + MOST < least {
        return None;
    }
    let u = uniform(seed, key(), Purpose::Draw);
    // Adding rounds alike on both sides, so a bound that falls short means that the key does.
    if log + bound(u) < least {
        return None;
    }
    Some(log + gumbel(u)).filter(|&key| key >= least)
}

/// Return the probability that a drawn row was drawn, given the keys of all other rows: what an estimate divides by.
///
/// ```text
/// q_i = P(key_i > threshold) = 1 - exp(-w_i exp(-threshold)),    sum over drawn i of f_i / q_i is unbiased
/// ```
///
/// `threshold` is the key of the first row not drawn ([`Ranking::threshold`](super::Ranking::threshold)); where
/// there is none, every row was drawn, and q is 1. Not valid for rows that a cap per group has passed over.
/// References: Cohen and Kaplan 2007 (bottom-k sketches); Kool et al. 2019, section 4.
#[must_use]
pub fn inclusion(log_weight: f64, threshold: Option<f64>) -> f64 {
    threshold.map_or(1.0, |threshold| -libm::expm1(-libm::exp(log_weight - threshold)))
}

/// Rows drawn without replacement, and what an estimate from them needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// The rows by falling key. `[k]`
    pub rows: Vec<u32>,
    /// The key of the first row not drawn; none where all were.
    pub threshold: Option<f64>,
    /// The [`inclusion`] of each row drawn. `[k]`
    pub inclusion: Vec<f64>,
}

/// Draw k rows with their inclusion probabilities given the threshold. Cost: that of a draw of k + 1.
///
/// # Errors
/// [`Error::Length`](crate::Error::Length) for more rows than a `u32` can count.
pub fn draw_with_inclusion(rows: Weighted<'_>, k: usize, seed: u64, threads: usize) -> Result<Drawn> {
    let mut ranking = rows.ranking(Sampler::Gumbel, seed, threads)?;
    let drawn = ranking.take(k);
    let threshold = ranking.threshold();
    let inclusion = drawn.iter().map(|&row| inclusion(rows.log(row as usize), threshold)).collect();
    Ok(Drawn { rows: drawn, threshold, inclusion })
}
