//! Binding of `karl_core::target`.

#![allow(clippy::doc_markdown, reason = "these are docstrings of Python")]

use karl_core::target::Tpo;
use karl_core::{Scopes, Temperature, logsumexp, target};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use crate::boundary::array::{groups, reals, threads, widened, with_reals};
use crate::boundary::error::UsageError;
use crate::boundary::grouping::{Grouping, OptionalArgument, score};
use crate::boundary::release_gil::compute;

type Doubles<'py> = Bound<'py, PyArray1<f64>>;

/// Result of `boltzmann`, as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct Target<'py> {
    inverse_temperature: f64,
    wanted_ess: Option<f64>,
    reached_ess: f64,
    reached_share: f64,
    wanted_kl: Option<f64>,
    reached_kl: f64,
    note: Option<&'static str>,
    log_z: Bound<'py, PyArray1<f64>>,
    log_weights: Bound<'py, PyArray1<f64>>,
}

/// Return the temperature from exactly one of two arguments.
pub(crate) fn temperature(ess: Option<f64>, inverse_temperature: Option<f64>) -> PyResult<Temperature> {
    match (ess, inverse_temperature) {
        (Some(share), None) => Ok(Temperature::Ess(share)),
        (None, Some(given)) => Ok(Temperature::Inverse(given)),
        _ => Err(UsageError::new_err("give either ess or inverse_temperature")),
    }
}

/// Return the same with a third choice, a divergence from uniform.
fn sharpness(ess: Option<f64>, inverse_temperature: Option<f64>, kl: Option<f64>) -> PyResult<Temperature> {
    match (ess, inverse_temperature, kl) {
        (None, None, Some(nats)) => Ok(Temperature::Kl(nats)),
        (_, _, Some(_)) => Err(UsageError::new_err("give one of ess, inverse_temperature and kl")),
        (ess, inverse_temperature, None) => temperature(ess, inverse_temperature),
    }
}

/// Return the Boltzmann target of scores: `log w_i = b s_i - log Z(scope of i)`.
#[allow(clippy::similar_names, reason = "scores and scopes are what callers say")]
#[pyfunction]
#[pyo3(signature = (scores, scopes=None, *, ess=None, inverse_temperature=None, kl=None))]
pub(crate) fn boltzmann<'py>(
    py: Python<'py>,
    scores: &Bound<'py, PyAny>,
    scopes: Option<&Bound<'py, PyAny>>,
    ess: Option<f64>,
    inverse_temperature: Option<f64>,
    kl: Option<f64>,
) -> PyResult<Target<'py>> {
    let scores = widened("scores", scores)?;
    let partition = scopes.map(|ids| groups("scopes", ids)).transpose()?;
    let temperature = sharpness(ess, inverse_temperature, kl)?;
    let values = scores.as_slice()?;
    let target = compute(py, || {
        let within = partition.as_ref().map_or(Scopes::Whole, Scopes::Of);
        target::boltzmann(values, within, temperature, threads())
    })?;
    Ok(Target {
        inverse_temperature: target.inverse_temperature,
        wanted_ess: target.wanted_ess,
        reached_ess: target.reached_ess,
        reached_share: target.reached_share,
        wanted_kl: target.wanted_kl,
        reached_kl: target.reached_kl,
        note: target.note.map(target::Note::name),
        log_z: target.log_z.into_pyarray(py),
        log_weights: target.log_weights.into_pyarray(py),
    })
}

