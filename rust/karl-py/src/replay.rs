//! Bindings of `karl_core::replay`.

#![allow(clippy::doc_markdown, reason = "docstrings are read in Python")]

use crate::boundary::array::{column, count, flags, reals, threads, with_reals};
use crate::boundary::grouping::Grouping;
use crate::boundary::release_gil::compute;
use karl_core::Offsets;
use karl_core::replay::{self, Decay};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

type Floats<'py> = Bound<'py, PyArray1<f64>>;

fn decayed<'py>(ages: &Bound<'py, PyAny>, decay: Decay) -> PyResult<Floats<'py>> {
    let (py, ages) = (ages.py(), column::<i64>("ages", ages)?);
    let values = ages.as_slice()?;
    Ok(compute(py, || decay.log_weights(values, threads()))?.into_pyarray(py))
}

/// Compute log-weights by age: `-rate * age`.
#[pyfunction]
pub(crate) fn exponential_decay<'py>(ages: &Bound<'py, PyAny>, rate: f64) -> PyResult<Floats<'py>> {
    decayed(ages, Decay::Exponential(rate))
}

/// Compute log-weights by age: 0 up to `max_age`, minus infinity beyond it.
#[pyfunction]
pub(crate) fn window_decay<'py>(ages: &Bound<'py, PyAny>, max_age: i64) -> PyResult<Floats<'py>> {
    decayed(ages, Decay::Window(max_age))
}

/// Compute log-weights by age: `-exponent * log(1 + age)`.
#[pyfunction]
pub(crate) fn power_decay<'py>(ages: &Bound<'py, PyAny>, exponent: f64) -> PyResult<Floats<'py>> {
    decayed(ages, Decay::Power(exponent))
}

/// Compute mean age, effective sample size and quantiles of age under log-weights.
#[pyfunction]
pub(crate) fn age_distribution(
    py: Python<'_>,
    ages: &Bound<'_, PyAny>,
    log_weights: &Bound<'_, PyAny>,
    quantiles: Vec<f64>,
) -> PyResult<(f64, f64, Vec<i64>)> {
    let (ages, weights) = (column::<i64>("ages", ages)?, reals("log_weights", log_weights)?);
    let ages = ages.as_slice()?;
    let found =
        with_reals!(&weights, |logs| compute(py, || replay::age_distribution(ages, logs, &quantiles)))?;
    Ok((found.mean_age, found.ess, found.quantiles))
}

/// Compute the surprise of each rollout: the mean of -log p over its tokens, in nats per token.
///
/// ```text
/// s_i = -mean_t logp_t,   t the unmasked tokens of i
/// ```
///
/// Args:
///     logp: log-probabilities of the tokens taken. float32 or float64. [T]
///     offsets: where each rollout begins, and where the last one ends. [B + 1]
///     mask: true for tokens that count, all by default; a masked one is not read. [T]
///
/// Returns:
///     float64; NaN for a rollout without a token that counts. [B]
///
/// Raises:
///     ArgumentError: a log-probability that is not finite, or a mask of another length.
///     DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.
///
/// Reference: Osband 2026, delightful policy gradient (arXiv:2603.14608), which defines this surprise.
#[pyfunction]
#[pyo3(signature = (logp, offsets, *, mask=None))]
pub(crate) fn surprisal<'py>(
    py: Python<'py>,
    logp: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    mask: Option<&Bound<'py, PyAny>>,
) -> PyResult<Floats<'py>> {
    let (logp, offsets) = (reals("logp", logp)?, column::<i64>("offsets", offsets)?);
    let mask = mask.map(|mask| flags("mask", mask)).transpose()?;
    let mask = mask.as_ref().map(|mask| mask.as_slice()).transpose()?;
    let places = offsets.as_slice()?;
    let out = with_reals!(&logp, |values| compute(py, || {
        replay::surprisal(values, &Offsets::new("offsets", places, values.len())?, mask, threads())
    }))?;
    Ok(out.into_pyarray(py))
}

