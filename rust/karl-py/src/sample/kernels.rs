//! Bindings of the kernels of `karl_core::sample` that the chain does not use.

use karl_core::sample::{a_expj, algorithm_l, gumbel, inclusion as exact, pps, priority, var_opt};
use karl_core::{Error, Keys, Weighted, sample};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::types::PyIterator;

use crate::boundary::array::{keys, threads, widened};
use crate::boundary::enter::{compute, enter};
use crate::boundary::error::{ArgumentError, to_python};
use crate::sample::{Rows, numbers};

type Floats<'py> = Bound<'py, PyArray1<f64>>;

/// Rows with what each counts for, as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct Estimated<'py> {
    rows: Rows<'py>,
    threshold: f64,
    estimates: Floats<'py>,
}

impl<'py> Estimated<'py> {
    fn own(py: Python<'py>, drawn: sample::Estimated) -> Self {
        Self {
            rows: numbers(drawn.rows).into_pyarray(py),
            threshold: drawn.threshold,
            estimates: drawn.estimates.into_pyarray(py),
        }
    }
}

/// A draw by weights, or by their logs, under the names that the arguments have, with the key of each row.
fn by_weights<'py, T: Send>(
    py: Python<'py>,
    (name, weights): (&'static str, &Bound<'py, PyAny>),
    keys: Option<&Bound<'py, PyAny>>,
    draw: impl FnOnce(&[f64], &Keys) -> karl_core::Result<T> + Send,
) -> PyResult<T> {
    let weights = widened(name, weights)?;
    let weights = weights.as_slice()?;
    let keys = self::keys(keys, weights.len())?;
    compute(py, || draw(weights, &keys))
}

/// Rows with their inclusion probabilities, as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct Drawn<'py> {
    rows: Rows<'py>,
    threshold: Option<f64>,
    inclusion: Floats<'py>,
}

/// k rows by Gumbel keys, and the probability of each given the first key not drawn.
#[pyfunction]
#[pyo3(signature = (log_weights, k, *, seed, keys=None))]
pub(crate) fn draw_with_inclusion<'py>(
    py: Python<'py>,
    log_weights: &Bound<'py, PyAny>,
    k: usize,
    seed: u64,
    keys: Option<&Bound<'py, PyAny>>,
) -> PyResult<Drawn<'py>> {
    let drawn = by_weights(py, ("log_weights", log_weights), keys, |weights, keys| {
        gumbel::draw_with_inclusion(Weighted::by_logs(weights, keys)?, k, seed, threads())
    })?;
    let rows = numbers(drawn.rows).into_pyarray(py);
    Ok(Drawn { rows, threshold: drawn.threshold, inclusion: drawn.inclusion.into_pyarray(py) })
}

/// The probability of each row to be among k drawn without replacement, over all draws.
#[pyfunction]
pub(crate) fn inclusion<'py>(
    py: Python<'py>,
    log_weights: &Bound<'py, PyAny>,
    k: usize,
) -> PyResult<Floats<'py>> {
    let log_weights = widened("log_weights", log_weights)?;
    let weights = log_weights.as_slice()?;
    let out =
        enter(py, None, |watch| exact::inclusion_while(weights, k, threads(), || watch.advance(0).is_ok()))?;
    // Without a result there is an exception, which has been raised.
    Ok(out.unwrap_or_default().into_pyarray(py))
}

/// The threshold at which k rows are expected, and the probability of each row under it.
#[pyfunction]
pub(crate) fn threshold<'py>(
    py: Python<'py>,
    weights: &Bound<'py, PyAny>,
    k: usize,
) -> PyResult<(f64, Floats<'py>)> {
    let weights = widened("weights", weights)?;
    let slice = weights.as_slice()?;
    let (threshold, shares) = compute(py, || {
        let threshold = pps::threshold(slice, k)?;
        Ok((threshold, pps::shares(slice, threshold)))
    })?;
    Ok((threshold, shares.into_pyarray(py)))
}

/// k rows by priority, the largest first.
#[pyfunction]
#[pyo3(signature = (weights, k, *, seed, keys=None))]
pub(crate) fn draw_priority<'py>(
    py: Python<'py>,
    weights: &Bound<'py, PyAny>,
    k: usize,
    seed: u64,
    keys: Option<&Bound<'py, PyAny>>,
) -> PyResult<Estimated<'py>> {
    let drawn = by_weights(py, ("weights", weights), keys, |weights, keys| {
        priority::draw(weights, k, keys, seed, threads())
    })?;
    Ok(Estimated::own(py, drawn))
}

