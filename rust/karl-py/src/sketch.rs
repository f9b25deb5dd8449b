//! Bindings of `karl_core::sketch`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use karl_core::sketch::{self, Law, TopEntry};
use karl_core::{Key, Keys};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods};
use pyo3::PyClass;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::boundary::array::{keys, widened};
use crate::boundary::error::{ArgumentError, UsageError};
use crate::boundary::release_gil::compute;

type Floats<'py> = Bound<'py, PyArray1<f64>>;
type Table<'py> = Bound<'py, PyArray2<u64>>;

/// A state that one thread at a time works on; a panic leaves it as it was between two items.
pub(crate) struct Shared<T>(Mutex<T>);

impl<T> Shared<T> {
    pub(crate) const fn new(state: T) -> Self {
        Self(Mutex::new(state))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Return the state that is merged into one of the same kind.
pub(crate) fn of_kind<'a, 'py, T: PyClass>(other: &'a Bound<'py, PyAny>) -> PyResult<&'a Bound<'py, T>> {
    other.cast().map_err(|_| match other.get_type().name() {
        Ok(kind) => ArgumentError::new_err(format!("other is a {kind}, wanted a {}", T::NAME)),
        Err(error) => error,
    })
}

/// `[k, 3]` of low and high half of the id and ordinal.
fn table(py: Python<'_>, keys: impl Iterator<Item = Key>) -> PyResult<Table<'_>> {
    let words: Vec<u64> = keys.flat_map(Key::words).collect();
    let rows = words.len() / 3;
    words.into_pyarray(py).reshape([rows, 3])
}

fn law_by_name(name: &str) -> PyResult<Law> {
    match name {
        "gumbel" => Ok(Law::Gumbel),
        "uniform" => Ok(Law::Uniform),
        "priority" => Ok(Law::Priority),
        _ => Err(UsageError::new_err(format!("law is {name:?}, wanted gumbel, uniform or priority"))),
    }
}

/// Draw of a state of keys, as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct Held<'py> {
    keys: Table<'py>,
    ranks: Floats<'py>,
    sizes: Floats<'py>,
    inclusion: Floats<'py>,
    threshold: Option<f64>,
}

/// The items of the largest ranks.
#[pyclass(frozen, module = "karl_fast._core")]
pub(crate) struct Top {
    inner: Shared<sketch::TopK>,
}

#[pymethods]
impl Top {
    #[new]
    #[pyo3(signature = (law, k, *, seed))]
    fn new(law: &str, k: usize, seed: u64) -> PyResult<Self> {
        Ok(Self { inner: Shared::new(sketch::TopK::new(law_by_name(law)?, k, seed)) })
    }

    /// Return the state of bytes.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, law: &str, data: &[u8]) -> PyResult<Self> {
        let law = law_by_name(law)?;
        Ok(Self { inner: Shared::new(compute(py, || sketch::TopK::from_bytes(law, data))?) })
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = compute(py, || Ok(self.inner.lock().to_bytes()))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Take items in.
    #[pyo3(signature = (keys, sizes=None))]
    fn update(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        sizes: Option<(&str, Bound<'_, PyAny>)>,
    ) -> PyResult<()> {
        let sizes = sizes.map(|(name, sizes)| widened(name, &sizes)).transpose()?;
        let sizes = sizes.as_ref().map(|sizes| sizes.as_slice()).transpose()?;
        let keys = given(keys)?;
        compute(py, || self.inner.lock().update(&keys, sizes))
    }

    /// Take in what another state has seen.
    fn merge(&self, py: Python<'_>, other: &Self) -> PyResult<()> {
        compute(py, || {
            // A state may be merged with itself.
            let other = other.inner.lock().clone();
            self.inner.lock().merge(&other)
        })
    }

    fn __len__(&self) -> usize {
        self.inner.lock().drawn().0.len()
    }

    #[getter]
    fn k(&self) -> usize {
        self.inner.lock().k()
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.inner.lock().seed()
    }

    /// Return the draw.
    fn drawn<'py>(&self, py: Python<'py>) -> PyResult<Held<'py>> {
        let (entries, inclusion, threshold) = compute(py, || {
            let mut state = self.inner.lock();
            let (entries, threshold) = state.drawn();
            let entries: Vec<TopEntry> = entries.to_vec();
            let inclusion: Vec<f64> = entries.iter().map(|one| state.inclusion(one, threshold)).collect();
            Ok((entries, inclusion, threshold))
        })?;
        Ok(Held {
            keys: table(py, entries.iter().map(|entry| entry.key))?,
            ranks: entries.iter().map(|entry| entry.rank).collect::<Vec<_>>().into_pyarray(py),
            sizes: entries.iter().map(|entry| entry.size).collect::<Vec<_>>().into_pyarray(py),
            inclusion: inclusion.into_pyarray(py),
            threshold,
        })
    }
}

/// Keys that have to be given.
fn given(object: &Bound<'_, PyAny>) -> PyResult<Keys> {
    keys(Some(object), object.len().unwrap_or(0))
}

/// A variance-optimal sample.
#[pyclass(frozen, module = "karl_fast._core")]
pub(crate) struct VarOpt {
    inner: Shared<sketch::VarOptSketch>,
}

#[pymethods]
impl VarOpt {
    #[new]
    #[pyo3(signature = (k, *, seed))]
    fn new(py: Python<'_>, k: usize, seed: u64) -> PyResult<Self> {
        Ok(Self { inner: Shared::new(compute(py, || sketch::VarOptSketch::new(k, seed))?) })
    }

