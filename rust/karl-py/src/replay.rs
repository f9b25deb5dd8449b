//! Bindings of `karl_core::replay`.

#![allow(clippy::doc_markdown, reason = "docstrings are read in Python")]

use karl_core::Offsets;
use karl_core::replay::{self, Decay};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use crate::array::{column, flags, reals, threads, with_reals};
use crate::enter::compute;
use crate::filter::grouped;

type Column<'py> = Bound<'py, PyArray1<f64>>;

fn decayed<'py>(ages: &Bound<'py, PyAny>, decay: Decay) -> PyResult<Column<'py>> {
    let (py, ages) = (ages.py(), column::<i64>("ages", ages)?);
    let values = ages.as_slice()?;
    Ok(compute(py, || decay.log_weights(values, threads()))?.into_pyarray(py))
}

/// Log-weights by age: `-rate * age`.
#[pyfunction]
pub(crate) fn exponential_decay<'py>(ages: &Bound<'py, PyAny>, rate: f64) -> PyResult<Column<'py>> {
    decayed(ages, Decay::Exponential(rate))
}

/// Log-weights by age: 0 up to `max_age`, minus infinity beyond it.
#[pyfunction]
pub(crate) fn window_decay<'py>(ages: &Bound<'py, PyAny>, max_age: i64) -> PyResult<Column<'py>> {
    decayed(ages, Decay::Window(max_age))
}

/// Log-weights by age: `-exponent * log(1 + age)`.
#[pyfunction]
pub(crate) fn power_decay<'py>(ages: &Bound<'py, PyAny>, exponent: f64) -> PyResult<Column<'py>> {
    decayed(ages, Decay::Power(exponent))
}

/// Mean age, effective sample size and quantiles of age under log-weights.
#[pyfunction]
pub(crate) fn age_distribution(
    py: Python<'_>,
    ages: &Bound<'_, PyAny>,
    log_weights: &Bound<'_, PyAny>,
    quantiles: Vec<f64>,
) -> PyResult<(f64, f64, Vec<i64>)> {
    let (ages, weights) = (column::<i64>("ages", ages)?, column::<f64>("log_weights", log_weights)?);
    let (ages, weights) = (ages.as_slice()?, weights.as_slice()?);
    let found = compute(py, || replay::age_distribution(ages, weights, &quantiles))?;
    Ok((found.mean_age, found.ess, found.quantiles))
}

/// The surprise of each rollout: `s_i = -mean_t logp_t`, in nats a token.
///
/// Args:
///     logp: log-probabilities of the tokens taken, float32 or float64. `[T]`
///     offsets: where each rollout begins, and the last ends. `[B + 1]`
///
/// Returns:
///     float64; NaN for a rollout without tokens. `[B]`
///
/// Raises:
///     ArgumentError: a log-probability that is not finite.
///     DTypeError, LayoutError: an array that would have to be cast or copied; offsets that fit no `logp`.
#[pyfunction]
pub(crate) fn surprisal<'py>(
    py: Python<'py>,
    logp: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
) -> PyResult<Column<'py>> {
    let (logp, offsets) = (reals("logp", logp)?, column::<i64>("offsets", offsets)?);
    let places = offsets.as_slice()?;
    let out = with_reals!(&logp, |values| compute(py, || {
        replay::surprisal(values, &Offsets::new("offsets", places, values.len())?, threads())
    }))?;
    Ok(out.into_pyarray(py))
}

/// Advantage times surprise: `chi_i = A_i * s_i`. A rare success delights; a rare failure does the opposite.
///
/// Args:
///     advantages: of each rollout or token; NaN is missing and stays so. `[B]`
///     surprisals: `-log p` of the same. `[B]`
///
/// Raises:
///     ArgumentError: an infinite number, or columns of two lengths.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Osband 2026, delightful policy gradient (arXiv:2603.14608).
#[pyfunction]
pub(crate) fn delight<'py>(
    py: Python<'py>,
    advantages: &Bound<'py, PyAny>,
    surprisals: &Bound<'py, PyAny>,
) -> PyResult<Column<'py>> {
    let (advantages, surprisals) =
        (column::<f64>("advantages", advantages)?, column::<f64>("surprisals", surprisals)?);
    let (advantages, surprisals) = (advantages.as_slice()?, surprisals.as_slice()?);
    Ok(compute(py, || replay::delight(advantages, surprisals))?.into_pyarray(py))
}

/// The gate that delight opens: `g_i = sigma((chi_i - price) / eta)`, from 0 to 1.
///
/// Args:
///     delights: chi; NaN is missing and stays so. `[B]`
///     eta: how soft the gate is, above 0.
///     price: the delight at which the gate is half open; 0 for the delightful policy gradient, :func:`kondo_price`
///         for a gate that is open by a given share.
///
/// Raises:
///     ArgumentError: an infinite number, or an `eta` that is not above 0.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// References: Osband 2026 (arXiv:2603.14608); the Kondo gate (arXiv:2603.20526).
#[pyfunction]
#[pyo3(signature = (delights, *, eta=1.0, price=0.0))]
pub(crate) fn delight_gate<'py>(
    py: Python<'py>,
    delights: &Bound<'py, PyAny>,
    eta: f64,
    price: f64,
) -> PyResult<Column<'py>> {
    let delights = column::<f64>("delights", delights)?;
    let values = delights.as_slice()?;
    Ok(compute(py, || replay::delight_gate(values, eta, price, threads()))?.into_pyarray(py))
}

