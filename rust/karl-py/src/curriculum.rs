//! Bindings of `karl_core::curriculum`.

#![allow(clippy::doc_markdown, reason = "docstrings are read in Python")]

use karl_core::curriculum;
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::boundary::array::{column, count, reals, small_count, threads, with_reals};
use crate::boundary::error::{ArgumentError, to_python};
use crate::boundary::release_gil::compute;
use crate::sketch::{Shared, of_kind};

type Column<'py> = Bound<'py, PyArray1<f64>>;
type Counts<'py> = Bound<'py, PyArray1<u64>>;

/// Compute the probability that a group of K rollouts is neither all right nor all wrong.
///
/// ```text
/// M(q, K) = 1 - q^K - (1 - q)^K
/// ```
///
/// Accurate to the last digits for rates near 0 and 1. M is symmetric in q, largest at 1/2, and 0 for a group of one.
///
/// Args:
///     rates: success rates q from 0 to 1; NaN is missing and stays so. float64 or float32. [P]
///     size: K, rollouts a group, 1 or more.
///
/// Returns:
///     float64. [P]
///
/// Raises:
///     ArgumentError: a rate outside [0, 1], or a size below 1.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Yu et al. 2025, DAPO (arXiv:2503.14476), where dynamic sampling keeps such groups.
#[pyfunction]
#[pyo3(signature = (rates, *, size))]
pub(crate) fn mixed_group_probability<'py>(
    py: Python<'py>,
    rates: &Bound<'py, PyAny>,
    size: i64,
) -> PyResult<Column<'py>> {
    let (rates, size) = (reals("rates", rates)?, small_count("size", size)?);
    let out = with_reals!(&rates, |values| compute(py, || {
        curriculum::mixed_group_probability(values, size, threads())
    }));
    Ok(out?.into_pyarray(py))
}

/// Return the variance of one outcome, a priority that is largest at a rate of 1/2.
///
/// ```text
/// v = p (1 - p)
/// ```
///
/// Args:
///     rates: success rates p from 0 to 1; NaN is missing and stays so. float64 or float32. [P]
///
/// Returns:
///     float64, 0 to 1/4. [P]
///
/// Raises:
///     ArgumentError: a rate outside [0, 1].
///     DTypeError, LayoutError: an array that would have to be cast or copied.
#[pyfunction]
pub(crate) fn outcome_variance<'py>(py: Python<'py>, rates: &Bound<'py, PyAny>) -> PyResult<Column<'py>> {
    let rates = reals("rates", rates)?;
    let out = with_reals!(&rates, |values| compute(py, || curriculum::outcome_variance(values, threads())));
    Ok(out?.into_pyarray(py))
}

/// Return the prompts with success rates nearest to a target, nearest first.
///
/// ```text
/// the k least |rate_i - target|;   ties: the smaller id, and without ids the earlier row
/// ```
///
/// Args:
///     rates: success rates from 0 to 1; NaN is never chosen. float64 or float32. [P]
///     k: number of prompts, 0 or more; all that have a rate where there are fewer.
///     target: from 0 to 1.
///     ids: id of each prompt, to order equally near ones; without ids, the earlier row comes first. [P]
///
/// Returns:
///     Row numbers, int64. [k]
///
/// Raises:
///     ArgumentError: a rate or a target outside [0, 1], a k below 0, or columns that differ in length.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: PACED-RL (arXiv:2602.12642), which takes the prompts nearest to 1/2.
#[pyfunction]
#[pyo3(signature = (rates, k, *, target=0.5, ids=None))]
pub(crate) fn nearest_rate<'py>(
    rates: &Bound<'py, PyAny>,
    k: i64,
    target: f64,
    ids: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let (py, rates, k) = (rates.py(), reals("rates", rates)?, count("k", k)?);
    let ids = ids.map(|ids| column::<i64>("ids", ids)).transpose()?;
    let ids = ids.as_ref().map(|ids| ids.as_slice()).transpose()?;
    let rows = with_reals!(&rates, |values| compute(py, || curriculum::nearest(values, ids, target, k)))?;
    Ok(rows.into_iter().map(i64::from).collect::<Vec<i64>>().into_pyarray(py))
}

/// Beta posteriors of the success rates of tasks, from counts.
///
/// `rate ~ Beta(a + successes, b + failures)`; a prior of (1, 1) is uniform, (0.5, 0.5) is Jeffreys'. Tasks are in
/// ascending order of id in every array. Counts are integers, so that merging the posteriors of two halves gives the
/// posterior of the whole, to the bit. The length of a posterior is the number of its tasks.
///
/// Raises:
///     ArgumentError: a prior outside [1e-6, 1e9].
#[pyclass(frozen, module = "karl_fast._core")]
pub(crate) struct BetaPosterior(Shared<curriculum::BetaPosterior>);

fn of(found: karl_core::Result<curriculum::BetaPosterior>) -> PyResult<BetaPosterior> {
    found.map(|state| BetaPosterior(Shared::new(state))).map_err(|error| to_python(error.into()))
}

