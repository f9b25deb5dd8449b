//! Binding of EMPG of `karl_core::advantage`.

#![allow(clippy::doc_markdown, reason = "these are docstrings of Python")]

use super::Scores;
use crate::boundary::array::{column, reals, with_reals};
use crate::boundary::grouping::ragged;
use crate::boundary::release_gil::compute;
use karl_core::advantage::{self, Empg};
use numpy::IntoPyArray;
use pyo3::prelude::*;

/// Scale advantages of steps up where the policy was certain and down where it was not (EMPG).
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
///     fade: the rate at which the gradient falls with entropy (k of the paper).
///     bonus_fade: the rate at which the bonus falls with the entropy of the next step (k').
///     bonus: the largest bonus, of a step before the step of least entropy (zeta).
///     eps: added to both denominators.
///
/// Returns:
///     The modulated advantages, with mean 0. Entropies that are all equal have h = 0. [U]
///
/// Raises:
///     ArgumentError: an infinite advantage, an entropy that is not finite or negative, another negative number,
///         columns that differ in length.
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