/// Multiply advantage by surprise (delight): a rare success has a large one, a rare failure a negative one.
///
/// ```text
/// chi_i = A_i * s_i
/// ```
///
/// Args:
///     advantages: of each rollout or token; NaN is missing and stays so. float64 or float32. [B]
///     surprisals: -log p of the same. float64 or float32. [B]
///
/// Returns:
///     chi, float64. [B]
///
/// Raises:
///     ArgumentError: an infinite number, or columns that differ in length.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Osband 2026, delightful policy gradient (arXiv:2603.14608).
#[pyfunction]
pub(crate) fn delight<'py>(
    py: Python<'py>,
    advantages: &Bound<'py, PyAny>,
    surprisals: &Bound<'py, PyAny>,
) -> PyResult<Floats<'py>> {
    let (advantages, surprisals) = (reals("advantages", advantages)?, reals("surprisals", surprisals)?);
    let out = with_reals!(&advantages, |left| with_reals!(&surprisals, |right| {
        compute(py, || replay::delight(left, right))
    }));
    Ok(out?.into_pyarray(py))
}

/// Return the gate that delight opens, from 0 to 1.
///
/// ```text
/// g_i = sigma((chi_i - price) / eta),   sigma(x) = 1 / (1 + exp(-x))
/// ```
///
/// Args:
///     delights: chi; NaN is missing and stays so. float64 or float32. [B]
///     eta: how soft the gate is, above 0.
///     price: the delight at which the gate is half open; 0 for the delightful policy gradient, `kondo_price` for a
///         gate that is open by a given share.
///
/// Returns:
///     float64. [B]
///
/// Raises:
///     ArgumentError: an infinite number, or an eta that is not above 0.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Osband 2026 (arXiv:2603.14608); the Kondo gate (arXiv:2603.20526).
#[pyfunction]
#[pyo3(signature = (delights, *, eta=1.0, price=0.0))]
pub(crate) fn delight_gate<'py>(
    py: Python<'py>,
    delights: &Bound<'py, PyAny>,
    eta: f64,
    price: f64,
) -> PyResult<Floats<'py>> {
    let delights = reals("delights", delights)?;
    let out = with_reals!(&delights, |values| compute(py, || {
        replay::delight_gate(values, eta, price, threads())
    }));
    Ok(out?.into_pyarray(py))
}

/// Return the price at which `delight_gate` is open by a given share on average, to the last bit.
///
/// ```text
/// price:  mean_i sigma((chi_i - price) / eta) = keep
/// ```
///
/// Args:
///     delights: chi; missing ones are left out. float64 or float32. [B]
///     keep: the mean of the gates, inside (0, 1).
///     eta: how soft the gate is, above 0.
///
/// Returns:
///     One number.
///
/// Raises:
///     ArgumentError: an infinite delight, none at all, or a number outside its range.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: the Kondo gate (arXiv:2603.20526).
#[pyfunction]
#[pyo3(signature = (delights, keep, *, eta=1.0))]
pub(crate) fn kondo_price(py: Python<'_>, delights: &Bound<'_, PyAny>, keep: f64, eta: f64) -> PyResult<f64> {
    let delights = reals("delights", delights)?;
    with_reals!(&delights, |values| compute(py, || replay::kondo_price(values, keep, eta)))
}

/// Compute the error of the predicted success rate of a rollout's group.
///
/// ```text
/// e_i = |#right_g / G_g - predicted_i|,   g the group of i
/// ```
///
/// Args:
///     right: true for each rollout that succeeded. [B]
///     predicted: the success rate that was expected of its prompt; NaN where there was none. float64 or float32. [B]
///     group_ids: the group of each rollout, negative for none. [B]
///     offsets: where each group begins and the last ends, instead of `group_ids`. [P + 1]
///     successes_only: give rollouts that failed no priority, as PACED-RL does.
///
/// Returns:
///     float64, NaN for a rollout without a priority. [B]
///
/// Raises:
///     ArgumentError: an infinite prediction, or columns that differ in length.
///     UsageError: both or none of `group_ids` and `offsets`.
///     DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.
///
/// Reference: PACED-RL (arXiv:2602.12642).
#[pyfunction]
#[pyo3(signature = (right, predicted, group_ids=None, *, offsets=None, successes_only=true))]
pub(crate) fn accuracy_error<'py>(
    right: &Bound<'py, PyAny>,
    predicted: &Bound<'py, PyAny>,
    group_ids: Option<&Bound<'py, PyAny>>,
    offsets: Option<&Bound<'py, PyAny>>,
    successes_only: bool,
) -> PyResult<Floats<'py>> {
    let (py, right, predicted) = (right.py(), flags("right", right)?, reals("predicted", predicted)?);
    let right = right.as_slice()?;
    let groups = Grouping::in_order(group_ids, offsets)?.codes("offsets", right.len())?;
    let out = with_reals!(&predicted, |rates| compute(py, || {
        replay::accuracy_error(right, rates, &groups, successes_only, threads())
    }));
    Ok(out?.into_pyarray(py))
}

