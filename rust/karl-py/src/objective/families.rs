//! Bindings of the four families of `karl_core::objective`: a loss, its coefficients and statistics.

#![allow(clippy::too_many_arguments, reason = "one keyword an axis, as in the Python family of this name")]

use karl_core::objective::{
    Advantages, Anchor, Balance, LogZ, Per, PolicyGradient, Power, Ratio, TargetPolicy, Turns,
    WeightedLikelihood,
};
use karl_core::objective::{
    balance as balance_of, linear_term as linear_term_of, policy_gradient as policy_gradient_of,
    target_policy as target_policy_of, weighted_likelihood as weighted_likelihood_of,
};
use numpy::{PyArray1, PyReadwriteArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::columns::{Token, TokenColumns, evaluation, of_dtype};
use super::points::{aggregate_of, kind, mask_negatives_of, penalty_of, unknown, update_of};
use crate::boundary::array::{Column, column, fresh, threads};
use crate::boundary::error::ArgumentError;

/// Compute a policy gradient of padded or packed tokens; see `karl_fast.objective.PolicyGradient`.
#[pyfunction]
#[pyo3(signature = (
    logp, mask, offsets, advantages, *, logp_old=None, logp_ref=None, turns=None, ratio, clip, kl, aggregate,
    denominator
))]
pub(crate) fn objective_policy_gradient<'py>(
    py: Python<'py>,
    logp: &Bound<'py, PyAny>,
    mask: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    advantages: &Bound<'py, PyAny>,
    logp_old: Option<&Bound<'py, PyAny>>,
    logp_ref: Option<&Bound<'py, PyAny>>,
    turns: Option<&Bound<'py, PyAny>>,
    ratio: &str,
    clip: &Bound<'py, PyAny>,
    kl: &Bound<'py, PyAny>,
    aggregate: &Bound<'py, PyAny>,
    denominator: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let columns = TokenColumns::of(logp, logp_old, logp_ref, mask, offsets)?;
    let advantages = column::<f64>("advantages", advantages)?;
    let advantages = advantages.as_slice()?;
    let turns = turns.map(|turns| column::<i64>("turns", turns)).transpose()?;
    let turns = turns.as_ref().map(Column::as_slice).transpose()?;
    let objective = PolicyGradient {
        ratio: ratio_of(ratio, turns, columns.mask.as_slice()?)?,
        update: update_of(clip)?,
        mask_negatives: mask_negatives_of(clip)?,
        penalty: penalty_of(kl)?,
        aggregate: aggregate_of(aggregate, Some(denominator))?,
    };
    of_dtype!(columns, T, {
        let (found, coefficients) = columns.run::<T, _>(py, |rollouts, out| {
            let per = if advantages.len() == rollouts.rows() { Per::Sequence } else { Per::Token };
            policy_gradient_of(rollouts, Advantages::double(advantages, per), &objective, out, threads())
        })?;
        evaluation(py, &found, coefficients)
    })
}

fn ratio_of<'a>(word: &str, turns: Option<&'a [i64]>, mask: &'a [bool]) -> PyResult<Ratio<'a>> {
    match (word, turns) {
        ("on-policy", _) => Ok(Ratio::OnPolicy),
        ("token", _) => Ok(Ratio::Token),
        ("turn", Some(turns)) => Ok(Ratio::Turn(Turns::Numbers(turns, mask))),
        ("turn", None) => Err(ArgumentError::new_err("turns are not given, wanted for the ratio of a turn")),
        ("sequence", _) => Ok(Ratio::Sequence),
        ("sequence-product", _) => Ok(Ratio::SequenceProduct),
        ("sequence-token", _) => Ok(Ratio::SequenceToken),
        (other, _) => {
            let wanted = "on-policy, token, turn, sequence, sequence-product or sequence-token";
            Err(unknown("ratio", other, wanted))
        }
    }
}

/// Compute a balance; see `karl_fast.objective.TrajectoryBalance`.
#[pyfunction]
#[pyo3(signature = (
    logp, mask, offsets, rewards, *, logp_old=None, logp_ref=None, groups=None, log_z=None, anchor, mean, scale,
    width, choice=None, weight=None, denominator
))]
pub(crate) fn objective_balance<'py>(
    py: Python<'py>,
    logp: &Bound<'py, PyAny>,
    mask: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    rewards: &Bound<'py, PyAny>,
    logp_old: Option<&Bound<'py, PyAny>>,
    logp_ref: Option<&Bound<'py, PyAny>>,
    groups: Option<&Bound<'py, PyAny>>,
    log_z: Option<&Bound<'py, PyAny>>,
    anchor: Option<&str>,
    mean: bool,
    scale: (f64, f64),
    width: f64,
    choice: Option<(f64, f64)>,
    weight: Option<(bool, f64, f64)>,
    denominator: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let columns = TokenColumns::of(logp, logp_old, logp_ref, mask, offsets)?;
    let rewards = column::<f64>("rewards", rewards)?;
    let rewards = rewards.as_slice()?;
    let groups = groups.map(|groups| column::<i64>("groups", groups)).transpose()?;
    let groups = groups.as_ref().map(Column::as_slice).transpose()?;
    let log_z = log_z.map(|log_z| column::<f64>("log_z", log_z)).transpose()?;
    let log_z = log_z.as_ref().map(Column::as_slice).transpose()?;
    let objective = Balance {
        anchor: anchor_of(anchor)?,
        length: power(mean),
        drift: scale.0,
        reward: scale.1,
        log_z: match (log_z, groups) {
            (Some(log_z), _) => LogZ::Learned(log_z),
            (None, Some(groups)) => LogZ::GroupOptimum(groups),
            (None, None) => LogZ::None,
        },
        width,
        choice,
        weight: weight.map(|(mean, floor, ceiling)| (power(mean), floor, ceiling)),
        denominator,
    };
    let mut by_log_z: PyReadwriteArray1<'py, f64> = fresh(py, log_z.map_or(0, <[f64]>::len))?;
    let slopes = by_log_z.as_slice_mut()?;
    of_dtype!(columns, T, {
        let ((found, residuals), coefficients) = columns.run::<T, _>(py, |rollouts, out| {
            balance_of(rollouts, rewards, &objective, out, slopes, threads())
        })?;
        let held = evaluation(py, &found, coefficients)?;
        let statistics = held.as_any().get_item("statistics")?;
        statistics.set_item("residual", residuals.mean)?;
        statistics.set_item("residual_std", residuals.std)?;
        if log_z.is_some() {
            held.set_item("log_z_coefficients", &*by_log_z as &Bound<'py, PyArray1<f64>>)?;
        }
        Ok(held)
    })
}