/// The price at which :func:`delight_gate` is open by a share `keep` on average, to the last bit.
///
/// Args:
///     delights: chi; missing ones are left out. `[B]`
///     keep: the mean of the gates, inside (0, 1).
///     eta: how soft the gate is, above 0.
///
/// Raises:
///     ArgumentError: an infinite delight, none at all, or a number outside its range.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: the Kondo gate (arXiv:2603.20526).
#[pyfunction]
#[pyo3(signature = (delights, keep, *, eta=1.0))]
pub(crate) fn kondo_price(py: Python<'_>, delights: &Bound<'_, PyAny>, keep: f64, eta: f64) -> PyResult<f64> {
    let delights = column::<f64>("delights", delights)?;
    let values = delights.as_slice()?;
    compute(py, || replay::kondo_price(values, keep, eta))
}

/// How wrong the predicted success rate of a rollout's group was: `|#right_g / G_g - predicted_i|`.
///
/// Args:
///     right: whether each rollout succeeded, bool. `[B]`
///     predicted: the success rate that was expected of its prompt; NaN where there was none. `[B]`
///     groups: the group of each rollout, negative for none. `[B]`
///     offsets: where each group begins and the last ends, instead of `groups`. `[P + 1]`
///     successes_only: give rollouts that failed no priority, as PACED-RL does.
///
/// Returns:
///     float64, NaN for a rollout without a priority. `[B]`
///
/// Raises:
///     ArgumentError: an infinite prediction, or columns of two lengths.
///     UsageError: both or none of `groups` and `offsets`.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: PACED-RL (arXiv:2602.12642).
#[pyfunction]
#[pyo3(signature = (right, predicted, groups=None, *, offsets=None, successes_only=true))]
pub(crate) fn accuracy_error<'py>(
    right: &Bound<'py, PyAny>,
    predicted: &Bound<'py, PyAny>,
    groups: Option<&Bound<'py, PyAny>>,
    offsets: Option<&Bound<'py, PyAny>>,
    successes_only: bool,
) -> PyResult<Column<'py>> {
    let (py, right, predicted) = (right.py(), flags("right", right)?, column::<f64>("predicted", predicted)?);
    let (right, predicted) = (right.as_slice()?, predicted.as_slice()?);
    let groups = grouped(groups, offsets, right.len())?;
    let work = || replay::accuracy_error(right, predicted, &groups, successes_only, threads());
    Ok(compute(py, work)?.into_pyarray(py))
}

/// Log-probabilities by priority: `log P(i) = alpha log(p_i + eps) - log sum_j (p_j + eps)^alpha`.
///
/// Args:
///     priorities: zero or more; NaN is never drawn. `[B]`
///     alpha: 0 is uniform over the rows that have a priority, 1 in proportion to it.
///     eps: added to each priority, so that one of 0 is not lost.
///
/// Returns:
///     Log-probabilities, as `karl_fast.draw` takes them; minus infinity is never drawn. `[B]`
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
) -> PyResult<Column<'py>> {
    let priorities = column::<f64>("priorities", priorities)?;
    let values = priorities.as_slice()?;
    Ok(compute(py, || replay::prioritised(values, alpha, eps, threads()))?.into_pyarray(py))
}

/// The logs of the weights that undo a draw by priority: `log w_i = beta (min_j log P(j) - log P(i))`.
///
/// That is `(1 / (N P(i)))^beta` over its largest value; N and any constant added to the log-weights cancel.
///
/// Args:
///     log_weights: what the draw was made with; minus infinity was never drawn, and stays. `[B]`
///     beta: 1 undoes the draw, 0 leaves it.
///
/// Raises:
///     ArgumentError: a log-weight that is NaN or plus infinity, or a `beta` outside [0, 1].
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Schaul et al. 2016 (arXiv:1511.05952), section 3.4.
#[pyfunction]
#[pyo3(signature = (log_weights, *, beta))]
pub(crate) fn importance_log_weights<'py>(
    py: Python<'py>,
    log_weights: &Bound<'py, PyAny>,
    beta: f64,
) -> PyResult<Column<'py>> {
    let weights = column::<f64>("log_weights", log_weights)?;
    let values = weights.as_slice()?;
    Ok(compute(py, || replay::importance_log_weights(values, beta))?.into_pyarray(py))
}

/// The rows of the k largest priorities, largest first; of equal ones the earlier row.
///
/// Args:
///     priorities: any numbers; NaN never comes. `[B]`
///     k: how many; all that have a priority where there are fewer.
///
/// Raises:
///     ArgumentError: an infinite priority.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
#[pyfunction]
pub(crate) fn largest<'py>(
    py: Python<'py>,
    priorities: &Bound<'py, PyAny>,
    k: usize,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let priorities = column::<f64>("priorities", priorities)?;
    let values = priorities.as_slice()?;
    let rows = compute(py, || replay::largest(values, k, threads()))?;
    Ok(rows.into_iter().map(i64::from).collect::<Vec<i64>>().into_pyarray(py))
}