/// Compute log-probabilities by priority.
///
/// ```text
/// log P(i) = alpha log(p_i + eps) - log sum_j (p_j + eps)^alpha
/// ```
///
/// Args:
///     priorities: zero or more; NaN is never drawn. float64 or float32. [B]
///     alpha: 0 is uniform over the rows that have a priority, 1 in proportion to it.
///     eps: added to each priority, so that one of 0 is not lost.
///
/// Returns:
///     Log-probabilities, as `karl_fast.draw` takes them; minus infinity is never drawn. [B]
///
/// Raises:
///     ArgumentError: a negative or infinite priority, a number outside its range, or no row that can be drawn.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Schaul et al. 2016, prioritized experience replay (arXiv:1511.05952), eq. 1.
#[pyfunction]
#[pyo3(signature = (priorities, *, alpha, eps=0.0))]
pub(crate) fn prioritised<'py>(
    py: Python<'py>,
    priorities: &Bound<'py, PyAny>,
    alpha: f64,
    eps: f64,
) -> PyResult<Floats<'py>> {
    let priorities = reals("priorities", priorities)?;
    let out = with_reals!(&priorities, |values| compute(py, || {
        replay::prioritised(values, alpha, eps, threads())
    }));
    Ok(out?.into_pyarray(py))
}

/// Return the logs of the weights that undo a draw by priority.
///
/// ```text
/// w_i = (1 / (N P(i)))^beta / max_j (1 / (N P(j)))^beta,   so   log w_i = beta (min_j log P(j) - log P(i))
/// ```
///
/// N and any constant added to the log-weights cancel.
///
/// Args:
///     log_weights: what the draw was made with; minus infinity was never drawn, and stays. float64 or float32. [B]
///     beta: 1 undoes the draw, 0 leaves it.
///
/// Returns:
///     float64, 0 for the row that was least likely to be drawn. [B]
///
/// Raises:
///     ArgumentError: a log-weight that is NaN or plus infinity, or a beta outside [0, 1].
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Schaul et al. 2016 (arXiv:1511.05952), section 3.4.
#[pyfunction]
#[pyo3(signature = (log_weights, *, beta))]
pub(crate) fn importance_log_weights<'py>(
    py: Python<'py>,
    log_weights: &Bound<'py, PyAny>,
    beta: f64,
) -> PyResult<Floats<'py>> {
    let weights = reals("log_weights", log_weights)?;
    let out = with_reals!(&weights, |values| compute(py, || replay::importance_log_weights(values, beta)));
    Ok(out?.into_pyarray(py))
}

/// Return the rows of the k largest priorities, largest first; of equal ones the earlier row.
///
/// Args:
///     priorities: any numbers; NaN never comes. float64 or float32. [B]
///     k: how many, 0 or more; all that have a priority where there are fewer.
///
/// Returns:
///     Row numbers, int64. [k]
///
/// Raises:
///     ArgumentError: an infinite priority, or a k below 0.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
#[pyfunction]
pub(crate) fn largest<'py>(
    py: Python<'py>,
    priorities: &Bound<'py, PyAny>,
    k: i64,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let (priorities, k) = (reals("priorities", priorities)?, count("k", k)?);
    let rows = with_reals!(&priorities, |values| compute(py, || replay::largest(values, k, threads())))?;
    Ok(rows.into_iter().map(i64::from).collect::<Vec<i64>>().into_pyarray(py))
}
