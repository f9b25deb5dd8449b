//! Binding of `karl_core::sample::algorithm_l`, over Python iterables.

use karl_core::sample::algorithm_l;
use pyo3::prelude::*;
use pyo3::types::PyIterator;

/// Number of items between two checks for Ctrl-C.
const LOOK: u64 = 1 << 16;

/// The items of a Python iterable, up to the first that fails.
pub(super) struct IterableItems<'py> {
    items: Bound<'py, PyIterator>,
    count: u64,
    pub(super) failed: Option<PyErr>,
}

impl<'py> IterableItems<'py> {
    pub(super) fn of(items: &Bound<'py, PyAny>) -> PyResult<Self> {
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
    pub(super) fn finish<T>(self, drawn: T) -> PyResult<T> {
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
