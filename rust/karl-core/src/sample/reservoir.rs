//! Drawing without replacement by keys that know of one row alone, so that a stream needs a buffer of k rows and no more.
//!
//! *Reservoir*: the k rows with the smallest uniforms. All rows are alike, and each set of k has the same probability.
//!
//! *Weighted reservoir*: the k rows that come first in a race of exponential waiting times,
//!
//! ```text
//! t_i = -ln(u_i) / w_i,      w_i = exp(b s_i)      (Efraimidis and Spirakis 2006: u^(1/w), largest first)
//! ```
//!
//! compared by `-ln t_i = b s_i - ln(-ln u_i)`, which is the Gumbel key without log Z: the law, and with the same
//! seed and keys the rows, of [`gumbel`](super::gumbel). Not the classic reservoirs, which replace a random place of the buffer: those
//! follow the order of the stream, and a draw here follows the records alone.

use std::ops::Range;

use super::threshold_scan::Race;
use super::{Keyed, Ranked, Weighted};
use crate::group::numbered;
use crate::rng::xxh3::Hashes;
use crate::rng::{Purpose, open, uniform};

/// Rows by ascending uniform.
pub(super) struct Alike<'a> {
    rows: Weighted<'a>,
    seed: u64,
    hashes: Hashes,
}

impl<'a> Alike<'a> {
    pub(super) fn new(rows: Weighted<'a>, seed: u64) -> Self {
        Self { rows, seed, hashes: Hashes::new(seed, Purpose::Draw) }
    }
}

impl Race for Alike<'_> {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    #[inline(always)]
    fn sizes<'a>(&'a self, rows: Range<usize>, room: &'a mut [f64]) -> &'a [f64] {
        self.rows.logs(rows, true, room)
    }

    #[inline(always)]
    fn hashes(&self, rows: Range<usize>, out: &mut [u64]) {
        self.rows.hash(rows, &self.hashes, out);
    }

    #[inline(always)]
    fn near(log: f64, hash: u64, least: f64) -> bool {
        (log > f64::NEG_INFINITY) & (-open(hash) >= least)
    }

    fn key(&self, row: usize) -> f64 {
        if self.rows.own_log(row) == f64::NEG_INFINITY {
            return f64::NEG_INFINITY;
        }
        -uniform(self.seed, self.rows.key(row), Purpose::Draw)
    }
}

/// Every row that has a weight, in row order: equal keys.
pub(super) struct InOrder<'a>(Weighted<'a>);

impl<'a> InOrder<'a> {
    pub(super) fn new(rows: Weighted<'a>) -> Self {
        Self(rows)
    }
}

impl Keyed for InOrder<'_> {
    fn rows(&self) -> usize {
        self.0.len()
    }

    fn key(&self, row: usize) -> f64 {
        if self.0.log(row) > f64::NEG_INFINITY { 0.0 } else { f64::NEG_INFINITY }
    }

    fn scan(&self, block: Range<usize>, least: f64, found: &mut Vec<Ranked>) {
        let kept = block.filter(|&row| self.0.log(row) > f64::NEG_INFINITY && least <= 0.0);
        found.extend(kept.map(|row| Ranked { key: 0.0, row: numbered(row) }));
    }
}
