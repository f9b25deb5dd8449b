//! Replay of past rollouts: weights by age, priorities, and their importance corrections.
//!
//! Everything is a column of log-weights or of priorities, so that a draw takes it as it takes any other:
//!
//! ```text
//! log w_i = alpha log(priority_i) + age_log_weight_i        ──► sample ──► importance correction
//! ```

use std::collections::BTreeMap;

use crate::check::{
    check_counts, check_finite, check_length, check_logs, check_not_infinite, check_not_negative,
    check_positive, check_range, check_within,
};
use crate::error::{Error, Result};
use crate::group::Groups;
use crate::group::offsets::Offsets;
use crate::logsumexp;
use crate::numeric::sum::{Compensated, sigmoid, sum};
use crate::numeric::{Real, parallel};
use crate::sample::Ranking;

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

/// Return the surprise of each rollout under the policy: `-mean_t logp`, in nats a token; NaN for a rollout without
/// tokens.
///
/// The mean is over the tokens that the mask takes, all without one; a masked token is not read.
/// Shapes: logp and mask `[T]`, offsets `[B + 1]`, result `[B]`. Cost: one pass.
///
/// # Errors
/// [`Error::Length`] where offsets or mask are those of other tokens; [`Error::NotFinite`] for a token that is not
/// finite.
pub fn surprisal<R: Real>(
    logp: &[R],
    offsets: &Offsets<'_>,
    mask: Option<&[bool]>,
    threads: usize,
) -> Result<Vec<f64>> {
    check_length("logp", logp.len(), offsets.values())?;
    check_length("mask", mask.map_or(logp.len(), <[bool]>::len), logp.len())?;
    let taken = |token: &usize| mask.is_none_or(|mask| mask[*token]);
    if let Some(index) = (0..logp.len()).filter(taken).find(|&token| !logp[token].widen().is_finite()) {
        return Err(Error::NotFinite { what: "logp", index, value: logp[index].widen() });
    }
    let mut surprisals = vec![0.0; offsets.len()];
    parallel::fill(&mut surprisals, threads, |first, block| {
        for (surprisal, row) in block.iter_mut().zip(first..) {
            let tokens = || offsets.row(row).filter(taken);
            *surprisal = -sum(tokens().map(|token| logp[token].widen())) / tokens().count() as f64;
        }
    });
    Ok(surprisals)
}

/// Advantage times surprise: `chi_i = A_i * s_i`, `s_i = -log p_i`. A rare success delights, a rare failure does not.
///
/// Shapes: all `[B]`. Cost: one pass.
/// Reference: Osband 2026, delightful policy gradient (arXiv:2603.14608).
///
/// # Errors
/// [`Error::Length`] for columns that differ in rows; [`Error::NotFinite`] for an infinite number.
pub fn delight<A: Real, S: Real>(advantages: &[A], surprisals: &[S]) -> Result<Vec<f64>> {
    check_length("surprisals", surprisals.len(), advantages.len())?;
    check_not_infinite("advantages", advantages)?;
    check_not_infinite("surprisals", surprisals)?;
    let rows = advantages.iter().zip(surprisals);
    Ok(rows.map(|(advantage, surprisal)| advantage.widen() * surprisal.widen()).collect())
}

/// Return the gate that delight opens: `g_i = sigma((chi_i - price) / eta)`, between 0 and 1.
///
/// Shapes: `[B]`. Cost: one `exp` a row.
/// Reference: Osband 2026 (arXiv:2603.14608), with a price of 0; the Kondo gate (arXiv:2603.20526) has one.
///
/// # Errors
/// [`Error::NotFinite`] for an infinite delight or price; [`Error::Positive`] for an `eta` that is not above 0.
pub fn delight_gate<R: Real>(delights: &[R], eta: f64, price: f64, threads: usize) -> Result<Vec<f64>> {
    check_not_infinite("delights", delights)?;
    check_positive("eta", eta)?;
    check_finite("price", &[price])?;
    let mut gates = vec![0.0; delights.len()];
    parallel::fill(&mut gates, threads, |first, block| {
        for (gate, delight) in block.iter_mut().zip(&delights[first..]) {
            *gate = sigmoid((delight.widen() - price) / eta);
        }
    });
    Ok(gates)
}

/// Return the price at which the gates are open by a given share on average.
///
/// ```text
/// price:  mean_i sigma((chi_i - price) / eta) = keep
/// ```
///
/// The mean falls as the price rises; it is above `keep` at `min chi - eta logit(keep)` and below it at
/// `max chi - eta logit(keep)`, and is halved between them to the last bit. Missing delights are left out.
/// Shapes: `[B]`. Cost: about sixty passes with one `exp` a row. Reference: the Kondo gate (arXiv:2603.20526).
///
/// # Errors
/// As [`delight_gate`]; [`Error::Range`] for `keep` outside [1e-12, 1 - 1e-12]; [`Error::Length`] for no delight at all.
pub fn kondo_price<R: Real>(delights: &[R], keep: f64, eta: f64) -> Result<f64> {
    check_not_infinite("delights", delights)?;
    check_positive("eta", eta)?;
    check_range("keep", keep, 1e-12, 1.0 - 1e-12)?;
    let present: Vec<f64> = delights.iter().map(|x| x.widen()).filter(|x| !x.is_nan()).collect();
    if present.is_empty() {
        return Err(Error::Length { what: "delights that are present", got: 0, wanted: 1 });
    }
    let shift = eta * libm::log(keep / (1.0 - keep));
    let mut low = present.iter().copied().fold(f64::INFINITY, f64::min) - shift;
    let mut high = present.iter().copied().fold(f64::NEG_INFINITY, f64::max) - shift;
    let share = |price: f64| sum(present.iter().map(|x| sigmoid((x - price) / eta))) / present.len() as f64;
    loop {
        let middle = low.midpoint(high);
        if middle <= low || middle >= high {
            return Ok(middle);
        }
        if share(middle) > keep { low = middle } else { high = middle }
    }
}

