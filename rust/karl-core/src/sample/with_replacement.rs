//! Draws with replacement: points on the cumulative weights of the rows in row order.
//!
//! ```text
//! systematic     points (u + j) / k of the total weight, j = 0 .. k-1,    u = uniform(seed, Key { id: 0, ordinal: a }, Point)
//! multinomial    point u_j of the total weight for draw j,                u_j = uniform(seed, Key { id: j, ordinal: a }, Point)
//! ```
//!
//! Weights become integers, multiples of 2^-62, each by itself; their running sums are exact. The row under a point therefore
//! does not depend on shards or threads, and systematic counts keep their bounds to the last point. `a` counts the earlier
//! draws that were made again because their row could not be used.
//!
//! Systematic: a row of probability p is drawn `floor(k p)` or `ceil(k p)` times, and `k p` times on average; no sampler of k
//! points has counts closer to their expectation. Draws of different rows depend on each other through the row order, and some
//! pairs of rows are never drawn together. Where m points fall on unusable rows, they are drawn again as m points over the
//! other rows, and the bounds are those of the parts. References: Madow 1949; Carpenter et al. 1999 (resampling).
//!
//! Multinomial: a row of probability p is drawn `Binomial(k, p)` times. Not by conditional binomials, one a row, which need no
//! sort: their inverses are hard to pin to the last bit.

use std::collections::BTreeSet;
use std::ops::Range;

use super::{Sampler, Weighted};
use crate::error::{Error, Result};
use crate::group::{check_rows, numbered};
use crate::numeric::parallel::{self, BLOCK};
use crate::rng::{Key, Purpose, uniform};

/// The largest weight of a row, 1, as an integer. 2^32 rows of it, times 2^32 points, fit 128 bits.
const ONE: f64 = (1_u64 << 62) as f64;

/// A row that was drawn, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The row.
    pub row: u32,
    /// Number of times that it was drawn: once or more.
    pub count: u32,
}

/// A draw with replacement that can be made again without rows that turned out to be unusable.
///
/// ```
/// use karl_core::sample::{Copies, Copy, Sampler, Weighted};
/// use karl_core::Keys;
/// let (logs, keys) = ([0.0, f64::NEG_INFINITY, 0.0], Keys::of_indices(3));
/// let mut copies = Copies::new(Weighted::by_logs(&logs, &keys)?, Sampler::Systematic, 10, 7, 1)?;
/// assert_eq!(copies.rows(), [Copy { row: 0, count: 5 }, Copy { row: 2, count: 5 }]);
/// copies.replace(&[0]);
/// assert_eq!(copies.rows(), [Copy { row: 2, count: 10 }]);
/// # Ok::<(), karl_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Copies<'a> {
    line: Cumulative<'a>,
    law: Law,
    seed: u64,
    count: usize,
    /// The row of each draw.
    draws: Vec<u32>,
    /// Number of earlier replacements of draws.
    before: u32,
    rows: Vec<Copy>,
}

impl<'a> Copies<'a> {
    /// Draw `count` times.
    ///
    /// Cost: two passes over the rows, one `exp` each, and a sort of the points.
    ///
    /// # Errors
    /// [`Error::Replacement`] for a sampler without replacement; [`Error::Length`] for more rows or draws than a `u32` can
    /// count.
    pub fn new(
        rows: Weighted<'a>,
        sampler: Sampler,
        count: usize,
        seed: u64,
        threads: usize,
    ) -> Result<Self> {
        let law = Law::of(sampler)?;
        check_rows(rows.len())?;
        check_rows(count)?;
        let line = Cumulative::new(rows, threads);
        let mut copies = Self { line, law, seed, count, draws: Vec::new(), before: 0, rows: Vec::new() };
        copies.draw_all();
        Ok(copies)
    }

    /// Return the rows that were drawn, in row order.
    #[must_use]
    pub fn rows(&self) -> &[Copy] {
        &self.rows
    }

    /// Return the row of each draw in row order: copies stand side by side.
    #[must_use]
    pub fn drawn(&self) -> Vec<u32> {
        let copies = |copy: &Copy| std::iter::repeat_n(copy.row, copy.count as usize);
        self.rows.iter().flat_map(copies).collect()
    }

    /// Give rows weight zero, and repeat the draws that had fallen on them.
    ///
    /// Every other row is then drawn in proportion to its weight, on average: it keeps what it had, and has its share of
    /// what is drawn again. All draws anew with the same uniform would not do: where that had fallen says something of
    /// where it falls among the others.
    pub fn replace(&mut self, failed: &[u32]) {
        self.line.without.extend(failed);
        self.line.measure();
        self.before += 1;
        let out = |&draw: &usize| self.line.without.contains(&self.draws[draw]);
        let again: Vec<usize> = (0..self.draws.len()).filter(out).collect();
        if self.line.total == 0 {
            self.draws.clear();
        } else {
            let rows = self.line.locate(&self.points(&again));
            again.into_iter().zip(rows).for_each(|(draw, row)| self.draws[draw] = row);
        }
        self.tally();
    }

    fn draw_all(&mut self) {
        if self.line.total > 0 {
            let all: Vec<usize> = (0..self.count).collect();
            self.draws = self.line.locate(&self.points(&all));
        }
        self.tally();
    }

    /// Return the positions of these draws.
    fn points(&self, draws: &[usize]) -> Vec<u128> {
        let total = self.line.total;
        match self.law {
            Law::Systematic => systematic_points(total, draws.len(), self.before, self.seed),
            Law::Multinomial => {
                draws.iter().map(|&draw| multinomial_point(total, draw, self.before, self.seed)).collect()
            }
        }
    }

