//! Binding of `GiGPO` of `karl_core::advantage`.

#![allow(clippy::doc_markdown, reason = "these are docstrings of Python")]

use super::Scores;
use crate::boundary::array::{column, freedom, groups, reals, threads, with_reals};
use crate::boundary::error::UsageError;
use crate::boundary::grouping::{Grouping, OptionalArgument, ragged};
use crate::boundary::release_gil::compute;
use karl_core::advantage::{self, Gigpo, Norm, StatisticsUnit, Steps};
use numpy::IntoPyArray;
use pyo3::prelude::*;

fn unit_named(name: &str) -> PyResult<StatisticsUnit> {
    match name {
        "trajectory" => Ok(StatisticsUnit::Trajectory),
        "step" => Ok(StatisticsUnit::Step),
        _ => Err(UsageError::new_err(format!("unit is {name:?}, wanted trajectory or step"))),
    }
}

fn norm_named(name: &str, ddof: u8, eps: f64) -> PyResult<Norm> {
    match name {
        "mean" => Ok(Norm::Mean),
        "mean_std" => Ok(Norm::MeanStd { ddof, eps }),
        _ => Err(UsageError::new_err(format!("norm is {name:?}, wanted mean_std or mean"))),
    }
}

/// Result of gigpo, as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct Credit<'py> {
    episode: Scores<'py>,
    step: Scores<'py>,
    joint: Scores<'py>,
}

/// Compute the credit for a trajectory, and for each of its steps among those from the same state.
#[pyfunction]
#[pyo3(signature = (
    rewards, offsets, group_ids, state_ids, *, group_offsets, gamma, step_weight, unit, norm, ddof, eps
))]
#[allow(clippy::too_many_arguments, reason = "keywords of Python")]
pub(crate) fn gigpo<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    group_ids: OptionalArgument<'_, 'py>,
    state_ids: &Bound<'py, PyAny>,
    group_offsets: OptionalArgument<'_, 'py>,
    gamma: f64,
    step_weight: f64,
    unit: &str,
    norm: &str,
    ddof: i64,
    eps: f64,
) -> PyResult<Credit<'py>> {
    let (rewards, offsets) = (reals("rewards", rewards)?, column::<i64>("offsets", offsets)?);
    let names = ["group_ids", "group_offsets"];
    let groups = Grouping::named(names, groups, group_ids, group_offsets)?;
    let groups = groups.codes("group_offsets", offsets.as_slice()?.len().saturating_sub(1))?;
    let states = self::groups("state_ids", state_ids)?;
    let (unit, norm) = (unit_named(unit)?, norm_named(norm, freedom(ddof)?, eps)?);
    let how = Gigpo { gamma, step_weight, unit, norm };
    let credit = with_reals!(&rewards, |rewards| {
        let trajectories = ragged("offsets", &offsets, rewards.len())?;
        let steps = Steps { rewards, trajectories, groups: &groups, states: &states };
        compute(py, || advantage::gigpo(steps, how, threads()))?
    });
    Ok(Credit {
        episode: credit.episode.into_pyarray(py),
        step: credit.step.into_pyarray(py),
        joint: credit.joint.into_pyarray(py),
    })
}
