//! Bindings of the scores of steps: returns, `GiGPO`, EMPG.

#![allow(clippy::doc_markdown, reason = "these are docstrings of Python")]

use karl_core::advantage::{self, Empg, Gigpo, Norm, Steps, Unit};
use numpy::IntoPyArray;
use pyo3::prelude::*;

use super::Scores;
use crate::boundary::array::{column, freedom, groups, reals, threads, with_reals};
use crate::boundary::enter::compute;
use crate::boundary::error::UsageError;
use crate::boundary::grouping::{Given, Grouping, ragged};

/// What a step is worth with what follows it.
///
///     R_k = r_k + gamma R_{k+1} within a row,    0 behind the last
///
/// Args:
///     rewards: the reward of each step, of all rows end to end; float64 or float32, NaN or null is missing. [T]
///     offsets: where the steps of each row begin. [B + 1]
///     gamma: the discount of a step, 0 to 1.
///
/// Returns:
///     The returns. A missing reward makes its own return NaN, and with gamma above 0 those before it. [T]
///
/// Raises:
///     ArgumentError: an infinite reward, a return beyond float64, or a gamma outside 0 to 1.
///     DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.
///
/// Reference: Sutton and Barto 2018, section 3.3.
#[pyfunction]
#[pyo3(signature = (rewards, offsets, *, gamma))]
pub(crate) fn discounted_returns<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    gamma: f64,
) -> PyResult<Scores<'py>> {
    let (rewards, offsets) = (reals("rewards", rewards)?, column::<i64>("offsets", offsets)?);
    let out = with_reals!(&rewards, |values| {
        let offsets = ragged("offsets", &offsets, values.len())?;
        compute(py, || advantage::discounted_returns(values, offsets, gamma, threads()))?
    });
    Ok(out.into_pyarray(py))
}

/// Advantages of steps, turned up where the policy was sure and down where it was not (EMPG).
///
///     h_k = (H_k - min H) / (max H - min H + eps),    g_k = exp(-fade h_k) / (mean_j exp(-fade h_j) + eps)
///     A_k <- A_k g_k + bonus exp(-bonus_fade h_{k+1})      (no bonus for the last step of a trajectory)
///     A_k <- A_k - mean_j A_j
///
/// Args:
///     advantages: of each step, of all trajectories end to end; float64 or float32, NaN is missing. [U]
///     entropies: the mean entropy of the tokens of each step, in nats, zero or more; float64 or
///         float32. [U]
///     offsets: where the steps of each trajectory begin. [N + 1]
///     fade: how fast a gradient fades with entropy (k of the paper).
///     bonus_fade: how fast the bonus fades with the entropy of the next step (k').
///     bonus: of a step whose next step is the surest (zeta).
///     eps: added to both denominators.
///
/// Returns:
///     The modulated advantages, with mean 0. Entropies that are all equal have h = 0. [U]
///
/// Raises:
///     ArgumentError: an infinite advantage, an entropy that is not finite or negative, another negative number, columns that
///         differ.
///     DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.
///
/// Reference: EMPG (arXiv:2509.09265), equations 8 to 12; the defaults are those of ARLArena.
#[pyfunction]
#[pyo3(signature = (advantages, entropies, offsets, *, fade=1.0, bonus_fade=1.0, bonus=0.05, eps=1e-8))]
#[allow(clippy::too_many_arguments, reason = "keywords of Python")]
pub(crate) fn empg<'py>(
    py: Python<'py>,
    advantages: &Bound<'py, PyAny>,
    entropies: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    fade: f64,
    bonus_fade: f64,
    bonus: f64,
    eps: f64,
) -> PyResult<Scores<'py>> {
    let (advantages, entropies) = (reals("advantages", advantages)?, reals("entropies", entropies)?);
    let offsets = column::<i64>("offsets", offsets)?;
    let how = Empg { fade, bonus_fade, bonus, eps };
    let out = with_reals!(&advantages, |values| {
        let steps = ragged("offsets", &offsets, values.len())?;
        with_reals!(&entropies, |entropies| {
            compute(py, || advantage::empg(values, entropies, steps, how))?
        })
    });
    Ok(out.into_pyarray(py))
}

fn unit_named(name: &str) -> PyResult<Unit> {
    match name {
        "trajectory" => Ok(Unit::Trajectory),
        "step" => Ok(Unit::Step),
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

/// What gigpo found, as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct Credit<'py> {
    episode: Scores<'py>,
    step: Scores<'py>,
    joint: Scores<'py>,
}

/// Credit for a trajectory, and for each of its steps among those from the same state.
#[pyfunction]
#[pyo3(signature = (
    rewards, offsets, group_ids, state_ids, *, group_offsets, gamma, step_weight, unit, norm, ddof, eps
))]
#[allow(clippy::too_many_arguments, reason = "keywords of Python")]
pub(crate) fn gigpo<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    group_ids: Given<'_, 'py>,
    state_ids: &Bound<'py, PyAny>,
    group_offsets: Given<'_, 'py>,
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
