//! Bindings of `karl_core::kl`.

use karl_core::kl::{self, Direction, Estimator, KlTokens, Through};
use karl_core::{Offsets, Real};
use numpy::{Element, IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::boundary::array::{Column, Reals, column, flags, reals, threads, with_reals};
use crate::boundary::arrow::columns::Cell;
use crate::boundary::error::ArgumentError;
use crate::boundary::release_gil::compute;

type Any<'py> = Bound<'py, PyAny>;

/// Arguments besides the log-probabilities under the policy, not yet parsed.
#[derive(Clone, Copy)]
struct Beside<'a, 'py> {
    logp_ref: &'a Any<'py>,
    logp_old: Option<&'a Any<'py>>,
    mask: Option<&'a Any<'py>>,
}

/// The log-probabilities of one call, all of the type of the first, and which of them count.
struct Given<'a, 'py, T: Element + Cell> {
    logp: &'a [T],
    logp_ref: Column<'py, T>,
    logp_old: Option<Column<'py, T>>,
    mask: Option<PyReadonlyArray1<'py, bool>>,
}

impl<'a, 'py, T: Element + Cell + Real> Given<'a, 'py, T> {
    fn new(logp: &'a [T], beside: Beside<'_, 'py>) -> PyResult<Self> {
        let logp_ref = column("logp_ref", beside.logp_ref)?;
        let logp_old = beside.logp_old.map(|old| column("logp_old", old)).transpose()?;
        let mask = beside.mask.map(|mask| flags("mask", mask)).transpose()?;
        Ok(Self { logp, logp_ref, logp_old, mask })
    }

    fn tokens(&self) -> PyResult<KlTokens<'_, T>> {
        Ok(KlTokens {
            logp: self.logp,
            logp_ref: self.logp_ref.as_slice()?,
            logp_old: self.logp_old.as_ref().map(Column::as_slice).transpose()?,
            mask: self.mask.as_ref().map(PyReadonlyArray1::as_slice).transpose()?,
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

/// Return the estimated divergence of each token from the reference, in nats.
#[pyfunction]
#[pyo3(signature = (logp, logp_ref, *, estimator, logp_old=None, mask=None))]
pub(crate) fn kl_estimate<'py>(
    py: Python<'py>,
    logp: &Any<'py>,
    logp_ref: &Any<'py>,
    estimator: &str,
    logp_old: Option<&Any<'py>>,
    mask: Option<&Any<'py>>,
) -> PyResult<Any<'py>> {
    let (estimator, beside) = (named(estimator)?, Beside { logp_ref, logp_old, mask });
    with_reals!(&reals("logp", logp)?, |logp| Given::new(logp, beside)?.estimate(py, estimator))
}

/// Return the derivative by `logp` of each token's estimate as a loss.
#[pyfunction]
#[pyo3(signature = (logp, logp_ref, *, estimator, logp_old=None, mask=None, through_ratio=false))]
pub(crate) fn kl_gradient<'py>(
    py: Python<'py>,
    logp: &Any<'py>,
    logp_ref: &Any<'py>,
    estimator: &str,
    logp_old: Option<&Any<'py>>,
    mask: Option<&Any<'py>>,
    through_ratio: bool,
) -> PyResult<Any<'py>> {
    let (estimator, beside) = (named(estimator)?, Beside { logp_ref, logp_old, mask });
    let through = if through_ratio { Through::Ratio } else { Through::Detached };
    with_reals!(&reals("logp", logp)?, |logp| Given::new(logp, beside)?.gradient(py, estimator, through))
}

/// Subtract the k1 of each rollout from its reward.
#[pyfunction]
#[pyo3(signature = (rewards, logp, logp_ref, offsets, *, kl_coef, mask=None))]
pub(crate) fn kl_in_reward<'py>(
    py: Python<'py>,
    rewards: &Any<'py>,
    logp: &Any<'py>,
    logp_ref: &Any<'py>,
    offsets: &Any<'py>,
    kl_coef: f64,
    mask: Option<&Any<'py>>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let beside = Beside { logp_ref, logp_old: None, mask };
    let rewards = reals("rewards", rewards)?;
    let offsets = column::<i64>("offsets", offsets)?;
    let penalty = Penalty { rewards, offsets, kl_coef };
    with_reals!(&reals("logp", logp)?, |logp| penalty.applied(py, &Given::new(logp, beside)?))
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
        given: &Given<'_, 'py, T>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let (tokens, offsets, kl_coef) = (given.tokens()?, self.offsets.as_slice()?, self.kl_coef);
        let penalised = with_reals!(&self.rewards, |rewards| compute(py, || {
            let offsets = Offsets::new("offsets", offsets, tokens.logp.len())?;
            kl::in_reward(rewards, tokens, &offsets, kl_coef, threads())
        }));
        Ok(penalised?.into_pyarray(py))
    }
}

/// Return the divergence of each row of logits, which stand row by row.
#[pyfunction]
pub(crate) fn kl_categorical<'py>(
    py: Python<'py>,
    logits: &Any<'py>,
    logits_ref: &Any<'py>,
    vocabulary: usize,
    direction: &str,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let direction = towards(direction)?;
    with_reals!(&reals("logits", logits)?, |logits| divergences(
        py, logits, logits_ref, vocabulary, direction
    ))
}

fn divergences<'py, T: Element + Cell + Real>(
    py: Python<'py>,
    logits: &[T],
    logits_ref: &Any<'py>,
    vocabulary: usize,
    direction: Direction,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let logits_ref = column::<T>("logits_ref", logits_ref)?;
    let q = logits_ref.as_slice()?;
    let found = compute(py, || kl::categorical(logits, q, vocabulary, direction, threads()))?;
    Ok(found.into_pyarray(py))
}

/// Return the derivative of the divergence of each row by its logits, which stand row by row.
#[pyfunction]
pub(crate) fn kl_categorical_gradient<'py>(
    py: Python<'py>,
    logits: &Any<'py>,
    logits_ref: &Any<'py>,
    vocabulary: usize,
    direction: &str,
) -> PyResult<Any<'py>> {
    let direction = towards(direction)?;
    with_reals!(&reals("logits", logits)?, |logits| slopes(py, logits, logits_ref, vocabulary, direction))
}

fn slopes<'py, T: Element + Cell + Real>(
    py: Python<'py>,
    logits: &[T],
    logits_ref: &Any<'py>,
    vocabulary: usize,
    direction: Direction,
) -> PyResult<Any<'py>> {
    let logits_ref = column::<T>("logits_ref", logits_ref)?;
    let q = logits_ref.as_slice()?;
    let found = compute(py, || kl::categorical_gradient(logits, q, vocabulary, direction, threads()))?;
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
