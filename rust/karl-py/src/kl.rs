//! Bindings of `karl_core::kl`.

#![allow(clippy::doc_markdown, reason = "these are docstrings of Python")]

use karl_core::kl::{self, Direction, Estimator, Through, Tokens};
use karl_core::{Offsets, Real};
use numpy::{Element, IntoPyArray, PyArray1};
use pyo3::prelude::*;

use crate::array::{Column, Reals, column, reals, threads, with_reals};
use crate::arrow::columns::Cell;
use crate::enter::compute;
use crate::error::ArgumentError;

type Any<'py> = Bound<'py, PyAny>;

/// The log-probabilities of one call, all of the type of the first.
struct Given<'py, T: Element + Cell> {
    logp: Column<'py, T>,
    logp_ref: Column<'py, T>,
    logp_old: Option<Column<'py, T>>,
}

impl<'py, T: Element + Cell + Real> Given<'py, T> {
    fn new(logp: Column<'py, T>, logp_ref: &Any<'py>, logp_old: Option<&Any<'py>>) -> PyResult<Self> {
        let logp_ref = column("logp_ref", logp_ref)?;
        let logp_old = logp_old.map(|old| column("logp_old", old)).transpose()?;
        Ok(Self { logp, logp_ref, logp_old })
    }

    fn tokens(&self) -> PyResult<Tokens<'_, T>> {
        Ok(Tokens {
            logp: self.logp.as_slice()?,
            logp_ref: self.logp_ref.as_slice()?,
            logp_old: self.logp_old.as_ref().map(Column::as_slice).transpose()?,
        })
    }

    fn estimate(&self, py: Python<'py>, estimator: Estimator) -> PyResult<Any<'py>> {
        let tokens = self.tokens()?;
        Ok(compute(py, || kl::estimate(tokens, estimator, threads()))?.into_pyarray(py).into_any())
    }

    fn gradient(&self, py: Python<'py>, estimator: Estimator, through: Through) -> PyResult<Any<'py>> {
        let tokens = self.tokens()?;
        Ok(compute(py, || kl::gradient(tokens, estimator, through, threads()))?.into_pyarray(py).into_any())
    }
}

/// The estimated divergence of each token from the reference, in nats.
///
/// ```text
/// d = logp - logp_ref
/// k1 = d        k2 = d^2 / 2        k3 = exp(-d) + d - 1
/// ```
///
/// k1 and k3 have the reverse KL(policy, reference) as their mean over tokens of the policy, k2 does not quite; k1 is of
/// either sign, and the others are never negative. Where another policy drew the tokens, each is multiplied by
/// `exp(logp - logp_old)`. The sum over a rollout is an estimate of its sequence for k1 alone. Nothing is clamped.
/// What each is worth as a loss is told by `gradient`.
///
/// Args:
///     logp: under the policy, float32 or float64, finite. A NumPy array or an Arrow column. [T]
///     logp_ref: under the reference, of the same type. [T]
///     estimator: ``"k1"``, ``"k2"`` or ``"k3"``.
///     logp_old: under the policy that drew the tokens, where it is another. [T]
///
/// Returns:
///     of the type of `logp`. [T]
///
/// Raises:
///     ArgumentError: a number that is not finite, an estimate beyond its type, arrays that differ in tokens, or another
///         estimator.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Schulman, Approximating KL divergence (2020).
#[pyfunction]
#[pyo3(signature = (logp, logp_ref, *, estimator, logp_old=None))]
pub(crate) fn kl_estimate<'py>(
    py: Python<'py>,
    logp: &Any<'py>,
    logp_ref: &Any<'py>,
    estimator: &str,
    logp_old: Option<&Any<'py>>,
) -> PyResult<Any<'py>> {
    let estimator = named(estimator)?;
    match reals("logp", logp)? {
        Reals::Single(logp) => Given::new(logp, logp_ref, logp_old)?.estimate(py, estimator),
        Reals::Double(logp) => Given::new(logp, logp_ref, logp_old)?.estimate(py, estimator),
    }
}

/// The derivative by `logp` of each token's estimate as a loss: what a step multiplies the gradient of `logp` by.
///
/// ```text
///       ratio a constant      through the ratio          r = exp(logp - logp_old), 1 without logp_old
/// k1    r                     r (d + 1)
/// k2    r d                   r (d^2 / 2 + d)
/// k3    r (1 - exp(-d))       r d
/// ```
///
/// On tokens of the policy, k1 as a loss has a mean gradient of zero and holds nothing back; k2 has that of the reverse
/// KL(policy, reference); k3 has that of the forward KL(reference, policy), which is unbounded where the policy is far
/// below the reference. Off policy, k2 with a constant ratio and k3 through the ratio have that of the reverse KL exactly;
/// k2 without a ratio is biased. The honest penalties are these two, and k1 in the reward (`in_reward`).
///
/// Args:
///     logp, logp_ref, estimator, logp_old: as of `estimate`.
///     through_ratio: whether the ratio is differentiated too. Without `logp_old` it is 1, and its derivative is not 0.
///
/// Returns:
///     of the type of `logp`. [T]
///
/// Raises:
///     ArgumentError, DTypeError, LayoutError: as `estimate`.
///
/// Reference: A Comedy of Estimators (arXiv:2512.21852); DeepSeek-V3.2 for k3 through the ratio.
#[pyfunction]
#[pyo3(signature = (logp, logp_ref, *, estimator, logp_old=None, through_ratio=false))]
pub(crate) fn kl_gradient<'py>(
    py: Python<'py>,
    logp: &Any<'py>,
    logp_ref: &Any<'py>,
    estimator: &str,
    logp_old: Option<&Any<'py>>,
    through_ratio: bool,
) -> PyResult<Any<'py>> {
    let estimator = named(estimator)?;
    let through = if through_ratio { Through::Ratio } else { Through::Detached };
    match reals("logp", logp)? {
        Reals::Single(logp) => Given::new(logp, logp_ref, logp_old)?.gradient(py, estimator, through),
        Reals::Double(logp) => Given::new(logp, logp_ref, logp_old)?.gradient(py, estimator, through),
    }
}

