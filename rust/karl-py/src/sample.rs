//! Bindings of `karl_core::sample`.

use crate::boundary::array::{column, keys, threads, widened};
use crate::boundary::error::{ArgumentError, UsageError, to_python};
use crate::boundary::release_gil::{compute, enter};
use karl_core::rng::{Purpose, uniform};
use karl_core::sample::{
    self, Ranking, a_expj, algorithm_l, gumbel, inclusion as exact, pps, priority, token, var_opt,
};
use karl_core::{Copies, Error, Keys, Sampler, Weighted};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyIterator;

pub(crate) type RowArray<'py> = Bound<'py, PyArray1<i64>>;

/// Return the sampler of a name.
pub(crate) fn sampler_by_name(name: &str) -> PyResult<Sampler> {
    let names = || Sampler::ALL.map(Sampler::name).join(", ");
    Sampler::by_name(name)
        .ok_or_else(|| UsageError::new_err(format!("sampler is {name:?}, wanted one of {}", names())))
}

/// Return log-weight plus Gumbel noise of (seed, key) for each row.
#[pyfunction]
#[pyo3(signature = (log_weights, *, seed, keys=None))]
pub(crate) fn gumbel_keys<'py>(
    py: Python<'py>,
    log_weights: &Bound<'py, PyAny>,
    seed: u64,
    keys: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let log_weights = widened("log_weights", log_weights)?;
    let weights = log_weights.as_slice()?;
    let keys = self::keys(keys, weights.len())?;
    let out = compute(py, || sample::gumbel::keys(weights, &keys, seed))?;
    Ok(out.into_pyarray(py))
}

type TokenColumns<'py> = (Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<f32>>, Bound<'py, PyArray1<f32>>);

/// Return the token that is chosen for each row of logits by its key, without keys the likeliest; its log-probability;
/// and the entropy of its distribution.
#[pyfunction]
#[pyo3(signature = (logits, vocabulary, *, scale, keys=None))]
pub(crate) fn choose_tokens<'py>(
    py: Python<'py>,
    logits: &Bound<'py, PyAny>,
    vocabulary: usize,
    scale: f32,
    keys: Option<PyReadonlyArray1<'py, u64>>,
) -> PyResult<TokenColumns<'py>> {
    let logits = column::<f32>("logits", logits)?;
    let logits = logits.as_slice()?;
    let keys = keys.as_ref().map(PyReadonlyArray1::as_slice).transpose()?;
    let choices = compute(py, || token::choose_tokens(logits, vocabulary, scale, keys, threads()))?;
    let tokens: Vec<u32> = choices.iter().map(|choice| choice.token).collect();
    let logp: Vec<f32> = choices.iter().map(|choice| choice.logp).collect();
    let entropy: Vec<f32> = choices.iter().map(|choice| choice.entropy).collect();
    Ok((tokens.into_pyarray(py), logp.into_pyarray(py), entropy.into_pyarray(py)))
}

/// Return the rows of the largest keys, largest first; rows with a key of minus infinity are left out.
#[pyfunction]
pub(crate) fn top<'py>(py: Python<'py>, keys: &Bound<'py, PyAny>, count: usize) -> PyResult<RowArray<'py>> {
    let keys = column::<f64>("keys", keys)?.as_slice()?.to_vec();
    let rows = compute(py, || Ranking::of(keys, threads()).map(|mut ranking| ranking.take(count)))?;
    Ok(numbers(rows).into_pyarray(py))
}

/// Return the rows that a sampler draws by log-weights; a row drawn several times is repeated in adjacent places.
#[pyfunction]
#[pyo3(signature = (log_weights, count, *, sampler, seed, keys=None))]
pub(crate) fn draw<'py>(
    py: Python<'py>,
    log_weights: &Bound<'py, PyAny>,
    count: usize,
    sampler: &str,
    seed: u64,
    keys: Option<&Bound<'py, PyAny>>,
) -> PyResult<RowArray<'py>> {
    let log_weights = widened("log_weights", log_weights)?;
    let weights = log_weights.as_slice()?;
    let (keys, sampler) = (self::keys(keys, weights.len())?, sampler_by_name(sampler)?);
    let rows = compute(py, || {
        let weighted = Weighted::by_logs(weights, &keys)?;
        if !sampler.replaces() {
            return Ok(weighted.ranking(sampler, seed, threads())?.take(count));
        }
        Copies::new(weighted, sampler, count, seed, threads()).map(|copies| copies.drawn())
    })?;
    Ok(numbers(rows).into_pyarray(py))
}

/// Draw k of the numbers below `rows` by Algorithm L, in the order of the reservoir's places.
#[pyfunction]
#[pyo3(signature = (rows, k, *, seed))]
pub(crate) fn reservoir(py: Python<'_>, rows: u64, k: usize, seed: u64) -> PyResult<RowArray<'_>> {
    let drawn = compute(py, || {
        Ok::<_, karl_core::Error>(sample::algorithm_l::reservoir(
            0..rows,
            k,
            sample::algorithm_l::stream(seed),
        ))
    })?;
    Ok(drawn.into_iter().map(u64::cast_signed).collect::<Vec<i64>>().into_pyarray(py))
}

/// Draw k rows by A-ExpJ, by descending key.
#[pyfunction]
#[pyo3(signature = (log_weights, k, *, seed))]
pub(crate) fn weighted_reservoir<'py>(
    py: Python<'py>,
    log_weights: &Bound<'py, PyAny>,
    k: usize,
    seed: u64,
) -> PyResult<RowArray<'py>> {
    let log_weights = widened("log_weights", log_weights)?;
    let weights = log_weights.as_slice()?;
    let rows = compute(py, || sample::a_expj::by_logs(weights, k, seed))?;
    Ok(numbers(rows).into_pyarray(py))
}