/// Compute the error of the predicted success rate of a rollout's group: `|#right_g / G_g - predicted_i|`.
///
/// With `successes_only`, rollouts that failed have no priority (NaN); a rollout without a group, or without a
/// prediction, never has one.
/// Shapes: all `[B]`. Cost: two passes.
/// Reference: PACED-RL (arXiv:2602.12642), which replays the successes of largest error.
///
/// # Errors
/// [`Error::Length`] for columns that differ in rows; [`Error::NotFinite`] for an infinite prediction.
pub fn accuracy_error<R: Real>(
    right: &[bool],
    predicted: &[R],
    groups: &Groups<'_>,
    successes_only: bool,
    threads: usize,
) -> Result<Vec<f64>> {
    check_length("right", right.len(), groups.rows())?;
    check_length("predicted", predicted.len(), groups.rows())?;
    check_not_infinite("predicted", predicted)?;
    let counts = groups.fold(threads, (0_u32, 0_u32), |(rights, size), _, row| {
        *rights += u32::from(right[row]);
        *size += 1;
    });
    let error = |row: usize| match groups.code(row).map(|group| counts[group]) {
        Some((rights, size)) if right[row] || !successes_only => {
            (f64::from(rights) / f64::from(size) - predicted[row].widen()).abs()
        }
        _ => f64::NAN,
    };
    Ok((0..right.len()).map(error).collect())
}

/// Log-probabilities by priority.
///
/// ```text
/// log P(i) = alpha log(p_i + eps) - log sum_j (p_j + eps)^alpha
/// ```
///
/// `alpha = 0` is uniform over the rows that have a priority. A missing one (NaN) is never drawn: minus infinity.
/// Shapes: `[B]`. Cost: one `log` and one `exp` a row.
/// Reference: Schaul et al. 2016, prioritized experience replay (arXiv:1511.05952), eq. 1.
///
/// # Errors
/// [`Error::Outside`] for a negative priority; [`Error::Negative`] for a negative `alpha` or `eps`;
/// [`Error::NotFinite`] for an infinite priority or `alpha`; [`Error::Positive`] where no row can be drawn.
pub fn prioritised<R: Real>(priorities: &[R], alpha: f64, eps: f64, threads: usize) -> Result<Vec<f64>> {
    check_not_infinite("priorities", priorities)?;
    check_within("priorities", priorities, 0.0, f64::INFINITY)?;
    check_not_negative("alpha", alpha)?;
    check_not_negative("eps", eps)?;
    check_finite("alpha", &[alpha])?;
    let log_weight = |priority: f64| match priority {
        priority if priority.is_nan() => f64::NEG_INFINITY,
        _ if alpha == 0.0 => 0.0, // 0 * log 0 would be NaN
        priority => alpha * libm::log(priority + eps),
    };
    let mut logs = vec![0.0; priorities.len()];
    parallel::fill(&mut logs, threads, |first, block| {
        for (log, priority) in block.iter_mut().zip(&priorities[first..]) {
            *log = log_weight(priority.widen());
        }
    });
    let log_z = logsumexp::log_sum_exp(&logs, threads)?;
    if log_z == f64::NEG_INFINITY {
        return Err(Error::Positive { what: "sum of priorities", value: 0.0 });
    }
    Ok(logs.into_iter().map(|log| log - log_z).collect())
}

/// Return the logs of the weights that undo a draw by priority, by a share `beta`.
///
/// ```text
/// w_i = (1 / (N P(i)))^beta / max_j (1 / (N P(j)))^beta,   so   log w_i = beta (min_j log P(j) - log P(i))
/// ```
///
/// N and any constant added to the log-weights cancel. `beta = 1` undoes the draw, 0 leaves it. A row that is never
/// drawn has minus infinity, and no part in the minimum.
/// Shapes: `[B]`. Cost: two passes.
/// Reference: Schaul et al. 2016 (arXiv:1511.05952), section 3.4.
///
/// # Errors
/// [`Error::NotFinite`] for a log-weight that is NaN or plus infinity; [`Error::Range`] for a `beta` outside [0, 1].
pub fn importance_log_weights<R: Real>(log_weights: &[R], beta: f64) -> Result<Vec<f64>> {
    check_logs("log_weights", log_weights)?;
    check_range("beta", beta, 0.0, 1.0)?;
    let logs = || log_weights.iter().map(|log| log.widen());
    let least = logs().filter(|&log| log > f64::NEG_INFINITY).fold(f64::INFINITY, f64::min);
    let corrected = |log: f64| if log == f64::NEG_INFINITY { log } else { beta * (least - log) };
    Ok(logs().map(corrected).collect())
}

/// Return the rows of the k largest priorities, largest first; of equal ones the earlier row. Missing ones never
/// come.
///
/// Cost: linear, and a sort of what is taken.
///
/// # Errors
/// [`Error::NotFinite`] for an infinite priority.
pub fn largest<R: Real>(priorities: &[R], k: usize, threads: usize) -> Result<Vec<u32>> {
    check_not_infinite("priorities", priorities)?;
    let key = |priority: f64| if priority.is_nan() { f64::NEG_INFINITY } else { priority };
    let keys: Vec<f64> = priorities.iter().map(|priority| key(priority.widen())).collect();
    Ok(Ranking::of(keys, threads)?.take(k))
}
