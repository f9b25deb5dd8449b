//! Bindings of the four families of `karl_core::objective`: a loss, its coefficients and statistics.

#![allow(clippy::too_many_arguments, reason = "one keyword an axis, as in the Python family of this name")]

use karl_core::Offsets;
use karl_core::objective::{
    Advantages, Anchor, Balance, Evaluation, LogZ, Per, PolicyGradient, Power, Ratio, Rollouts, Statistics,
    TargetPolicy, Turns, WeightedLikelihood,
};
use karl_core::objective::{
    balance as balance_of, linear_term as linear_term_of, policy_gradient as policy_gradient_of,
    target_policy as target_policy_of, weighted_likelihood as weighted_likelihood_of,
};
use numpy::{Element, PyArray1, PyReadonlyArray1, PyReadwriteArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::points::{aggregate_of, kind, mask_negatives_of, penalty_of, unknown, update_of};
use crate::boundary::array::{Column, Reals, column, flags, fresh, reals, threads};
use crate::boundary::enter::compute;
use crate::boundary::error::{ArgumentError, DTypeError};

/// The columns of a batch, all of one dtype.
struct Columns<'py> {
    logp: Reals<'py>,
    old: Option<Reals<'py>>,
    reference: Option<Reals<'py>>,
    mask: PyReadonlyArray1<'py, bool>,
    offsets: Column<'py, i64>,
}

impl<'py> Columns<'py> {
    fn of(
        logp: &Bound<'py, PyAny>,
        old: Option<&Bound<'py, PyAny>>,
        reference: Option<&Bound<'py, PyAny>>,
        mask: &Bound<'py, PyAny>,
        offsets: &Bound<'py, PyAny>,
    ) -> PyResult<Self> {
        Ok(Self {
            logp: reals("logp", logp)?,
            old: old.map(|old| reals("logp_old", old)).transpose()?,
            reference: reference.map(|reference| reals("logp_ref", reference)).transpose()?,
            mask: flags("mask", mask)?,
            offsets: column("offsets", offsets)?,
        })
    }
}

/// A number type of tokens: returns a column that has it.
trait Token: Element + karl_core::objective::Lane {
    fn column<'a>(name: &str, column: &'a Reals<'_>) -> PyResult<&'a [Self]>;
}

fn refused<T>(name: &str) -> PyResult<T> {
    Err(DTypeError::new_err(format!("{name} and logp have two dtypes, wanted one")))
}

impl Token for f32 {
    fn column<'a>(name: &str, column: &'a Reals<'_>) -> PyResult<&'a [Self]> {
        if let Reals::Single(values) = column { values.as_slice() } else { refused(name) }
    }
}

impl Token for f64 {
    fn column<'a>(name: &str, column: &'a Reals<'_>) -> PyResult<&'a [Self]> {
        if let Reals::Double(values) = column { values.as_slice() } else { refused(name) }
    }
}

/// Calls `$work` with the type of the log-probabilities.
macro_rules! of_dtype {
    ($columns:expr, $T:ident, $work:expr) => {
        match &$columns.logp {
            Reals::Single(_) => {
                type $T = f32;
                $work
            }
            Reals::Double(_) => {
                type $T = f64;
                $work
            }
        }
    };
}

impl Columns<'_> {
    /// Run a kernel that fills a column of coefficients.
    fn run<'py, T: Token, R: Send>(
        &self,
        py: Python<'py>,
        work: impl FnOnce(&Rollouts<'_, T>, &mut [T]) -> karl_core::Result<R> + Send,
    ) -> PyResult<(R, Bound<'py, PyAny>)> {
        let logp = T::column("logp", &self.logp)?;
        let old = self.old.as_ref().map(|old| T::column("logp_old", old)).transpose()?;
        let reference = self.reference.as_ref().map(|values| T::column("logp_ref", values)).transpose()?;
        let (mask, offsets) = (self.mask.as_slice()?, self.offsets.as_slice()?);
        let mut coefficients: PyReadwriteArray1<'py, T> = fresh(py, logp.len())?;
        let out = coefficients.as_slice_mut()?;
        let found = compute(py, || {
            let offsets = Offsets::new("offsets", offsets, logp.len())?;
            work(&Rollouts::new(logp, old, reference, mask, offsets)?, out)
        })?;
        Ok((found, (***coefficients).clone().into_any()))
    }
}

/// A loss, the coefficients of its tokens, and statistics.
fn evaluation<'py>(
    py: Python<'py>,
    found: &Evaluation,
    coefficients: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let held = PyDict::new(py);
    held.set_item("loss", found.loss)?;
    held.set_item("coefficients", coefficients)?;
    held.set_item("statistics", statistics(py, &found.statistics)?)?;
    Ok(held)
}

fn statistics<'py>(py: Python<'py>, found: &Statistics) -> PyResult<Bound<'py, PyDict>> {
    let held = PyDict::new(py);
    held.set_item("tokens", found.tokens as f64)?;
    held.set_item("rollouts", found.rollouts as f64)?;
    held.set_item("ratio", found.ratio)?;
    held.set_item("ratio_std", found.ratio_std)?;
    held.set_item("ratio_max", found.ratio_max)?;
    held.set_item("ratio_min", found.ratio_min)?;
    held.set_item("clip_low", found.clip_low)?;
    held.set_item("clip_high", found.clip_high)?;
    held.set_item("ratio_ess", found.ratio_ess)?;
    held.set_item("kl_old", found.kl_old)?;
    if let Some(kl) = found.kl {
        held.set_item("kl", kl)?;
    }
    Ok(held)
}

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
    let columns = Columns::of(logp, logp_old, logp_ref, mask, offsets)?;
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
    let columns = Columns::of(logp, logp_old, logp_ref, mask, offsets)?;
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
    let columns = Columns::of(logp, logp_old, None, mask, offsets)?;
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
    let columns = Columns::of(logp, logp_old, None, mask, offsets)?;
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
    let columns = Columns::of(values, None, None, mask, offsets)?;
    let aggregate = aggregate_of(aggregate, Some(denominator))?;
    of_dtype!(columns, T, {
        let values = T::column("values", &columns.logp)?;
        let ((loss, mean), coefficients) = columns.run::<T, _>(py, |rollouts, out| {
            linear_term_of(rollouts, values, factor, aggregate, out, threads())
        })?;
        Ok((loss, coefficients, mean))
    })
}
