//! Bindings of `karl_core::advantage`: the scores of a reward within its group. Those over tokens, steps and time stand in
//! files of their own.

#![allow(clippy::doc_markdown, reason = "these are docstrings of Python")]

pub(crate) mod baseline;
pub(crate) mod centre;
pub(crate) mod empg;
pub(crate) mod gdpo;
pub(crate) mod gigpo;
pub(crate) mod leave_one_out;
pub(crate) mod maxrl;
pub(crate) mod returns;
pub(crate) mod set_score;
pub(crate) mod shrinkage;
pub(crate) mod soft_baseline;
pub(crate) mod trainers;
pub(crate) mod whiten;
pub(crate) mod zscore;

use crate::boundary::array::{fresh, reals, threads, with_reals};
use crate::boundary::grouping::{Grouping, OptionalArgument};
use crate::boundary::release_gil::compute;
use karl_core::Scratch;
use karl_core::advantage::Score;
use numpy::PyArray1;
use pyo3::prelude::*;

pub(crate) type Scores<'py> = Bound<'py, PyArray1<f64>>;

/// Return a point of the axis, in an array of its own.
fn scored<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    (group_ids, offsets): (OptionalArgument<'_, 'py>, OptionalArgument<'_, 'py>),
    score: Score,
) -> PyResult<Scores<'py>> {
    let (rewards, grouping) = (reals("rewards", rewards)?, Grouping::in_any_order(group_ids, offsets)?);
    with_reals!(&rewards, |values| {
        let layout = grouping.layout(values.len())?;
        let mut scores = fresh::<f64>(py, values.len())?;
        let (mut groups, mut dealt) = (fresh(py, layout.scratch_rows())?, fresh(py, layout.scratch_rows())?);
        let (column, room) =
            (scores.as_slice_mut()?, Scratch::new(groups.as_slice_mut()?, dealt.as_slice_mut()?));
        compute(py, || score.fill(values, layout, column, room, threads()))?;
        Ok((**scores).clone())
    })
}
