//! Binding of the advantage of several rewards.

#![allow(clippy::doc_markdown, reason = "these are docstrings of Python")]

use karl_core::advantage::Gdpo;
use numpy::IntoPyArray;
use pyo3::prelude::*;

use super::Scores;
use crate::boundary::array::{freedom, reals, threads, with_reals};
use crate::boundary::error::ArgumentError;
use crate::boundary::grouping::Grouping;
use crate::boundary::release_gil::compute;

/// Normalise each of several rewards in its group, then add them (GDPO).
///
///     z_id = (r_id - mean_gd) / (std_gd + eps),    s_i = sum_d weight_d z_id
///     A_i  = s_i / (std + eps)
///
/// The sums of a batch have mean 0, so that no mean is subtracted: a group of equal rewards has exactly 0.
///
/// Args:
///     rewards: D columns as in :func:`centre`; a missing reward is left out of its row's sum. D x [B]
///     weights: one a reward. [D]
///     group_ids, offsets: as in :func:`centre`.
///     ddof, eps: of both normalisations; the defaults are TRL's.
///     batch: whether the sums are normalised over the batch, as the paper has it.
///
/// Returns:
///     The advantages; NaN where a row has none of the rewards. [B]
///
/// Raises:
///     As :func:`zscore`; ArgumentError for a weight that is not finite, or weights that are not one a reward.
///
/// Reference: GDPO (arXiv:2601.05242).
#[pyfunction]
#[pyo3(signature = (rewards, weights, group_ids=None, *, offsets=None, ddof=1, eps=1e-4, batch=true))]
#[allow(clippy::too_many_arguments, reason = "keywords of Python")]
pub(crate) fn gdpo<'py>(
    py: Python<'py>,
    rewards: Vec<Bound<'py, PyAny>>,
    weights: Vec<f64>,
    group_ids: Option<&Bound<'py, PyAny>>,
    offsets: Option<&Bound<'py, PyAny>>,
    ddof: i64,
    eps: f64,
    batch: bool,
) -> PyResult<Scores<'py>> {
    let one = |(at, column): (usize, &Bound<'py, PyAny>)| reals(&format!("rewards[{at}]"), column);
    let columns: Vec<_> = rewards.iter().enumerate().map(one).collect::<PyResult<_>>()?;
    if columns.is_empty() || columns.len() != weights.len() {
        let (got, wanted) = (weights.len(), columns.len().max(1));
        return Err(ArgumentError::new_err(format!(
            "weights has length {got}, wanted {wanted}, one a reward"
        )));
    }
    let grouping = Grouping::in_any_order(group_ids, offsets)?;
    let rows = with_reals!(&columns[0], |values| values.len());
    let (layout, ddof) = (grouping.layout(rows)?, freedom(ddof)?);
    let mut gdpo = compute(py, || Gdpo::new(layout, ddof, eps, threads()))?;
    for (at, (column, weight)) in columns.iter().zip(weights).enumerate() {
        with_reals!(column, |values| {
            same_rows(at, values.len(), rows)?;
            compute(py, || gdpo.add(values, weight)).map_err(|error| of_column(py, error, at))?;
        });
    }
    let out = compute(py, || if batch { gdpo.normalised() } else { Ok(gdpo.sum()) })?;
    Ok(out.into_pyarray(py))
}

fn same_rows(at: usize, got: usize, wanted: usize) -> PyResult<()> {
    let refused = || ArgumentError::new_err(format!("rewards[{at}] has length {got}, wanted {wanted}"));
    if got == wanted { Ok(()) } else { Err(refused()) }
}

/// Add the column to an error of its values.
fn of_column(py: Python<'_>, error: PyErr, at: usize) -> PyErr {
    if !error.is_instance_of::<ArgumentError>(py) {
        return error;
    }
    ArgumentError::new_err(format!("{} (reward {at})", error.value(py)))
}