#[pymethods]
impl BetaPosterior {
    #[new]
    #[pyo3(signature = (a=1.0, b=1.0))]
    fn new(a: f64, b: f64) -> PyResult<Self> {
        of(curriculum::BetaPosterior::new(a, b))
    }

    /// Take trials in; on an error nothing is taken in.
    ///
    /// Args:
    ///     ids: of the tasks, in any order, each as often as it comes. `[N]`
    ///     successes: int64. `[N]`
    ///     trials: int64; 0 makes a task known that was not tried. `[N]`
    ///
    /// Raises:
    ///     ArgumentError: a negative count, more successes than trials, or columns of two lengths.
    ///     DTypeError, LayoutError: an array that would have to be cast or copied.
    fn update(
        &self,
        py: Python<'_>,
        ids: &Bound<'_, PyAny>,
        successes: &Bound<'_, PyAny>,
        trials: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (ids, successes) = (column::<i64>("ids", ids)?, column::<i64>("successes", successes)?);
        let trials = column::<i64>("trials", trials)?;
        let (ids, successes, trials) = (ids.as_slice()?, successes.as_slice()?, trials.as_slice()?);
        compute(py, || self.0.lock().update(ids, successes, trials))
    }

    /// Take in what another posterior has seen; on an error nothing is taken in.
    ///
    /// Args:
    ///     other: a BetaPosterior, which may be this one.
    ///
    /// Raises:
    ///     ArgumentError: another prior, or a state of another kind.
    fn merge(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        // A posterior may be merged with itself.
        let other = of_kind::<Self>(other)?.get().0.lock().clone();
        compute(py, || self.0.lock().merge(&other))
    }

    /// The parameters of a task that was not tried.
    #[getter]
    fn prior(&self) -> (f64, f64) {
        self.0.lock().prior()
    }

    /// The ids of the tasks, ascending. `[P]`
    #[getter]
    fn ids<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        self.0.lock().ids().collect::<Vec<i64>>().into_pyarray(py)
    }

    /// Successes of each task. `[P]`
    #[getter]
    fn successes<'py>(&self, py: Python<'py>) -> Counts<'py> {
        self.0.lock().counts().map(|(right, _)| right).collect::<Vec<u64>>().into_pyarray(py)
    }

    /// Failures of each task. `[P]`
    #[getter]
    fn failures<'py>(&self, py: Python<'py>) -> Counts<'py> {
        self.0.lock().counts().map(|(_, wrong)| wrong).collect::<Vec<u64>>().into_pyarray(py)
    }

    /// Return the mean rate of each task: `a' / (a' + b')`. `[P]`
    fn mean<'py>(&self, py: Python<'py>) -> Column<'py> {
        self.0.lock().mean().into_pyarray(py)
    }

    /// Return the variance of the rate of each task: `a' b' / ((a' + b')^2 (a' + b' + 1))`. `[P]`
    fn variance<'py>(&self, py: Python<'py>) -> Column<'py> {
        self.0.lock().variance().into_pyarray(py)
    }

    /// Return the rate below which each task's lies with this probability. `[P]`
    ///
    /// Raises:
    ///     ArgumentError: a probability outside [0, 1], or more than 1e9 trials of one task.
    fn quantile<'py>(&self, py: Python<'py>, probability: f64) -> PyResult<Column<'py>> {
        Ok(compute(py, || self.0.lock().quantile(probability))?.into_pyarray(py))
    }

    /// Draw one rate for each task (Thompson sampling): a pure function of the seed and the task's id. [P]
    ///
    /// Raises:
    ///     ArgumentError: a seed outside [0, 2^64).
    #[pyo3(signature = (*, seed))]
    fn thompson<'py>(&self, py: Python<'py>, seed: i128) -> PyResult<Column<'py>> {
        let wanted = "wanted an integer in [0, 2^64)";
        let refused = |_| ArgumentError::new_err(format!("seed is {seed}, {wanted}"));
        let seed = u64::try_from(seed).map_err(refused)?;
        Ok(compute(py, || Ok(self.0.lock().thompson(seed)))?.into_pyarray(py))
    }

    /// Return the posterior as bytes: kind and version, little-endian numbers, and a hash of them.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.lock().to_bytes())
    }

    /// Return the posterior that was written as these bytes.
    ///
    /// Raises:
    ///     ArgumentError: anything else.
    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        of(curriculum::BetaPosterior::from_bytes(data))
    }

    fn __eq__(&self, other: &Self) -> bool {
        let other = other.0.lock().clone();
        *self.0.lock() == other
    }

    fn __len__(&self) -> usize {
        self.0.lock().ids().len()
    }

    fn __repr__(&self) -> String {
        let (a, b) = self.0.lock().prior();
        format!("BetaPosterior(a={a}, b={b}) of {} tasks", self.__len__())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let read = slf.get_type().getattr("from_bytes")?;
        Ok((read, (slf.get().to_bytes(slf.py()),)))
    }
}
