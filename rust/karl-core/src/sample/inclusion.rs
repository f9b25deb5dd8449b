//! The probability of each row to be among k drawn by Gumbel keys, over all draws (Plackett-Luce).
//!
//! Rows arrive in an exponential race of rates w; row i is drawn where fewer than k others came before it:
//!
//! ```text
//! P(i drawn) = integral over t of w_i exp(-w_i t) P(fewer than k of the others before t) dt
//! ```
//!
//! With `t = exp(s)` the integrand is analytic and falls off on both sides, so that the trapezoid rule converges faster than
//! any power of its step. The inner probability counts independent arrivals that differ in rate; it is built up by products
//! of `1 - p + p z`, never divided back, so that nothing cancels.
//!
//! What is sure is not integrated. Rows far above all others come first, those far below never matter, and at a node only
//! those count that may or may not have arrived; where the count of these is below or above k for sure, it is not built up.
//!
//! What an estimate from one draw divides by is another number, given the threshold of that draw:
//! [`gumbel::inclusion`](super::gumbel::inclusion).

use crate::check::{check_logs, check_range};
use crate::error::Result;
use crate::numeric::parallel::in_parts;
use crate::numeric::sum::sum;

/// Halving the step has to change no probability by more than this; the error is then far less.
const CLOSE: f64 = 1e-12;

/// Largest error of the sum of the probabilities, for each row drawn.
const SLACK: f64 = 1e-9;

/// The first step, and how often it is halved at most.
const STEP: f64 = 0.5;
const HALVINGS: u32 = 12;

/// Negative log of the probability below which an event is neglected.
const FAR: f64 = 40.0;

/// Numbers that nodes hold before they are added up, and nodes at most.
const HELD: usize = 1 << 20;
const NODES: usize = 1 << 12;

/// Work below this, in products of rows and k, is not worth a second thread.
const ALONE: usize = 1 << 12;

/// Return the inclusion probabilities of k of n rows without replacement, to 1e-12.
///
/// Adding a constant to every log weight changes nothing. A row of log weight minus infinity has 0; where no more than k rows
/// have a weight, each has 1. They add up to k. Shapes: `[B]`. Cost: a few hundred nodes of n exponentials; a dozen of them,
/// the fewer the larger k is, of `n k log n` multiplications. Reference: Efraimidis and Spirakis 2006; Kool et al. 2019
/// (arXiv:1903.06059).
///
/// ```
/// use karl_core::sample::inclusion::inclusion;
/// let found = inclusion(&[1.0, 2.0, 3.0, 4.0].map(f64::ln), 2, 1)?;
/// assert!((found[0] - 0.23452380952380952).abs() < 1e-12, "and not 0.2");
/// # Ok::<(), karl_core::Error>(())
/// ```
///
/// # Errors
/// [`Error::NotFinite`](crate::Error::NotFinite) for a log weight that is NaN or plus infinity;
/// [`Error::Range`](crate::Error::Range) where the probabilities found do not add up to k.
pub fn inclusion(log_weights: &[f64], k: usize, threads: usize) -> Result<Vec<f64>> {
    inclusion_while(log_weights, k, threads, || true).map(Option::unwrap_or_default)
}

/// [`inclusion`], or nothing once `goes_on` says so. It is asked several times a millisecond.
///
/// # Errors
/// As [`inclusion`].
pub fn inclusion_while(
    log_weights: &[f64],
    k: usize,
    threads: usize,
    goes_on: impl Fn() -> bool + Sync,
) -> Result<Option<Vec<f64>>> {
    check_logs("log_weights", log_weights)?;
    let mut rows: Vec<usize> =
        (0..log_weights.len()).filter(|&row| log_weights[row] > f64::NEG_INFINITY).collect();
    rows.sort_by(|&a, &b| log_weights[b].total_cmp(&log_weights[a]));
    let sorted: Vec<f64> = rows.iter().map(|&row| log_weights[row]).collect();
    let wanted = k.min(sorted.len());
    let found = of_sorted(&sorted, wanted, threads, &goes_on);
    if !goes_on() {
        return Ok(None);
    }
    let slack = SLACK * wanted as f64;
    let total = sum(found.iter().copied());
    check_range("sum of the inclusion probabilities", total, wanted as f64 - slack, wanted as f64 + slack)?;
    let mut out = vec![0.0; log_weights.len()];
    rows.into_iter().zip(found).for_each(|(row, probability)| out[row] = probability);
    Ok(Some(out))
}

/// Return the probabilities of the first rows; those of the others are 0.
///
/// Between two rows so far apart that each above arrives before each below, the draw falls into two.
fn of_sorted(logs: &[f64], k: usize, threads: usize, goes_on: &(impl Fn() -> bool + Sync)) -> Vec<f64> {
    let far = FAR + libm::log(logs.len().max(1) as f64);
    let mut found = Vec::new();
    for rows in logs.chunk_by(|above, below| above - below < far) {
        let left = k - found.len().min(k);
        if rows.len() <= left {
            found.resize(found.len() + rows.len(), 1.0);
        } else if left > 0 {
            let logs = rows.iter().map(|log| log - rows[0]).collect();
            found.extend(Arrivals { logs, k: left, far, goes_on }.integrate(threads));
            break;
        }
    }
    found
}