/// Compute the soft value of each row's group: between the mean of its rewards and the largest.
///
/// ```text
/// V = t log((1/n) sum_i exp(r_i / t))      t = temperature:   0 -> max r,   infinite -> mean r
/// ```
///
/// Each row has the value of its group, so that `rewards - soft_value(...)` is the advantage of OAPL and of A*PO, and
/// with an infinite temperature that of Kimi k1.5. A*PO writes the mean as temperature 0. A missing reward is left
/// out; the value of equal rewards is exactly theirs.
///
/// Args:
///     rewards: float64 or float32; NaN or null is missing. [B]
///     group_ids: int64, negative for none, or names in an Arrow column. [B]
///     offsets: instead of ids, where each group begins, for groups end to end. [P + 1]
///     temperature: zero or more, and infinite too; in units of the reward.
///
/// Returns:
///     float64; NaN for a row without a group, or in a group without rewards. [B]
///
/// Raises:
///     ArgumentError: an infinite reward, a negative temperature, or columns that differ in rows.
///     UsageError: both or neither of group_ids and offsets.
///     DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.
///
/// Reference: OAPL (arXiv:2602.19362), A*PO (arXiv:2505.20686), Kimi k1.5 (arXiv:2501.12599).
#[pyfunction]
#[pyo3(signature = (rewards, group_ids=None, *, offsets=None, temperature))]
pub(crate) fn soft_value<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    group_ids: Option<&Bound<'py, PyAny>>,
    offsets: Option<&Bound<'py, PyAny>>,
    temperature: f64,
) -> PyResult<Doubles<'py>> {
    score!(py, rewards, (group_ids, offsets), |values, layout| {
        logsumexp::soft_value(values, layout, temperature, threads())
    })
}

/// Return the intercept that a regression of log-ratios on rewards fits to each group.
///
/// ```text
/// c = argmin_c sum_i (c + log_ratio_i - r_i / t)^2 = mean_i(r_i / t - log_ratio_i)      t = temperature
/// log_ratio_i = logp_i - logp_old_i over whole rollouts of the behaviour policy:  c = mean(r) / t + KL(old, current)
/// ```
///
/// This is what PACED's learned log Z converges to, and why `t c` follows the mean reward. It is not the log partition:
/// `t log mean exp(r / t)` (`soft_value`) is near the largest reward. One of eight right at t = 0.05: 0.125 against 0.896.
///
/// Args:
///     rewards: float64 or float32; NaN or null is missing, and its row left out. [B]
///     log_ratio: policy over behaviour policy, summed over tokens; float64 or float32, finite. [B]
///     group_ids: int64, negative for none, or names in an Arrow column. [B]
///     offsets: instead of ids, where each group begins, for groups end to end. [P + 1]
///     temperature: above zero; PACED's is 0.05.
///
/// Returns:
///     float64, in nats, on each row of the group; NaN for a row without a group, or in a group without rewards. [B]
///
/// Raises:
///     ArgumentError: an infinite number, a temperature not above zero, or columns that differ in rows.
///     UsageError: both or neither of group_ids and offsets.
///     DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.
///
/// Reference: PACED-RL (arXiv:2602.12642), proposition 4.1.
#[pyfunction]
#[pyo3(signature = (rewards, log_ratio, group_ids=None, *, offsets=None, temperature))]
pub(crate) fn regression_intercept<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    log_ratio: &Bound<'py, PyAny>,
    group_ids: OptionalArgument<'_, 'py>,
    offsets: OptionalArgument<'_, 'py>,
    temperature: f64,
) -> PyResult<Doubles<'py>> {
    let log_ratio = reals("log_ratio", log_ratio)?;
    with_reals!(&log_ratio, |log_ratio| {
        score!(py, rewards, (group_ids, offsets), |values, layout| {
            logsumexp::regression_intercept(values, log_ratio, layout, temperature, threads())
        })
    })
}

/// Compute the weights of advantage-weighted regression.
///
/// ```text
/// w_i = min(exp(A_i / t), clip),      normalised after the clip: w_i / sum_j w_j      t = temperature
/// ```
///
/// Args:
///     advantages: float64 or float32; a missing one has weight 0. [B]
///     temperature: above zero. The paper's is 0.05 or 1.
///     clip: the largest weight before it is normalised; without one (None), normalised weights are a softmax, which
///         cannot overflow.
///     normalised: true for weights that add up to 1.
///
/// Returns:
///     float64. [B]
///
/// Raises:
///     ArgumentError: an infinite advantage, a weight beyond float64, or a temperature or clip not above zero.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Peng et al., Advantage-Weighted Regression (arXiv:1910.00177), with a clip of 20.
#[pyfunction]
#[pyo3(signature = (advantages, *, temperature, clip=20.0, normalised=false))]
pub(crate) fn awr_weights<'py>(
    py: Python<'py>,
    advantages: &Bound<'py, PyAny>,
    temperature: f64,
    clip: Option<f64>,
    normalised: bool,
) -> PyResult<Doubles<'py>> {
    let advantages = reals("advantages", advantages)?;
    let weights = with_reals!(&advantages, |advantages| {
        compute(py, || target::awr_weights(advantages, temperature, clip, normalised, threads()))
    });
    Ok(weights?.into_pyarray(py))
}