pub(crate) fn numbers(rows: Vec<u32>) -> Vec<i64> {
    rows.into_iter().map(i64::from).collect()
}

type Floats<'py> = Bound<'py, PyArray1<f64>>;

/// Return a draw by weights, or by their logs, under the names that the arguments have, with the key of each row.
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

/// Draw k items of an iterable by A-ExpJ, by falling key.
#[pyfunction]
#[pyo3(signature = (items, k, *, weight=None, seed))]
pub(crate) fn weighted_reservoir_of<'py>(
    items: &Bound<'py, PyAny>,
    k: usize,
    weight: Option<&Bound<'py, PyAny>>,
    seed: u64,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut items = IterableItems::of(items)?;
    let mut failed = None;
    let weighed = items
        .by_ref()
        .enumerate()
        .map_while(|(index, item)| weighed(index, item, weight).map_err(|error| failed = Some(error)).ok());
    let drawn = a_expj::weighted_reservoir(weighed, k, algorithm_l::stream(seed));
    items.failed = items.failed.or(failed);
    items.finish(drawn)
}

/// Return an item with its weight: a pair, or an item that `weight` weighs.
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
            ArgumentError::new_err(format!("item at index {index} is not a tuple of an item and its weight"))
        })?,
    };
    if !(0.0..f64::INFINITY).contains(&value) {
        return Err(to_python(Error::Weight { index, value }.into()));
    }
    Ok((item, value))
}

/// Number of items between two checks for Ctrl-C.
const LOOK: u64 = 1 << 16;

/// The items of a Python iterable, up to the first that fails.
struct IterableItems<'py> {
    items: Bound<'py, PyIterator>,
    count: u64,
    failed: Option<PyErr>,
}

impl<'py> IterableItems<'py> {
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

    /// Return `drawn`, or the error that ended the iteration.
    fn finish<T>(self, drawn: T) -> PyResult<T> {
        self.failed.map_or(Ok(drawn), Err)
    }
}

impl<'py> Iterator for IterableItems<'py> {
    type Item = Bound<'py, PyAny>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().unwrap_or_else(|error| {
            self.failed = Some(error);
            None
        })
    }
}

/// Draw k items of an iterable by Algorithm L, in the order of the reservoir's places.
#[pyfunction]
#[pyo3(signature = (items, k, *, seed))]
pub(crate) fn reservoir_of<'py>(
    items: &Bound<'py, PyAny>,
    k: usize,
    seed: u64,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut items = IterableItems::of(items)?;
    let drawn = algorithm_l::reservoir(items.by_ref(), k, algorithm_l::stream(seed));
    items.finish(drawn)
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

    /// Return the probability of each row.
    fn probabilities<'py>(&self, py: Python<'py>) -> PyResult<Floats<'py>> {
        let out = compute(py, || Ok(self.inner.probabilities()))?;
        Ok(out.into_pyarray(py))
    }

    /// Return independent draws.
    #[pyo3(signature = (count, *, seed))]
    fn draw<'py>(&self, py: Python<'py>, count: usize, seed: u64) -> PyResult<RowArray<'py>> {
        let rows = compute(py, || Ok(self.inner.draw(count, seed)))?;
        Ok(numbers(rows).into_pyarray(py))
    }
}

/// Rows with their inclusion probabilities, as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct Drawn<'py> {
    rows: RowArray<'py>,
    threshold: Option<f64>,
    inclusion: Floats<'py>,
}

/// Draw k rows by Gumbel keys, and return the probability of each given the first key not drawn.
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

/// Return the probability of each row to be among k drawn without replacement, over all draws.
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

/// Rows with what each counts for, as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct Estimated<'py> {
    rows: RowArray<'py>,
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

/// Return the threshold at which k rows are expected, and the probability of each row under it.
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

/// Draw k rows by priority, the largest first.
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

/// Draw k rows of a variance-optimal sample, in row order.
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

/// Return one uniform of (seed, key, purpose) for each row.
#[pyfunction]
#[pyo3(signature = (rows, *, seed, purpose, keys=None))]
pub(crate) fn uniforms<'py>(
    py: Python<'py>,
    rows: usize,
    seed: u64,
    purpose: &str,
    keys: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let purpose = by_name(purpose)?;
    let keys = self::keys(keys, rows)?;
    let draw = || keys.iter().map(|key| uniform(seed, key, purpose)).collect::<Vec<f64>>();
    let out = compute(py, || Ok::<_, karl_core::Error>(draw()))?;
    Ok(out.into_pyarray(py))
}

fn by_name(name: &str) -> PyResult<Purpose> {
    match name {
        "draw" => Ok(Purpose::Draw),
        "order" => Ok(Purpose::Order),
        "split" => Ok(Purpose::Split),
        _ => Err(ArgumentError::new_err(format!("purpose is {name:?}, wanted draw, order or split"))),
    }
}
