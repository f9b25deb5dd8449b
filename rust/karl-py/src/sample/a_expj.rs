//! Binding of `karl_core::sample::a_expj`, over Python iterables.

use super::algorithm_l::IterableItems;
use crate::boundary::error::{ArgumentError, to_python};
use karl_core::Error;
use karl_core::sample::{a_expj, algorithm_l};
use pyo3::prelude::*;

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
            ArgumentError::new_err(format!("item at index {index} is no tuple of an item and its weight"))
        })?,
    };
    if !(0.0..f64::INFINITY).contains(&value) {
        return Err(to_python(Error::Weight { index, value }.into()));
    }
    Ok((item, value))
}
