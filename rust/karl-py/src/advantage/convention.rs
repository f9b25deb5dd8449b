//! Bindings of what other trainers do.

use karl_core::advantage::{CONVENTIONS, Convention};
use pyo3::prelude::*;

use super::Scores;
use super::grouping::score;
use crate::array::threads;
use crate::error::UsageError;

/// A convention, as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct Facts {
    name: &'static str,
    ddof: Option<u8>,
    eps: f64,
    singleton: &'static str,
    missing: &'static str,
    source: &'static str,
}

/// All conventions, every choice stated.
#[pyfunction]
pub(crate) fn conventions() -> Vec<Facts> {
    let facts = |convention: Convention| Facts {
        name: convention.name,
        ddof: convention.ddof,
        eps: convention.eps,
        singleton: convention.singleton.name(),
        missing: convention.missing.name(),
        source: convention.source,
    };
    CONVENTIONS.into_iter().map(facts).collect()
}

/// Group advantages as another trainer has them, defects included.
///
/// What each does is in ``CONVENTIONS``: ddof and eps, a group of one, a missing reward. Statistics are float64 here; where
/// a trainer keeps float32, equal rewards may give it small numbers instead of 0.
///
/// Args:
///     name: trl, verl, openrlhf, `mlx_lm_lora`, tinker or `prime_rl`.
///     rewards, `group_ids`, offsets: as in :func:`centre`.
///
/// Returns:
///     The advantages; NaN for a row without a group. [B]
///
/// Raises:
///     As :func:`centre`; `UsageError` for a name that there is not.
#[pyfunction]
#[pyo3(signature = (name, rewards, group_ids=None, *, offsets=None))]
pub(crate) fn by_convention<'py>(
    py: Python<'py>,
    name: &str,
    rewards: &Bound<'py, PyAny>,
    group_ids: Option<&Bound<'py, PyAny>>,
    offsets: Option<&Bound<'py, PyAny>>,
) -> PyResult<Scores<'py>> {
    let Some(convention) = Convention::named(name) else {
        let names: Vec<&str> = CONVENTIONS.iter().map(|convention| convention.name).collect();
        return Err(UsageError::new_err(format!("name is {name:?}, wanted one of {}", names.join(", "))));
    };
    score!(py, rewards, (group_ids, offsets), |values, layout| convention.apply(values, layout, threads()))
}