    fn tally(&mut self) {
        let mut rows = self.draws.clone();
        rows.sort_unstable();
        let copy = |run: &[u32]| Copy { row: run[0], count: u32::try_from(run.len()).unwrap_or(u32::MAX) };
        self.rows = rows.chunk_by(|a, b| a == b).map(copy).collect();
    }
}

/// The law of the points: one for each sampler with replacement.
#[derive(Clone, Copy, Debug)]
enum Law {
    Systematic,
    Multinomial,
}

impl Law {
    fn of(sampler: Sampler) -> Result<Self> {
        match sampler {
            Sampler::Systematic => Ok(Self::Systematic),
            Sampler::Multinomial => Ok(Self::Multinomial),
            Sampler::Gumbel | Sampler::WeightedReservoir | Sampler::Reservoir | Sampler::All => {
                Err(Error::Replacement { what: sampler.name(), replaces: false })
            }
        }
    }
}

/// Return the weight of each row as an integer.
pub(super) fn whole_weights(rows: Weighted<'_>) -> Vec<u64> {
    let line = Cumulative::new(rows, 1);
    (0..rows.len()).map(|row| line.weight(row)).collect()
}

/// The weights of the rows laid end to end.
#[derive(Debug)]
struct Cumulative<'a> {
    rows: Weighted<'a>,
    threads: usize,
    /// Rows with their weight set to zero.
    without: BTreeSet<u32>,
    /// The largest log weight, so that the largest weight is 1.
    top: f64,
    /// First position of each block of rows.
    starts: Vec<u128>,
    total: u128,
}

impl<'a> Cumulative<'a> {
    fn new(rows: Weighted<'a>, threads: usize) -> Self {
        let tops = parallel::map(rows.len(), threads, |block| {
            block.map(|row| rows.log(row)).fold(f64::NEG_INFINITY, f64::max)
        });
        let top = tops.into_iter().fold(f64::NEG_INFINITY, f64::max);
        let mut line = Self { rows, threads, without: BTreeSet::new(), top, starts: Vec::new(), total: 0 };
        line.measure();
        line
    }

    /// Lay the weights out anew.
    fn measure(&mut self) {
        let lengths = parallel::map(self.rows.len(), self.threads, |block| {
            block.map(|row| u128::from(self.weight(row))).sum::<u128>()
        });
        self.total = 0;
        self.starts = lengths
            .into_iter()
            .map(|length| {
                self.total += length;
                self.total - length
            })
            .collect();
    }

    fn weight(&self, row: usize) -> u64 {
        if !self.without.is_empty() && self.without.contains(&(numbered(row))) {
            return 0;
        }
        let weight = libm::exp(self.rows.log(row) - self.top) * ONE;
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 0 to 2^62; NaN is 0"
        )]
        let weight = weight as u64;
        weight
    }

    /// Return the row on which each point falls; a point lies below the total.
    fn locate(&self, points: &[u128]) -> Vec<u32> {
        let mut order: Vec<u32> = (0..numbered(points.len())).collect();
        order.sort_unstable_by_key(|&at| points[at as usize]);
        let found = parallel::map(self.rows.len(), self.threads, |block| {
            let start = self.starts[block.start / BLOCK];
            let end = self.starts.get(block.start / BLOCK + 1).copied().unwrap_or(self.total);
            let from = order.partition_point(|&at| points[at as usize] < start);
            let to = order.partition_point(|&at| points[at as usize] < end);
            self.place_points(block, start, order[from..to].iter().map(|&at| points[at as usize]))
        });
        let mut rows = vec![0; points.len()];
        for (at, row) in order.into_iter().zip(found.into_iter().flatten()) {
            rows[at as usize] = row;
        }
        rows
    }

    /// Return the rows of ascending points that fall on one block.
    fn place_points(
        &self,
        block: Range<usize>,
        start: u128,
        mut points: impl ExactSizeIterator<Item = u128>,
    ) -> Vec<u32> {
        let mut found = Vec::with_capacity(points.len());
        let mut point = points.next();
        let mut end = start;
        for row in block {
            if point.is_none() {
                break;
            }
            end += u128::from(self.weight(row));
            while point.is_some_and(|point| point < end) {
                found.push(numbered(row));
                point = points.next();
            }
        }
        found
    }
}

/// Return the points of a systematic draw on a line of integer length `total`, ascending.
///
/// A row that covers `[start, end)` gets the points below its end that are not below its start. Division rounds down, and
/// for integers `end > x` is `end > floor(x)`, so the counts are those of the exact points.
fn systematic_points(total: u128, count: usize, before: u32, seed: u64) -> Vec<u128> {
    let first = part(total, uniform(seed, Key { id: 0, ordinal: u64::from(before) }, Purpose::Point));
    let point = |at: usize| (at as u128 * total + first) / count as u128;
    (0..count).map(point).collect()
}

/// Return the point of multinomial draw `draw` on a line of integer length `total`, drawn `before` times already.
fn multinomial_point(total: u128, draw: usize, before: u32, seed: u64) -> u128 {
    part(total, uniform(seed, Key { id: draw as u128, ordinal: u64::from(before) }, Purpose::Point))
}

/// `floor(u * total)`, exactly: u is a multiple of 2^-53.
pub(super) fn part(total: u128, u: f64) -> u128 {
    const BITS: u32 = 53;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an integer below 2^53")]
    let u = u128::from((u * (1_u64 << BITS) as f64) as u64);
    let (high, low) = (total >> BITS, total & ((1 << BITS) - 1));
    high * u + ((low * u) >> BITS)
}
