//! Bindings of what other trainers do.

#![allow(clippy::doc_markdown, reason = "these are docstrings of Python")]

use karl_core::advantage::{CONVENTIONS, Convention};
use numpy::IntoPyArray;
use pyo3::prelude::*;

use super::Scores;
use crate::boundary::array::{Reals, reals, threads};
use crate::boundary::error::UsageError;
use crate::boundary::grouping::Grouping;
use crate::boundary::release_gil::compute;

/// A convention, as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct Facts {
    name: &'static str,
    ddof: Option<u8>,
    eps: f64,
    singleton: &'static str,
    missing: &'static str,
    single: &'static str,
    source: &'static str,
}

/// Return all conventions, with each of their choices.
#[pyfunction]
pub(crate) fn conventions() -> Vec<Facts> {
    let facts = |convention: Convention| Facts {
        name: convention.name,
        ddof: convention.ddof,
        eps: convention.eps,
        singleton: convention.singleton.name(),
        missing: convention.missing.name(),
        single: convention.single.name(),
        source: convention.source,
    };
    CONVENTIONS.into_iter().map(facts).collect()
}

/// Compute group advantages as another trainer does, defects included.
///
/// ```text
/// A_i = (r_i - mean_g) / (std_g + eps)      or r_i - mean_g
/// ```
///
/// ``CONVENTIONS`` lists each convention: ddof and eps, a group of one, a missing reward, rounding. Statistics of
/// float64 rewards are float64, and equal rewards have exactly 0. Those of float32 rewards are the same as torch on
/// x86-64, bit by bit in groups below 32,768: eight rewards of 0.3 have 0.0289 with verl's eps, because their float32
/// mean is off by a bit. Only ``mlx_lm_lora`` has float64 statistics for float32 too: the order of addition in MLX
/// depends on the device.
///
/// Args:
///     name: trl, verl, openrlhf, mlx_lm_lora, tinker or prime_rl.
///     rewards, group_ids, offsets: as in :func:`centre`.
///
/// Returns:
///     The advantages; NaN for a row without a group. [B]
///
/// Raises:
///     As :func:`centre`; ArgumentError for a missing reward where the trainer stops at one (mlx_lm_lora);
///     UsageError: the convention is unknown.
///
/// Reference: the lines that ``CONVENTIONS`` names.
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
    let (rewards, grouping) = (reals("rewards", rewards)?, Grouping::in_any_order(group_ids, offsets)?);
    let out = match &rewards {
        Reals::Single(column) => {
            let (values, layout) = (column.as_slice()?, grouping.layout(column.as_slice()?.len())?);
            compute(py, || convention.apply_single(values, layout, threads()))?
        }
        Reals::Double(column) => {
            let (values, layout) = (column.as_slice()?, grouping.layout(column.as_slice()?.len())?);
            compute(py, || convention.apply(values, layout, threads()))?
        }
    };
    Ok(out.into_pyarray(py))
}
