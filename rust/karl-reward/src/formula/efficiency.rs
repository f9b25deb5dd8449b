//! The signal of the mix of tools and of the pace; durations are in seconds.
//!
//! ```text
//! v1: .35 diversity + .35 pace + .30 touch
//! v2: .25 diversity + .25 pace + .20 touch + .30 sustained
//!
//! diversity = -sum_c p_c log2 p_c / log2 C, p_c = count_c / total       .3 for fewer than two tools C
//! pace      = 1 in [2, 8] calls a minute; .8 above; .6 in [1, 2); max(.2, .5 - .3 (1 - x)) below; .5 where unknown
//! touch     = min(1, (Write + Edit + NotebookEdit) / max(.3 total, 1))
//! sustained = .5 below 8 calls; .6 below 20; then .5 + .5 min(1, (total - 20) / 40), or .4 where fewer than 85 %
//!             of the calls went well
//! ```
//!
//! The entropy is added up in the order of the tools. .5 where the total is 0.

use super::measures::{Measures, MeasuresV2};
use crate::python_arithmetic::{larger, smaller};
use crate::signal::Parts;

/// Return the signal of v1.
#[inline]
pub(crate) fn v1<M: Measures>(measures: &M) -> Result<Parts<3>, M::Fault> {
    measures.timed()?;
    if measures.is_empty() {
        return Ok(Parts::new(0.5, named([0.5; 3])));
    }
    let [diversity, pace, touch] = shape(measures)?;
    Ok(Parts::new(diversity * 0.35 + pace * 0.35 + touch * 0.30, named([diversity, pace, touch])))
}

/// Return the signal of v2.
#[inline]
pub(crate) fn v2<M: MeasuresV2>(measures: &M) -> Result<Parts<4>, M::Fault> {
    measures.timed()?;
    if measures.is_empty() {
        return Ok(with_sustained(0.5, [0.5; 3], 0.5));
    }
    let [diversity, pace, touch] = shape(measures)?;
    let (rate, total) = measures.good_share()?;
    let sustained = sustained(total, rate);
    let score = diversity * 0.25 + pace * 0.25 + touch * 0.20 + sustained * 0.30;
    Ok(with_sustained(score, [diversity, pace, touch], sustained))
}

fn named([diversity, pace, touch]: [f64; 3]) -> [(&'static str, f64); 3] {
    [("r_diversity", diversity), ("r_duration_eff", pace), ("r_file_touch", touch)]
}

fn with_sustained(score: f64, shape: [f64; 3], sustained: f64) -> Parts<4> {
    let [diversity, pace, touch] = named(shape);
    Parts::new(score, [diversity, pace, touch, ("r_sustained", sustained)])
}

/// Return diversity, pace and touch.
#[inline]
fn shape<M: Measures>(measures: &M) -> Result<[f64; 3], M::Fault> {
    let diversity = measures.diversity()?.unwrap_or(0.3);
    let pace = measures.calls_a_minute()?.map_or(0.5, pace);
    let (mutations, total) = measures.mutations()?;
    Ok([diversity, pace, touch(mutations, total)])
}

/// Return the pace of so many calls a minute.
fn pace(a_minute: f64) -> f64 {
    if (2.0..=8.0).contains(&a_minute) {
        1.0
    } else if a_minute > 8.0 {
        0.8
    } else if a_minute >= 1.0 {
        0.6
    } else {
        larger(0.2, 0.5 - (1.0 - a_minute) * 0.3)
    }
}

/// Return the share of calls that change files; three of ten are all.
fn touch(mutations: f64, total: f64) -> f64 {
    smaller(1.0, mutations / larger(total * 0.3, 1.0))
}

/// Return how sustained `total` calls are, a share `rate` of which went well.
fn sustained(total: f64, rate: f64) -> f64 {
    if total >= 20.0 {
        if rate >= 0.85 { 0.5 + 0.5 * smaller(1.0, (total - 20.0) / 40.0) } else { 0.4 }
    } else if total >= 8.0 {
        0.6
    } else {
        0.5
    }
}
