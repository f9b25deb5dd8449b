//! How the calls went.

use std::sync::LazyLock;

use crate::value::Number;
use crate::{Event, Fault, Signal, Trajectory, Version, larger, longest_failure};

/// The signal of the calls' success.
///
/// ```text
/// v1: .45 successes / total          + .30 bash + .25 density
/// v2: .40 sum_good w_i / sum_i w_i   + .25 bash + .20 density + .15 late,   w_i = .5 + i / max(n - 1, 1)
///
/// bash    = 1 - bash_errors / calls of Bash             1 without such calls
/// density = max(0, 1 - .15 (m - 2))                     1 without failures, or with runs of failures m < 3
/// late    = max(0, 1 - .15 failures of the last max(1, n / 4) events)
/// ```
///
/// An event is good unless it is said to have failed. .5 where the total is 0.
///
/// # Errors
/// [`Fault::Type`] and [`Fault::Attribute`] for values of the wrong type, [`Fault::Overflow`] for numbers beyond floats.
pub fn process(trajectory: &Trajectory<'_>) -> Result<Signal, Fault> {
    let total = trajectory.total.or_zero();
    let v1 = trajectory.version == Version::V1;
    if total.is_zero() {
        let parts = [("r_success_rate", 0.5), ("r_bash_clean", 1.0), ("r_error_density", 1.0)];
        return Ok(if v1 { Signal::new(0.5, parts) } else { with_late(0.5, parts, 0.5) });
    }
    let failed = || trajectory.events.all().map(|events| events.iter().map(Event::failed));
    let rate = if v1 { plain_rate(trajectory)? } else { weighted_rate(failed()?) };
    let events = trajectory.events.all()?;
    let (bash, density) = (bash(trajectory, events)?, density(trajectory, events)?);
    let parts = [("r_success_rate", rate), ("r_bash_clean", bash), ("r_error_density", density)];
    if v1 {
        return Ok(Signal::new(of_three(rate, bash, density), parts));
    }
    let late = late(failed()?);
    Ok(with_late(of_four(rate, bash, density, late), parts, late))
}

pub(crate) fn of_three(rate: f64, bash: f64, density: f64) -> f64 {
    rate * 0.45 + bash * 0.30 + density * 0.25
}

pub(crate) fn of_four(rate: f64, bash: f64, density: f64, late: f64) -> f64 {
    rate * 0.40 + bash * 0.25 + density * 0.20 + late * 0.15
}

fn with_late(score: f64, [rate, bash, density]: [(&'static str, f64); 3], late: f64) -> Signal {
    Signal::new(score, [rate, bash, density, ("r_temporal_weight", late)])
}

fn plain_rate(trajectory: &Trajectory<'_>) -> Result<f64, Fault> {
    let total = trajectory.total.number()?;
    if total.above(0) { trajectory.successes.or_zero().number()?.over(total) } else { Ok(0.5) }
}

/// Of the events those that have not failed; later events weigh more, from .5 to 1.5.
pub(crate) fn weighted_rate(failed: impl ExactSizeIterator<Item = bool>) -> f64 {
    let count = failed.len();
    match SCALES.get(count) {
        Some(scale) => scale.share(failed),
        None => Scale::of(count).share(failed),
    }
}

static SCALES: LazyLock<Vec<Scale>> = LazyLock::new(|| (0..=MOST).map(Scale::of).collect());

/// Events of which the weights are kept, which is 17 kB of them: a division an event is a tenth of a reward from columns.
const MOST: usize = 64;

/// What each of so many events weighs.
struct Scale {
    weights: Vec<f64>,
    sum: f64,
}

impl Scale {
    fn of(count: usize) -> Self {
        let last = count.saturating_sub(1).max(1) as f64;
        let weights: Vec<f64> = (0..count).map(|at| 0.5 + at as f64 / last).collect();
        let sum = weights.iter().sum();
        Self { weights, sum }
    }

    /// The share of those that have not failed.
    fn share(&self, failed: impl Iterator<Item = bool>) -> f64 {
        // Without a branch, which would often be guessed wrong.
        let good = failed.zip(&self.weights).map(|(failed, weight)| weight * f64::from(!failed));
        let good = good.fold(0.0, |sum, weight| sum + weight);
        if self.sum > 0.0 { good / self.sum } else { 0.5 }
    }
}

fn bash(trajectory: &Trajectory<'_>, events: &[Event<'_>]) -> Result<f64, Fault> {
    let calls = events.iter().filter(|event| event.tool.is("Bash")).count();
    if calls == 0 {
        return Ok(1.0);
    }
    let calls = Number::Int(i64::try_from(calls).unwrap_or(i64::MAX));
    Ok(1.0 - trajectory.bash_errors.or_zero().number()?.over(calls)?)
}

fn density(trajectory: &Trajectory<'_>, events: &[Event<'_>]) -> Result<f64, Fault> {
    if !trajectory.failures.or_zero().number()?.above(0) {
        return Ok(1.0);
    }
    Ok(calm(longest_failure(events)))
}

/// The density of failures, by their longest run.
pub(crate) fn calm(longest: usize) -> f64 {
    if longest < 3 { 1.0 } else { larger(0.0, 1.0 - (longest - 2) as f64 * 0.15) }
}

/// How few of the last quarter have failed.
pub(crate) fn late(failed: impl ExactSizeIterator<Item = bool>) -> f64 {
    let from = failed.len().saturating_sub((failed.len() / 4).max(1));
    let failures: u32 = failed.skip(from).map(u32::from).sum();
    larger(0.0, 1.0 - f64::from(failures) * 0.15)
}