/// k rows of a variance-optimal sample, in row order.
#[pyfunction]
#[pyo3(signature = (weights, k, *, seed, keys=None))]
pub(crate) fn draw_var_opt<'py>(
    py: Python<'py>,
    weights: &Bound<'py, PyAny>,
    k: usize,
    seed: u64,
    keys: Option<&Bound<'py, PyAny>>,
) -> PyResult<Estimated<'py>> {
    let drawn =
        by_weights(py, ("weights", weights), keys, |weights, keys| var_opt::draw(weights, k, keys, seed))?;
    Ok(Estimated::own(py, drawn))
}

/// An alias table.
#[pyclass(frozen, module = "karl_fast._core")]
pub(crate) struct Alias {
    inner: sample::Alias,
}

#[pymethods]
impl Alias {
    #[new]
    fn new(py: Python<'_>, log_weights: &Bound<'_, PyAny>) -> PyResult<Self> {
        let log_weights = widened("log_weights", log_weights)?;
        let weights = log_weights.as_slice()?;
        Ok(Self { inner: compute(py, || sample::Alias::new(weights))? })
    }

    fn __len__(&self) -> usize {
        self.inner.len()
    }

    /// The probability of each row.
    fn probabilities<'py>(&self, py: Python<'py>) -> PyResult<Floats<'py>> {
        let out = compute(py, || Ok(self.inner.probabilities()))?;
        Ok(out.into_pyarray(py))
    }

    /// Independent draws.
    #[pyo3(signature = (count, *, seed))]
    fn draw<'py>(&self, py: Python<'py>, count: usize, seed: u64) -> PyResult<Rows<'py>> {
        let rows = compute(py, || Ok(self.inner.draw(count, seed)))?;
        Ok(numbers(rows).into_pyarray(py))
    }
}

/// How many items go by between two looks for Ctrl-C.
const LOOK: u64 = 1 << 16;

/// The items of a Python iterable, up to the first that fails.
struct Walk<'py> {
    items: Bound<'py, PyIterator>,
    count: u64,
    failed: Option<PyErr>,
}

impl<'py> Walk<'py> {
    fn of(items: &Bound<'py, PyAny>) -> PyResult<Self> {
        Ok(Self { items: items.try_iter()?, count: 0, failed: None })
    }

    fn advance(&mut self) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.count += 1;
        if self.count.is_multiple_of(LOOK) {
            self.items.py().check_signals()?;
        }
        self.items.next().transpose()
    }

    /// What `drawn` is, or why it is not whole.
    fn finish<T>(self, drawn: T) -> PyResult<T> {
        self.failed.map_or(Ok(drawn), Err)
    }
}

impl<'py> Iterator for Walk<'py> {
    type Item = Bound<'py, PyAny>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().unwrap_or_else(|error| {
            self.failed = Some(error);
            None
        })
    }
}

/// k items of an iterable by Algorithm L, in the order of the reservoir's places.
#[pyfunction]
#[pyo3(signature = (items, k, *, seed))]
pub(crate) fn reservoir_of<'py>(
    items: &Bound<'py, PyAny>,
    k: usize,
    seed: u64,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut items = Walk::of(items)?;
    let drawn = algorithm_l::reservoir(items.by_ref(), k, algorithm_l::stream(seed));
    items.finish(drawn)
}

/// k items of an iterable by A-ExpJ, by falling key.
#[pyfunction]
#[pyo3(signature = (items, k, *, weight=None, seed))]
pub(crate) fn weighted_reservoir_of<'py>(
    items: &Bound<'py, PyAny>,
    k: usize,
    weight: Option<&Bound<'py, PyAny>>,
    seed: u64,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut items = Walk::of(items)?;
    let mut failed = None;
    let weighed = items
        .by_ref()
        .enumerate()
        .map_while(|(index, item)| weighed(index, item, weight).map_err(|error| failed = Some(error)).ok());
    let drawn = a_expj::weighted_reservoir(weighed, k, algorithm_l::stream(seed));
    items.failed = items.failed.or(failed);
    items.finish(drawn)
}

/// An item with its weight: a pair, or an item that `weight` weighs.
fn weighed<'py>(
    index: usize,
    item: Bound<'py, PyAny>,
    weight: Option<&Bound<'py, PyAny>>,
) -> PyResult<(Bound<'py, PyAny>, f64)> {
    let (item, value) = match weight {
        Some(weight) => {
            let value = weight.call1((&item,))?.extract()?;
            (item, value)
        }
        None => item.extract().map_err(|_| {
            ArgumentError::new_err(format!("item at index {index} is no tuple of an item and its weight"))
        })?,
    };
    if !(0.0..f64::INFINITY).contains(&value) {
        return Err(to_python(Error::Weight { index, value }.into()));
    }
    Ok((item, value))
}