fn anchor_of(word: Option<&str>) -> PyResult<Anchor> {
    match word {
        None => Ok(Anchor::None),
        Some("logp_old") => Ok(Anchor::Behaviour),
        Some("logp_ref") => Ok(Anchor::Reference),
        Some(other) => Err(unknown("anchor", other, "logp_old, logp_ref or None")),
    }
}

fn power(mean: bool) -> Power {
    if mean { Power::Mean } else { Power::Sum }
}

/// Compute the cross-entropy to a target; see `karl_fast.objective.TargetPolicy`.
#[pyfunction]
#[pyo3(signature = (logp, mask, offsets, targets, groups, *, logp_old=None, mean, denominator))]
pub(crate) fn objective_target_policy<'py>(
    py: Python<'py>,
    logp: &Bound<'py, PyAny>,
    mask: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    targets: &Bound<'py, PyAny>,
    groups: &Bound<'py, PyAny>,
    logp_old: Option<&Bound<'py, PyAny>>,
    mean: bool,
    denominator: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let columns = TokenColumns::of(logp, logp_old, None, mask, offsets)?;
    let (targets, groups) = (column::<f64>("targets", targets)?, column::<i64>("groups", groups)?);
    let (targets, groups, length) = (targets.as_slice()?, groups.as_slice()?, power(mean));
    let objective = TargetPolicy { targets, groups, length, denominator };
    of_dtype!(columns, T, {
        let (found, coefficients) = columns
            .run::<T, _>(py, |rollouts, out| target_policy_of(rollouts, &objective, out, threads()))?;
        evaluation(py, &found, coefficients)
    })
}

/// Compute a weighted likelihood; see `karl_fast.objective.WeightedLikelihood`.
#[pyfunction]
#[pyo3(signature = (logp, mask, offsets, weights, *, logp_old=None, term, aggregate, denominator))]
pub(crate) fn objective_likelihood<'py>(
    py: Python<'py>,
    logp: &Bound<'py, PyAny>,
    mask: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    weights: &Bound<'py, PyAny>,
    logp_old: Option<&Bound<'py, PyAny>>,
    term: &Bound<'py, PyAny>,
    aggregate: &Bound<'py, PyAny>,
    denominator: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let columns = TokenColumns::of(logp, logp_old, None, mask, offsets)?;
    let weights = column::<f64>("weights", weights)?;
    let scaled = match kind("term", term)?.as_str() {
        "log-likelihood" => false,
        "probability-scaled" => true,
        other => return Err(unknown("term", other, "log-likelihood or probability-scaled")),
    };
    let aggregate = aggregate_of(aggregate, Some(denominator))?;
    let objective = WeightedLikelihood { weights: weights.as_slice()?, scaled, aggregate };
    of_dtype!(columns, T, {
        let (found, coefficients) = columns
            .run::<T, _>(py, |rollouts, out| weighted_likelihood_of(rollouts, &objective, out, threads()))?;
        evaluation(py, &found, coefficients)
    })
}

/// Compute a term that is linear in another quantity of each token: its sum, its coefficients, and the mean quantity.
#[pyfunction]
pub(crate) fn objective_linear_term<'py>(
    py: Python<'py>,
    values: &Bound<'py, PyAny>,
    mask: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    factor: f64,
    aggregate: &Bound<'py, PyAny>,
    denominator: f64,
) -> PyResult<(f64, Bound<'py, PyAny>, f64)> {
    let columns = TokenColumns::of(values, None, None, mask, offsets)?;
    let aggregate = aggregate_of(aggregate, Some(denominator))?;
    of_dtype!(columns, T, {
        let values = T::column("values", &columns.logp)?;
        let ((loss, mean), coefficients) = columns.run::<T, _>(py, |rollouts, out| {
            linear_term_of(rollouts, values, factor, aggregate, out, threads())
        })?;
        Ok((loss, coefficients, mean))
    })
}
