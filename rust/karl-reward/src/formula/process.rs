//! The signal of the calls' success.
//!
//! ```text
//! v1: .45 successes / total          + .30 bash + .25 density
//! v2: .40 sum_good w_i / sum_i w_i   + .25 bash + .20 density + .15 late,   w_i = .5 + i / max(n - 1, 1)
//!
//! bash    = 1 - bash_errors / calls of Bash             1 without such calls
//! density = max(0, 1 - .15 (m - 2))                     1 without failures, or with runs of failures m < 3
//! late    = max(0, 1 - .15 failures of the last max(1, n / 4) events)
//! ```
//!
//! An event is good unless it is marked as failed. .5 where the total is 0.

use std::sync::LazyLock;

use super::measures::{Measures, MeasuresV2};
use crate::python_arithmetic::larger;
use crate::signal::Parts;

/// Return the signal of v1.
#[inline]
pub(crate) fn v1<M: Measures>(measures: &M) -> Result<Parts<3>, M::Fault> {
    if measures.is_empty() {
        return Ok(Parts::new(0.5, named(0.5, 1.0, 1.0)));
    }
    let rate = measures.success_rate()?;
    let (bash, density) = (1.0 - measures.bash_error_rate()?, density(measures.longest_failure()?));
    Ok(Parts::new(rate * 0.45 + bash * 0.30 + density * 0.25, named(rate, bash, density)))
}

/// Return the signal of v2.
#[inline]
pub(crate) fn v2<M: MeasuresV2>(measures: &M) -> Result<Parts<4>, M::Fault> {
    if measures.is_empty() {
        return Ok(with_late(0.5, named(0.5, 1.0, 1.0), 0.5));
    }
    let rate = weighted_rate(measures.failed()?);
    let (bash, density) = (1.0 - measures.bash_error_rate()?, density(measures.longest_failure()?));
    let late = late(measures.failed()?);
    let score = rate * 0.40 + bash * 0.25 + density * 0.20 + late * 0.15;
    Ok(with_late(score, named(rate, bash, density), late))
}

fn named(rate: f64, bash: f64, density: f64) -> [(&'static str, f64); 3] {
    [("r_success_rate", rate), ("r_bash_clean", bash), ("r_error_density", density)]
}

fn with_late(score: f64, [rate, bash, density]: [(&'static str, f64); 3], late: f64) -> Parts<4> {
    Parts::new(score, [rate, bash, density, ("r_temporal_weight", late)])
}

/// Return the share of events that have not failed; later events weigh more, from .5 to 1.5.
fn weighted_rate(failed: impl ExactSizeIterator<Item = bool>) -> f64 {
    let count = failed.len();
    match WEIGHTS.get(count) {
        Some(weights) => weights.share(failed),
        None => EventWeights::of(count).share(failed),
    }
}

static WEIGHTS: LazyLock<Vec<EventWeights>> = LazyLock::new(|| (0..=MOST).map(EventWeights::of).collect());

/// Trajectories of up to this many events have their weights in a table of 17 kB, which saves a division an event.
const MOST: usize = 64;

/// The weights of the events of a trajectory.
struct EventWeights {
    weights: Vec<f64>,
    sum: f64,
}

impl EventWeights {
    fn of(count: usize) -> Self {
        let last = count.saturating_sub(1).max(1) as f64;
        let weights: Vec<f64> = (0..count).map(|at| 0.5 + at as f64 / last).collect();
        let sum = weights.iter().sum();
        Self { weights, sum }
    }

    /// Return the share of events that have not failed.
    fn share(&self, failed: impl Iterator<Item = bool>) -> f64 {
        // Without a branch, which would often be mispredicted.
        let good = failed.zip(&self.weights).map(|(failed, weight)| weight * f64::from(!failed));
        let good = good.fold(0.0, |sum, weight| sum + weight);
        if self.sum > 0.0 { good / self.sum } else { 0.5 }
    }
}

/// Return the density of failures, by their longest run.
fn density(longest: usize) -> f64 {
    if longest < 3 { 1.0 } else { larger(0.0, 1.0 - (longest - 2) as f64 * 0.15) }
}

/// Return the score of the last quarter of events.
fn late(failed: impl ExactSizeIterator<Item = bool>) -> f64 {
    let from = failed.len().saturating_sub((failed.len() / 4).max(1));
    let failures: u32 = failed.skip(from).map(u32::from).sum();
    larger(0.0, 1.0 - f64::from(failures) * 0.15)
}

/// Return the longest run of true values.
pub(crate) fn longest_run(failed: impl Iterator<Item = bool>) -> usize {
    let (mut longest, mut run) = (0, 0);
    for failed in failed {
        run = if failed { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}
