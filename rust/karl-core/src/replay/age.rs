//! Weights by age, and how old a draw by them is.

use std::collections::BTreeMap;

use crate::check::{check_counts, check_finite, check_length, check_not_negative, check_positive};
use crate::error::{Error, Result};
use crate::logsumexp;
use crate::numeric::float::Real;
use crate::numeric::parallel;
use crate::numeric::sum::{Compensated, sum};

/// Decay of the weight of a rollout with its age in versions of the policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decay {
    /// `exp(-rate * age)`.
    Exponential(f64),
    /// 1 up to an age, 0 beyond it.
    Window(i64),
    /// `(1 + age)^-exponent`.
    Power(f64),
}

impl Decay {
    /// Return the log-weight of each age. A rate or an exponent of 0 is uniform.
    /// Shapes: ages and result `[B]`. Cost: one pass, one `log` a row for [`Decay::Power`].
    ///
    /// # Errors
    /// [`Error::Outside`] for a negative age; [`Error::Negative`] for a negative rate, exponent or window;
    /// [`Error::NotFinite`] for an infinite rate.
    pub fn log_weights(&self, ages: &[i64], threads: usize) -> Result<Vec<f64>> {
        check_counts("ages", ages)?;
        self.check()?;
        let mut weights = vec![0.0; ages.len()];
        parallel::fill(&mut weights, threads, |first, block| {
            block.iter_mut().zip(&ages[first..]).for_each(|(weight, &age)| *weight = self.log_weight(age));
        });
        Ok(weights)
    }

    fn check(&self) -> Result<()> {
        let (what, value) = match *self {
            Self::Exponential(rate) => ("rate", rate),
            Self::Window(max_age) => ("max_age", max_age as f64),
            Self::Power(exponent) => ("exponent", exponent),
        };
        check_not_negative(what, value)?;
        check_finite(what, &[value])
    }

    fn log_weight(&self, age: i64) -> f64 {
        match *self {
            Self::Exponential(rate) => exponential(rate, age as f64),
            Self::Window(max_age) if age > max_age => f64::NEG_INFINITY,
            Self::Window(_) => 0.0,
            Self::Power(exponent) => -exponent * libm::log1p(age as f64),
        }
    }
}

/// Return the log-weight of an age.
fn exponential(rate: f64, age: f64) -> f64 {
    -rate * age
}

/// Return the log-weight of each row by its age, the time since which the newest came: it halves with every half-life.
///
/// ```text
/// log w_i = -ln 2 * age_i / half_life,    age_i = max_j t_j - t_i
/// ```
///
/// This is [`Decay::Exponential`] at the rate `ln 2 / half_life`, over ages that are any numbers. Times and the half-life
/// have one unit. Shapes: times and result `[B]`. Cost: two passes.
///
/// # Errors
/// [`Error::NotFinite`] for a time that is not finite; [`Error::Positive`] for a half-life that is not a finite number
/// above 0.
pub fn recency(times: &[f64], half_life: f64, threads: usize) -> Result<Vec<f64>> {
    check_finite("times", times)?;
    check_positive("half_life", half_life)?;
    let newest = times.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let rate = std::f64::consts::LN_2 / half_life;
    let mut weights = vec![0.0; times.len()];
    parallel::fill(&mut weights, threads, |first, block| {
        block
            .iter_mut()
            .zip(&times[first..])
            .for_each(|(weight, time)| *weight = exponential(rate, newest - time));
    });
    Ok(weights)
}

/// Distribution of the ages of a draw by these weights.
#[derive(Clone, Debug, PartialEq)]
pub struct AgeDistribution {
    /// The mean age, in versions.
    pub mean_age: f64,
    /// The effective sample size of the weights, in rows.
    pub ess: f64,
    /// For each level, the least age at or below which that share of the weight lies.
    pub quantiles: Vec<i64>,
}

/// Return the ages that rows have once they are drawn in proportion to their weights.
///
/// ```text
/// mean = sum_i p_i age_i,   ess = 1 / sum_i p_i^2,   quantile(u) = min { a: sum_{age_i <= a} p_i >= u },   p_i ∝ w_i
/// ```
///
/// Shapes: ages and log-weights `[B]`. Cost: one `exp` and one look-up of its age a row.
///
/// # Errors
/// [`Error::NotFinite`] for a log-weight that is NaN or plus infinity; [`Error::Positive`] where no row has any weight;
/// [`Error::Outside`] for a level outside [0, 1]; [`Error::Length`] for columns that differ in rows.
pub fn age_distribution<R: Real>(ages: &[i64], log_weights: &[R], levels: &[f64]) -> Result<AgeDistribution> {
    check_length("log_weights", log_weights.len(), ages.len())?;
    check_levels(levels)?;
    let ess = logsumexp::ess(log_weights, 1)?;
    let most = log_weights.iter().map(|weight| weight.widen()).fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY {
        return Err(Error::Positive { what: "sum of weights", value: 0.0 });
    }
    let mut held: BTreeMap<i64, Compensated> = BTreeMap::new();
    let rows = ages.iter().zip(log_weights).map(|(&age, weight)| (age, weight.widen()));
    for (age, weight) in rows.filter(|&(_, weight)| weight > f64::NEG_INFINITY) {
        held.entry(age).or_default().add(libm::exp(weight - most));
    }
    let total = sum(held.values().map(|weight| weight.value()));
    let mean_age = sum(held.iter().map(|(&age, weight)| age as f64 * weight.value())) / total;
    Ok(AgeDistribution {
        mean_age,
        ess,
        quantiles: levels.iter().map(|u| quantile(&held, u * total)).collect(),
    })
}

/// Reject levels outside [0, 1], and NaN.
fn check_levels(levels: &[f64]) -> Result<()> {
    match levels.iter().position(|level| !(0.0..=1.0).contains(level)) {
        Some(index) => {
            Err(Error::Outside { what: "quantiles", index, value: levels[index], low: 0.0, high: 1.0 })
        }
        None => Ok(()),
    }
}

/// Return the first age by which this much weight is held; the last where rounding leaves it a trifle short.
fn quantile(held: &BTreeMap<i64, Compensated>, wanted: f64) -> i64 {
    let mut so_far = Compensated::default();
    let enough = held.iter().find(|(_, weight)| {
        so_far.add(weight.value());
        so_far.value() >= wanted
    });
    enough.or(held.last_key_value()).map_or(0, |(&age, _)| age)
}