/// Rewards less the k1 of their rollouts, the penalty whose policy gradient is that of the reverse KL.
///
/// ```text
/// r_i - kl_coef * sum over its tokens of (logp - logp_ref)
/// ```
///
/// Take advantages of the result; the penalty itself is a number and carries no gradient. A missing reward stays missing.
///
/// Args:
///     rewards: float64 or float32. [B]
///     logp, logp_ref: of the tokens of all rollouts, one type, finite. [T]
///     offsets: int64: the tokens of rollout i are `offsets[i]:offsets[i + 1]`. [B + 1]
///     kl_coef: the weight of the penalty.
///
/// Returns:
///     float64. [B]
///
/// Raises:
///     ArgumentError: a number that is not finite, or arrays that differ in length.
///     DTypeError, LayoutError: an array that would have to be cast or copied, or offsets that are none.
///
/// Reference: Ziegler et al. (arXiv:1909.08593).
#[pyfunction]
#[pyo3(signature = (rewards, logp, logp_ref, offsets, *, kl_coef))]
pub(crate) fn kl_in_reward<'py>(
    py: Python<'py>,
    rewards: &Any<'py>,
    logp: &Any<'py>,
    logp_ref: &Any<'py>,
    offsets: &Any<'py>,
    kl_coef: f64,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let rewards = reals("rewards", rewards)?;
    let offsets = column::<i64>("offsets", offsets)?;
    let penalty = Penalty { rewards, offsets, kl_coef };
    match reals("logp", logp)? {
        Reals::Single(logp) => penalty.applied(py, &Given::new(logp, logp_ref, None)?),
        Reals::Double(logp) => penalty.applied(py, &Given::new(logp, logp_ref, None)?),
    }
}

struct Penalty<'py> {
    rewards: Reals<'py>,
    offsets: Column<'py, i64>,
    kl_coef: f64,
}

impl<'py> Penalty<'py> {
    fn applied<T: Element + Cell + Real>(
        &self,
        py: Python<'py>,
        given: &Given<'py, T>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let (tokens, offsets, kl_coef) = (given.tokens()?, self.offsets.as_slice()?, self.kl_coef);
        let penalised = with_reals!(&self.rewards, |rewards| compute(py, || {
            let offsets = Offsets::new("offsets", offsets, tokens.logp.len())?;
            kl::in_reward(rewards, tokens, &offsets, kl_coef, threads())
        }));
        Ok(penalised?.into_pyarray(py))
    }
}

/// The divergence of each row of logits, which stand row by row.
#[pyfunction]
pub(crate) fn kl_categorical<'py>(
    py: Python<'py>,
    logits: &Any<'py>,
    logits_ref: &Any<'py>,
    vocabulary: usize,
    direction: &str,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let direction = towards(direction)?;
    match reals("logits", logits)? {
        Reals::Single(logits) => divergences(py, &logits, logits_ref, vocabulary, direction),
        Reals::Double(logits) => divergences(py, &logits, logits_ref, vocabulary, direction),
    }
}

fn divergences<'py, T: Element + Cell + Real>(
    py: Python<'py>,
    logits: &Column<'py, T>,
    logits_ref: &Any<'py>,
    vocabulary: usize,
    direction: Direction,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let logits_ref = column::<T>("logits_ref", logits_ref)?;
    let (p, q) = (logits.as_slice()?, logits_ref.as_slice()?);
    let found = compute(py, || kl::categorical(p, q, vocabulary, direction, threads()))?;
    Ok(found.into_pyarray(py))
}

/// The derivative of the divergence of each row by its logits, which stand row by row.
#[pyfunction]
pub(crate) fn kl_categorical_gradient<'py>(
    py: Python<'py>,
    logits: &Any<'py>,
    logits_ref: &Any<'py>,
    vocabulary: usize,
    direction: &str,
) -> PyResult<Any<'py>> {
    let direction = towards(direction)?;
    match reals("logits", logits)? {
        Reals::Single(logits) => slopes(py, &logits, logits_ref, vocabulary, direction),
        Reals::Double(logits) => slopes(py, &logits, logits_ref, vocabulary, direction),
    }
}

fn slopes<'py, T: Element + Cell + Real>(
    py: Python<'py>,
    logits: &Column<'py, T>,
    logits_ref: &Any<'py>,
    vocabulary: usize,
    direction: Direction,
) -> PyResult<Any<'py>> {
    let logits_ref = column::<T>("logits_ref", logits_ref)?;
    let (p, q) = (logits.as_slice()?, logits_ref.as_slice()?);
    let found = compute(py, || kl::categorical_gradient(p, q, vocabulary, direction, threads()))?;
    Ok(found.into_pyarray(py).into_any())
}

fn named(estimator: &str) -> PyResult<Estimator> {
    match estimator {
        "k1" => Ok(Estimator::K1),
        "k2" => Ok(Estimator::K2),
        "k3" => Ok(Estimator::K3),
        _ => Err(ArgumentError::new_err(format!("estimator is \"{estimator}\", wanted k1, k2 or k3"))),
    }
}

fn towards(direction: &str) -> PyResult<Direction> {
    match direction {
        "reverse" => Ok(Direction::Reverse),
        "forward" => Ok(Direction::Forward),
        _ => Err(ArgumentError::new_err(format!("direction is \"{direction}\", wanted reverse or forward"))),
    }
}
