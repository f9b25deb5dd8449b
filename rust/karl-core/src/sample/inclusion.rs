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
//! What an estimate from one draw divides by is another number, given the threshold of that draw:
//! [`gumbel::inclusion`](super::gumbel::inclusion).

use crate::blocks::in_parts;
use crate::error::{Result, check_logs};

/// Halving the step has to change no probability by more than this; the error is then far less.
const CLOSE: f64 = 1e-12;

/// The first step, and how often it is halved at most.
const STEP: f64 = 0.5;
const HALVINGS: u32 = 12;

/// How far the range goes: below, no row has arrived but with probability exp(-40); above, k + 1 have but with that.
const FAR: f64 = 40.0;

/// Nodes that are summed before they are added to the others, so that sums do not depend on threads.
const NODES: usize = 8;

/// The inclusion probabilities of k of n rows without replacement, to 1e-12.
///
/// Adding a constant to every log weight changes nothing. A row of log weight minus infinity has 0; where no more than k rows
/// have a weight, each has 1. They add up to k. Shapes: `[B]`. Cost: a few hundred nodes of `n k log n` multiplications, more
/// of them where log weights spread over hundreds of nats: for small n or small k. Reference: Efraimidis and Spirakis 2006;
/// Kool et al. 2019 (arXiv:1903.06059).
///
/// ```
/// use karl_core::sample::inclusion::inclusion;
/// let found = inclusion(&[1.0, 2.0, 3.0, 4.0].map(f64::ln), 2, 1)?;
/// assert!((found[0] - 0.23452380952380952).abs() < 1e-12, "and not 0.2");
/// # Ok::<(), karl_core::Error>(())
/// ```
///
/// # Errors
/// [`Error::NotFinite`](crate::Error::NotFinite) for a log weight that is NaN or plus infinity.
pub fn inclusion(log_weights: &[f64], k: usize, threads: usize) -> Result<Vec<f64>> {
    check_logs("log weight", log_weights)?;
    let rows: Vec<usize> =
        (0..log_weights.len()).filter(|&row| log_weights[row] > f64::NEG_INFINITY).collect();
    let logs: Vec<f64> = rows.iter().map(|&row| log_weights[row]).collect();
    let found = if k == 0 || rows.len() <= k {
        vec![f64::from(u8::from(k > 0)); rows.len()]
    } else {
        integrate(&logs, k, threads)
    };
    let mut out = vec![0.0; log_weights.len()];
    rows.into_iter().zip(found).for_each(|(row, probability)| out[row] = probability);
    Ok(out)
}

/// Halves the step until it no longer matters.
fn integrate(logs: &[f64], k: usize, threads: usize) -> Vec<f64> {
    let mut sorted = logs.to_vec();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    let (from, to) = (-sorted[0] - FAR, -sorted[k] + libm::log(FAR + libm::log(k as f64 + 1.0)));
    let mut step = STEP;
    let at = |first: f64, step: f64| {
        let count = nodes((to - first) / step);
        sum(count, threads, logs.len(), |node, out| add(logs, first + node as f64 * step, k, out))
    };
    let mut total = at(from, step);
    for _ in 0..HALVINGS {
        let between = at(from + 0.5 * step, step);
        let apart = total.iter().zip(&between).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        total.iter_mut().zip(between).for_each(|(total, more)| *total += more);
        step *= 0.5;
        // Half the sum of both is the finer rule: it differs from the coarser by half of what they differ.
        if apart * step <= CLOSE {
            break;
        }
    }
    total.into_iter().map(|total| (total * step).min(1.0)).collect()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of nodes, zero or more")]
fn nodes(steps: f64) -> usize {
    steps.max(0.0) as usize + 1
}

/// The sum of what `one` adds for each node, in the order of the nodes.
fn sum(count: usize, threads: usize, rows: usize, one: impl Fn(usize, &mut [f64]) + Sync) -> Vec<f64> {
    let part = |blocks: std::ops::Range<usize>| -> Vec<Vec<f64>> {
        let block = |block: usize| {
            let mut out = vec![0.0; rows];
            (block * NODES..count.min((block + 1) * NODES)).for_each(|node| one(node, &mut out));
            out
        };
        blocks.map(block).collect()
    };
    let mut total = vec![0.0; rows];
    for block in in_parts(count.div_ceil(NODES), threads, part).into_iter().flatten() {
        total.iter_mut().zip(block).for_each(|(total, more)| *total += more);
    }
    total
}

/// Adds the integrand of every row at `exp(s)`: the density of its arrival times the chance of fewer than k others.
fn add(logs: &[f64], s: f64, k: usize, out: &mut [f64]) {
    let rates: Vec<f64> = logs.iter().map(|log| libm::exp(log + s)).collect();
    let arrived: Vec<f64> = rates.iter().map(|rate| -libm::expm1(-rate)).collect();
    let mut counts = vec![0.0; k];
    counts[0] = 1.0;
    let mut fewer = vec![0.0; logs.len()];
    without_each(&arrived, &counts, &mut fewer);
    for ((out, rate), fewer) in out.iter_mut().zip(rates).zip(fewer) {
        *out += rate * libm::exp(-rate) * fewer;
    }
}

/// For each row the chance that fewer than k of the others have arrived; `counts` holds the chances of 0 to k - 1 arrivals
/// among all rows that are not here.
///
/// Each half of the rows goes on with the other half counted.
fn without_each(arrived: &[f64], counts: &[f64], fewer: &mut [f64]) {
    if let [fewer] = fewer {
        *fewer = counts.iter().sum();
        return;
    }
    let half = arrived.len() / 2;
    let (left, right) = arrived.split_at(half);
    let (fewer_left, fewer_right) = fewer.split_at_mut(half);
    without_each(left, &counted(counts, right), fewer_left);
    without_each(right, &counted(counts, left), fewer_right);
}

fn counted(counts: &[f64], arrived: &[f64]) -> Vec<f64> {
    let mut counts = counts.to_vec();
    for &p in arrived {
        for at in (1..counts.len()).rev() {
            counts[at] = counts[at] * (1.0 - p) + counts[at - 1] * p;
        }
        counts[0] *= 1.0 - p;
    }
    counts
}
