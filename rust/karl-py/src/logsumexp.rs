//! Bindings of `karl_core::logsumexp`.

#![allow(clippy::doc_markdown, reason = "these are docstrings of Python")]

use karl_core::group::Layout;
use karl_core::logsumexp;
use karl_core::sketch::LogSumExp as LogSumExpSketch;
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple, PyType};

use crate::boundary::array::{reals, threads, with_reals};
use crate::boundary::error::to_python;
use crate::boundary::grouping::Grouping;
use crate::boundary::release_gil::compute;
use crate::sketch::{Shared, of_kind};

/// Return the logarithm of a sum of exponentials: `log sum_i exp(x_i)`.
///
/// Minus infinity, the logarithm of zero, adds nothing; of nothing the result is minus infinity. One pass, the same bits
/// for any number of threads.
///
/// Args:
///     values: float64 or float32, summed in float64. A NumPy array, or an Arrow column, which is copied where it has
///         several chunks; a null is refused. [B]
///
/// Returns:
///     In nats.
///
/// Raises:
///     ArgumentError: a NaN or plus infinity.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Blanchard, Higham and Higham, Accurately computing the log-sum-exp and softmax functions (2021).
#[pyfunction]
pub(crate) fn log_sum_exp(py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<f64> {
    let values = reals("values", values)?;
    with_reals!(&values, |slice| compute(py, || logsumexp::log_sum_exp(slice, threads())))
}

/// Return the logarithm of a mean of exponentials: `log (1/n) sum_i exp(x_i)`.
///
/// Args:
///     values: as of `log_sum_exp`; at least one. [B]
///
/// Returns:
///     In nats.
///
/// Raises:
///     ArgumentError: a NaN, plus infinity, or no values, which have no mean.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Blanchard, Higham and Higham, Accurately computing the log-sum-exp and softmax functions (2021).
#[pyfunction]
pub(crate) fn log_mean_exp(py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<f64> {
    let values = reals("values", values)?;
    with_reals!(&values, |slice| compute(py, || logsumexp::log_mean_exp(slice, threads())))
}

/// Compute the effective sample size of weights given by their logarithms, in rows: `(sum w)^2 / sum w^2`.
///
/// It lies between 1 (one row has everything) and n (all weights equal), ignores a constant that is added to every
/// logarithm, and is 0 where no row has any weight.
///
/// Args:
///     log_weights: as the values of `log_sum_exp`. [B]
///
/// Returns:
///     In rows.
///
/// Raises:
///     ArgumentError: a NaN or plus infinity.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Kish, Survey Sampling (1965).
#[pyfunction]
pub(crate) fn ess(py: Python<'_>, log_weights: &Bound<'_, PyAny>) -> PyResult<f64> {
    let log_weights = reals("log_weights", log_weights)?;
    with_reals!(&log_weights, |slice| compute(py, || logsumexp::ess(slice, threads())))
}

/// Compute `log sum_i exp(x_i)` of each group, or of each row of a ragged column.
///
/// Give either `group_ids`, for values in any order, or `offsets`, for values that stand row by row, which is several
/// times faster. The bits of a group depend on no other group and on no thread.
///
/// Args:
///     values: as of `log_sum_exp`. [B]
///     group_ids: int64, negative for no group, or names in an Arrow column. [B]
///     offsets: int64: row i is `values[offsets[i]:offsets[i + 1]]`. [P + 1]
///
/// Returns:
///     float64, by group in order of first appearance, or by row; minus infinity for an empty row. [P]
///
/// Raises:
///     ArgumentError: a NaN or plus infinity, or arrays that differ in rows.
///     UsageError: both or neither of `group_ids` and `offsets`.
///     LayoutError: offsets that do not start at 0, that fall, or that end elsewhere than the values.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Blanchard, Higham and Higham, Accurately computing the log-sum-exp and softmax functions (2021).
#[pyfunction]
#[pyo3(signature = (values, group_ids=None, *, offsets=None))]
pub(crate) fn log_sum_exp_by<'py>(
    py: Python<'py>,
    values: &Bound<'py, PyAny>,
    group_ids: Option<&Bound<'py, PyAny>>,
    offsets: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let values = reals("values", values)?;
    let grouping = Grouping::in_order(group_ids, offsets)?;
    let logs = with_reals!(&values, |slice| {
        let layout = grouping.layout(slice.len())?;
        compute(py, || match layout {
            Layout::Coded(groups) => logsumexp::log_sum_exp_by(slice, groups, threads()),
            Layout::Ragged(offsets) => logsumexp::log_sum_exp_rows(slice, &offsets, threads()),
        })
    });
    Ok(logs?.into_pyarray(py))
}

/// A log-sum-exp that is taken in parts: `log sum_i exp(x_i)` over all that was seen, by this state and by those merged
/// into it.
///
/// The sum is exact before it is rounded, so that any order, any cut into parts and any tree of merges give the same bits.
/// The last ulp may differ from that of `log_sum_exp`, which is several times faster. The length of a state is the count of
/// its values, at most 2^43. States pickle, and compare by what they have seen.
#[pyclass(frozen, module = "karl_fast._core", name = "LogSumExp")]
pub(crate) struct LogSumExp {
    state: Shared<LogSumExpSketch>,
}

#[pymethods]
impl LogSumExp {
    /// Return a state that has seen nothing.
    #[new]
    fn new() -> Self {
        Self { state: Shared::new(LogSumExpSketch::default()) }
    }

    /// Take values in; on an error nothing is taken in.
    ///
    /// Args:
    ///     values: as of `log_sum_exp`. [B]
    ///
    /// Raises:
    ///     ArgumentError: a NaN or plus infinity.
    ///     DTypeError, LayoutError: an array that would have to be cast or copied.
    fn update(&self, py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<()> {
        let values = reals("values", values)?;
        with_reals!(&values, |slice| compute(py, || {
            let mut seen = LogSumExpSketch::default();
            seen.update(slice, threads())?;
            self.state.lock().merge(&seen)
        }))
    }

    /// Take in what another state has seen; on an error nothing is taken in.
    ///
    /// Args:
    ///     other: a LogSumExp, which may be this one.
    ///
    /// Raises:
    ///     ArgumentError: a state of another kind, or more than 2^43 values in all.
    fn merge(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        // A state may be merged with itself.
        let other = of_kind::<Self>(other)?.get().state.lock().clone();
        compute(py, || self.state.lock().merge(&other))
    }

    /// `log sum exp`; minus infinity for nothing.
    #[getter]
    fn value(&self) -> f64 {
        self.state.lock().log_sum_exp()
    }

    /// `log mean exp`; NaN for nothing.
    #[getter]
    fn mean(&self) -> f64 {
        self.state.lock().log_mean_exp()
    }

    /// Return the number of values.
    fn __len__(&self) -> usize {
        usize::try_from(self.state.lock().count()).unwrap_or(usize::MAX)
    }

    /// Return the state as bytes: kind and version, little-endian numbers, and a hash of them.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.state.lock().to_bytes())
    }

    /// Return the state that gave these bytes.
    ///
    /// Raises:
    ///     ArgumentError: bytes that no state gave, or one of another version.
    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        let state = LogSumExpSketch::from_bytes(data).map_err(|error| to_python(error.into()))?;
        Ok(Self { state: Shared::new(state) })
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let from_bytes = PyType::new::<Self>(py).getattr("from_bytes")?;
        Ok((from_bytes, PyTuple::new(py, [self.to_bytes(py)])?))
    }

    fn __eq__(&self, other: &Self) -> bool {
        let other = other.state.lock().clone();
        *self.state.lock() == other
    }

    fn __repr__(&self) -> String {
        format!("LogSumExp(value={}, count={})", self.value(), self.__len__())
    }
}