    /// Return the state of bytes.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        Ok(Self { inner: Shared::new(compute(py, || sketch::VarOptSketch::from_bytes(data))?) })
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = compute(py, || Ok(self.inner.lock().to_bytes()))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Take items in.
    fn update(&self, py: Python<'_>, keys: &Bound<'_, PyAny>, weights: &Bound<'_, PyAny>) -> PyResult<()> {
        let weights = widened("weights", weights)?;
        let slice = weights.as_slice()?;
        let keys = given(keys)?;
        compute(py, || self.inner.lock().update(&keys, slice))
    }

    /// Take in the items of another state.
    fn merge(&self, py: Python<'_>, other: &Self) -> PyResult<()> {
        compute(py, || {
            let other = other.inner.lock().clone();
            self.inner.lock().merge(&other)
        })
    }

    fn __len__(&self) -> usize {
        self.inner.lock().items().len()
    }

    #[getter]
    fn k(&self) -> usize {
        self.inner.lock().k()
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.inner.lock().seed()
    }

    /// Return the keys held, what each counts for, and the threshold.
    fn drawn<'py>(&self, py: Python<'py>) -> PyResult<(Table<'py>, Floats<'py>, f64)> {
        let (items, threshold) = compute(py, || {
            let state = self.inner.lock();
            Ok((state.items(), state.threshold()))
        })?;
        let estimates: Vec<f64> = items.iter().map(|&(_, estimate)| estimate).collect();
        Ok((table(py, items.iter().map(|&(key, _)| key))?, estimates.into_pyarray(py), threshold))
    }
}

/// Exact moments.
#[pyclass(frozen, module = "karl_fast._core")]
pub(crate) struct Moments {
    inner: Shared<sketch::Moments>,
}

#[pymethods]
impl Moments {
    #[new]
    fn new() -> Self {
        Self { inner: Shared::new(sketch::Moments::default()) }
    }

    /// Return the state of bytes.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        Ok(Self { inner: Shared::new(compute(py, || sketch::Moments::from_bytes(data))?) })
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.lock().to_bytes())
    }

    /// Take numbers in.
    fn update(&self, py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<()> {
        let values = widened("values", values)?;
        let slice = values.as_slice()?;
        compute(py, || self.inner.lock().update(slice))
    }

    /// Take in what another state has seen.
    fn merge(&self, py: Python<'_>, other: &Self) -> PyResult<()> {
        compute(py, || {
            let other = other.inner.lock().clone();
            self.inner.lock().merge(&other)
        })
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.inner.lock().count).unwrap_or(usize::MAX)
    }

    #[getter]
    fn mean(&self) -> f64 {
        self.inner.lock().mean()
    }

    #[getter]
    fn min(&self) -> f64 {
        self.inner.lock().min
    }

    #[getter]
    fn max(&self) -> f64 {
        self.inner.lock().max
    }

    /// Return the variance.
    #[pyo3(signature = (*, ddof))]
    fn variance(&self, ddof: u8) -> f64 {
        self.inner.lock().variance(ddof)
    }
}