/// Compute the weights of reward-weighted regression, which add up to 1: `w_i = exp(b r_i) / sum_j exp(b r_j)`.
///
/// Args:
///     rewards: float64 or float32; a missing one has weight 0. [B]
///     inverse_temperature: b, zero or more.
///
/// Returns:
///     float64. [B]
///
/// Raises:
///     ArgumentError: an infinite reward, an exponent beyond float64, or a negative inverse temperature.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Peters and Schaal, Reinforcement learning by reward-weighted regression (2007).
#[pyfunction]
#[pyo3(signature = (rewards, *, inverse_temperature))]
pub(crate) fn rwr_weights<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    inverse_temperature: f64,
) -> PyResult<Doubles<'py>> {
    let rewards = reals("rewards", rewards)?;
    let weights = with_reals!(&rewards, |rewards| {
        compute(py, || target::rwr_weights(rewards, inverse_temperature, threads()))
    });
    Ok(weights?.into_pyarray(py))
}

/// Return the target probability of each candidate among those of its prompt, after Target Policy Optimization.
///
/// ```text
/// q_i = softmax over the group of (logp_old_i + u_i / t)           t = temperature
/// u_i = (r_i - mean) / std, ddof 0;  r_i - mean where std <= 1e-6;  exactly 0 where all rewards are equal
/// ```
///
/// The loss is `-sum_i q_i log p_i` with p the softmax of `logp` over the group; its gradient by `logp` is `p - q`.
///
/// Args:
///     logp_old: of whole candidates under the behaviour policy, float64 or float32. [B]
///     rewards: float64 or float32; a row with a missing one is not a candidate. [B]
///     group_ids: int64, negative for none, or names in an Arrow column. [B]
///     offsets: instead of ids, where each group begins, for groups end to end. [P + 1]
///     temperature: above zero. The paper's is 1.
///     anchored: whether the target starts from the behaviour policy; without, it is a softmax of utilities alone.
///
/// Returns:
///     float64; 0 for a row that is not a candidate. [B]
///
/// Raises:
///     ArgumentError: an infinite reward, a log-probability that is NaN or plus infinity, a temperature not above zero, or
///         columns that differ in rows.
///     UsageError: both or neither of group_ids and offsets.
///     DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.
///
/// Reference: Kaddour, Target Policy Optimization (arXiv:2604.06159).
#[pyfunction]
#[pyo3(signature = (logp_old, rewards, group_ids=None, *, offsets=None, temperature=1.0, anchored=true))]
pub(crate) fn tpo_target<'py>(
    py: Python<'py>,
    logp_old: &Bound<'py, PyAny>,
    rewards: &Bound<'py, PyAny>,
    group_ids: OptionalArgument<'_, 'py>,
    offsets: OptionalArgument<'_, 'py>,
    temperature: f64,
    anchored: bool,
) -> PyResult<Doubles<'py>> {
    let (logp_old, rewards) = (reals("logp_old", logp_old)?, reals("rewards", rewards)?);
    let (grouping, settings) = (Grouping::in_any_order(group_ids, offsets)?, Tpo { temperature, anchored });
    let probabilities = with_reals!(&logp_old, |logp_old| with_reals!(&rewards, |rewards| {
        let groups = grouping.codes("offsets", rewards.len())?;
        compute(py, || target::tpo(logp_old, rewards, &groups, settings, threads()))
    }));
    Ok(probabilities?.into_pyarray(py))
}