/// Rows by falling log rate, the first of which is 0, of which the first k to arrive are drawn.
struct Arrivals<'a, F> {
    logs: Vec<f64>,
    k: usize,
    /// Expected count above which an event is certain; below `exp(-far)` it never happens.
    far: f64,
    goes_on: &'a F,
}

/// The integrand at a node, of the rows from `first` on that are not sure.
struct QuadratureNode {
    first: usize,
    values: Vec<f64>,
}

impl<F: Fn() -> bool + Sync> Arrivals<'_, F> {
    /// Halve the step until it no longer matters.
    fn integrate(&self, threads: usize) -> Vec<f64> {
        let (from, to) = (-libm::ceil(self.far), libm::log(self.far) - self.logs[self.k]);
        let mut step = STEP;
        let mut total = self.sum(from, to, step, threads);
        for _ in 0..HALVINGS {
            let between = self.sum(from + 0.5 * step, to, step, threads);
            let apart = total.iter().zip(&between).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            total.iter_mut().zip(between).for_each(|(total, more)| *total += more);
            step *= 0.5;
            // Half the sum of both is the finer rule: it differs from the coarser by half of what they differ.
            if apart * step <= CLOSE || !(self.goes_on)() {
                break;
            }
        }
        total.into_iter().map(|total| (total * step).min(1.0)).collect()
    }

    /// Return the sum of the integrand over nodes, added in their order, so that it does not depend on threads.
    fn sum(&self, from: f64, to: f64, step: f64, threads: usize) -> Vec<f64> {
        let mut total = vec![0.0; self.logs.len()];
        let (count, room) =
            (nodes((to - from) / step), (HELD / self.logs.len()).max(threads).clamp(1, NODES));
        let threads = if self.logs.len() * self.k < ALONE { 1 } else { threads };
        for first in (0..count).step_by(room) {
            let part = |nodes: std::ops::Range<usize>| -> Vec<QuadratureNode> {
                nodes.map(|node| self.at(from + (first + node) as f64 * step)).collect()
            };
            for node in in_parts(room.min(count - first), threads, part).into_iter().flatten() {
                let rows = total[node.first..].iter_mut();
                rows.zip(node.values).for_each(|(total, value)| *total += value);
            }
            if !(self.goes_on)() {
                break;
            }
        }
        total
    }

    /// Return the integrand of every row at `exp(s)`: the density of its arrival times the chance of fewer than k
    /// others.
    fn at(&self, s: f64) -> QuadratureNode {
        let first = self.logs.partition_point(|log| log + s > libm::log(self.far));
        let end = self.logs.partition_point(|log| log + s > -self.far);
        let rates: Vec<f64> = self.logs[first..end].iter().map(|log| libm::exp(log + s)).collect();
        let fewer = if first < self.k { self.chances_of_fewer(&rates, self.k - first) } else { Vec::new() };
        let values = rates.iter().zip(fewer).map(|(rate, fewer)| rate * libm::exp(-rate) * fewer);
        QuadratureNode { first, values: values.collect() }
    }

    /// Return for each row the chance that fewer than k of the others have arrived; none where that does not happen.
    fn chances_of_fewer(&self, rates: &[f64], k: usize) -> Vec<f64> {
        let arrived: Vec<f64> = rates.iter().map(|rate| -libm::expm1(-rate)).collect();
        let expected = sum(arrived.iter().copied());
        let mut fewer = vec![1.0; rates.len()];
        if deviation(k, expected) > FAR {
            return if expected < k as f64 { fewer } else { Vec::new() };
        }
        let mut counts = vec![0.0; k];
        counts[0] = 1.0;
        self.fill_chances(&arrived, &counts, &mut fewer);
        fewer
    }

    /// Fill in for each row the chance that fewer than k of the others have arrived; `counts` holds the chances of 0 to k - 1
    /// arrivals among all rows that are not here.
    ///
    /// Each half of the rows goes on with the other half counted.
    fn fill_chances(&self, arrived: &[f64], counts: &[f64], fewer: &mut [f64]) {
        if let [fewer] = fewer {
            *fewer = counts.iter().sum();
            return;
        }
        let half = arrived.len() / 2;
        let (left, right) = arrived.split_at(half);
        let (fewer_left, fewer_right) = fewer.split_at_mut(half);
        self.fill_chances(left, &self.add_arrivals(counts, right), fewer_left);
        self.fill_chances(right, &self.add_arrivals(counts, left), fewer_right);
    }

    fn add_arrivals(&self, counts: &[f64], arrived: &[f64]) -> Vec<f64> {
        let mut counts = counts.to_vec();
        for &p in arrived.iter().take_while(|_| (self.goes_on)()) {
            for at in (1..counts.len()).rev() {
                counts[at] = counts[at] * (1.0 - p) + counts[at - 1] * p;
            }
            counts[0] *= 1.0 - p;
        }
        counts
    }
}

/// Minus the log of a bound of the chance that k or fewer arrive where more are expected, or k or more where fewer are:
/// `k log(k / m) - k + m` (Chernoff 1952).
fn deviation(k: usize, expected: f64) -> f64 {
    let k = k as f64;
    if expected > 0.0 { k * libm::log(k / expected) - k + expected } else { f64::INFINITY }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of nodes, zero or more")]
fn nodes(steps: f64) -> usize {
    steps.max(0.0) as usize + 1
}
