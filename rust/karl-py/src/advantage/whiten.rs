//! Bindings of the scores over all tokens: whitening and REINFORCE++.

#![allow(clippy::doc_markdown, reason = "these are docstrings of Python")]

use karl_core::advantage::{self, Whitening};
use numpy::IntoPyArray;
use pyo3::prelude::*;

use super::Scores;
use crate::boundary::array::{column, flags, freedom, reals, threads, with_reals};
use crate::boundary::grouping::{Grouping, ragged};
use crate::boundary::release_gil::compute;

/// Scale values to mean 0 and variance 1.
///
///     w_t = (x_t - mean) / sqrt(var + eps),    var = sum_t (x_t - mean)^2 / (n - ddof)
///
/// Args:
///     values: float64 or float32, an array of NumPy or an Arrow column; NaN or null is missing. The tokens of ragged
///         rollouts, end to end, or a padded table made flat. [T]
///     mask: which of them count; all by default. The others are not read, and become 0. [T]
///     ddof: taken from the count under the variance.
///     eps: added to the variance, inside the root.
///
/// Returns:
///     The whitened values; exactly 0 where all that count are equal. [T]
///
/// Raises:
///     ArgumentError: an infinite value, columns that differ, a negative eps, or no more values than ddof.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Hu et al. 2025, REINFORCE++ (arXiv:2501.03262); ddof and eps are those of verl.
#[pyfunction]
#[pyo3(signature = (values, mask=None, *, ddof=1, eps=1e-8))]
pub(crate) fn whiten<'py>(
    py: Python<'py>,
    values: &Bound<'py, PyAny>,
    mask: Option<&Bound<'py, PyAny>>,
    ddof: i64,
    eps: f64,
) -> PyResult<Scores<'py>> {
    let values = reals("values", values)?;
    let mask = mask.map(|mask| flags("mask", mask)).transpose()?;
    let kept = mask.as_ref().map(|mask| mask.as_slice()).transpose()?;
    let how = Whitening { ddof: freedom(ddof)?, eps };
    let out = with_reals!(&values, |values| compute(py, || advantage::whiten(values, kept, how, threads()))?);
    Ok(out.into_pyarray(py))
}

/// Compute discounted returns of tokens, whitened over all tokens of the batch (REINFORCE++).
///
///     R_t = r_t + gamma R_{t+1} within a rollout,    A = whiten(R)
///
/// Args:
///     rewards: the reward of each token, of all rollouts end to end; float64 or float32. [T]
///     offsets: where the tokens of each rollout begin. [B + 1]
///     mask: which tokens count; all by default. The others are not read and have 0; the return goes on across them. [T]
///     gamma: the discount of a token, 0 to 1.
///     ddof, eps: as in :func:`whiten`.
///
/// Returns:
///     The advantage of each token. [T]
///
/// Raises:
///     As :func:`discounted_returns` and :func:`whiten`.
///
/// Reference: Hu et al. 2025 (arXiv:2501.03262).
#[pyfunction]
#[pyo3(signature = (rewards, offsets, *, mask=None, gamma=1.0, ddof=1, eps=1e-8))]
pub(crate) fn reinforce_plus_plus<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    mask: Option<&Bound<'py, PyAny>>,
    gamma: f64,
    ddof: i64,
    eps: f64,
) -> PyResult<Scores<'py>> {
    let (rewards, offsets) = (reals("rewards", rewards)?, column::<i64>("offsets", offsets)?);
    let mask = mask.map(|mask| flags("mask", mask)).transpose()?;
    let kept = mask.as_ref().map(|mask| mask.as_slice()).transpose()?;
    let how = Whitening { ddof: freedom(ddof)?, eps };
    let out = with_reals!(&rewards, |values| {
        let offsets = ragged("offsets", &offsets, values.len())?;
        compute(py, || advantage::reinforce_plus_plus((values, kept), offsets, gamma, how, threads()))?
    });
    Ok(out.into_pyarray(py))
}

/// Centre rewards in their group, then whiten them over all tokens of the batch (REINFORCE++-baseline).
///
///     c_i = r_i - mean_g,    A_i = (c_i - mean) / sqrt(var + eps)
///
/// Mean and variance are over all tokens, so a rollout counts as often as it has tokens; all its tokens have one
/// advantage, which is given once: ``numpy.repeat(A, numpy.diff(token_offsets))`` has it a token.
///
/// Args:
///     rewards, group_ids, offsets: as in :func:`centre`.
///     token_offsets: where the tokens of each rollout begin. [B + 1]
///     mask: which tokens count; all by default. [T]
///     ddof, eps: as in :func:`whiten`.
///
/// Returns:
///     The advantage of each rollout; 0 where no token of it counts, NaN where its reward is missing. [B]
///
/// Raises:
///     As :func:`centre` and :func:`whiten`.
///
/// Reference: Hu et al. 2025 (arXiv:2501.03262).
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "keywords of Python")]
#[pyo3(signature = (rewards, group_ids=None, *, offsets=None, token_offsets, mask=None, ddof=1, eps=1e-8))]
pub(crate) fn reinforce_plus_plus_baseline<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    group_ids: Option<&Bound<'py, PyAny>>,
    offsets: Option<&Bound<'py, PyAny>>,
    token_offsets: &Bound<'py, PyAny>,
    mask: Option<&Bound<'py, PyAny>>,
    ddof: i64,
    eps: f64,
) -> PyResult<Scores<'py>> {
    let rewards = reals("rewards", rewards)?;
    let grouping = Grouping::in_any_order(group_ids, offsets)?;
    let tokens = column::<i64>("token_offsets", token_offsets)?;
    let count = tokens.as_slice()?.last().copied().and_then(|last| usize::try_from(last).ok());
    let tokens = ragged("token_offsets", &tokens, count.unwrap_or(0))?;
    let mask = mask.map(|mask| flags("mask", mask)).transpose()?;
    let kept = mask.as_ref().map(|mask| mask.as_slice()).transpose()?;
    let how = Whitening { ddof: freedom(ddof)?, eps };
    let out = with_reals!(&rewards, |values| {
        let layout = grouping.layout(values.len())?;
        compute(py, || {
            advantage::reinforce_plus_plus_baseline(values, layout, (tokens, kept), how, threads())
        })?
    });
    Ok(out.into_pyarray(py))
}
