//! Columns of tokens of one dtype, and the dictionary of an evaluation.

use karl_core::Offsets;
use karl_core::objective::{Evaluation, Rollouts, Statistics};
use numpy::{Element, PyReadonlyArray1, PyReadwriteArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::boundary::array::{Column, Reals, column, flags, fresh, reals};
use crate::boundary::error::DTypeError;
use crate::boundary::release_gil::compute;

/// The columns of a batch, all of one dtype.
pub(super) struct TokenColumns<'py> {
    pub(super) logp: Reals<'py>,
    pub(super) old: Option<Reals<'py>>,
    pub(super) reference: Option<Reals<'py>>,
    pub(super) mask: PyReadonlyArray1<'py, bool>,
    pub(super) offsets: Column<'py, i64>,
}

impl<'py> TokenColumns<'py> {
    pub(super) fn of(
        logp: &Bound<'py, PyAny>,
        old: Option<&Bound<'py, PyAny>>,
        reference: Option<&Bound<'py, PyAny>>,
        mask: &Bound<'py, PyAny>,
        offsets: &Bound<'py, PyAny>,
    ) -> PyResult<Self> {
        Ok(Self {
            logp: reals("logp", logp)?,
            old: old.map(|old| reals("logp_old", old)).transpose()?,
            reference: reference.map(|reference| reals("logp_ref", reference)).transpose()?,
            mask: flags("mask", mask)?,
            offsets: column("offsets", offsets)?,
        })
    }
}

/// A number type of tokens: returns a column that has it.
pub(super) trait Token: Element + karl_core::objective::RealArithmetic {
    fn column<'a>(name: &str, column: &'a Reals<'_>) -> PyResult<&'a [Self]>;
}

fn refused<T>(name: &str) -> PyResult<T> {
    Err(DTypeError::new_err(format!("{name} and logp have two dtypes, wanted one")))
}

impl Token for f32 {
    fn column<'a>(name: &str, column: &'a Reals<'_>) -> PyResult<&'a [Self]> {
        if let Reals::Single(values) = column { values.as_slice() } else { refused(name) }
    }
}

impl Token for f64 {
    fn column<'a>(name: &str, column: &'a Reals<'_>) -> PyResult<&'a [Self]> {
        if let Reals::Double(values) = column { values.as_slice() } else { refused(name) }
    }
}

/// Calls `$work` with the type of the log-probabilities.
macro_rules! of_dtype {
    ($columns:expr, $T:ident, $work:expr) => {
        match &$columns.logp {
            crate::boundary::array::Reals::Single(_) => {
                type $T = f32;
                $work
            }
            crate::boundary::array::Reals::Double(_) => {
                type $T = f64;
                $work
            }
        }
    };
}

pub(super) use of_dtype;

impl TokenColumns<'_> {
    /// Run a kernel that fills a column of coefficients.
    pub(super) fn run<'py, T: Token, R: Send>(
        &self,
        py: Python<'py>,
        work: impl FnOnce(&Rollouts<'_, T>, &mut [T]) -> karl_core::Result<R> + Send,
    ) -> PyResult<(R, Bound<'py, PyAny>)> {
        let logp = T::column("logp", &self.logp)?;
        let old = self.old.as_ref().map(|old| T::column("logp_old", old)).transpose()?;
        let reference = self.reference.as_ref().map(|values| T::column("logp_ref", values)).transpose()?;
        let (mask, offsets) = (self.mask.as_slice()?, self.offsets.as_slice()?);
        let mut coefficients: PyReadwriteArray1<'py, T> = fresh(py, logp.len())?;
        let out = coefficients.as_slice_mut()?;
        let found = compute(py, || {
            let offsets = Offsets::new("offsets", offsets, logp.len())?;
            work(&Rollouts::new(logp, old, reference, mask, offsets)?, out)
        })?;
        Ok((found, (***coefficients).clone().into_any()))
    }
}

/// A loss, the coefficients of its tokens, and statistics.
pub(super) fn evaluation<'py>(
    py: Python<'py>,
    found: &Evaluation,
    coefficients: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let held = PyDict::new(py);
    held.set_item("loss", found.loss)?;
    held.set_item("coefficients", coefficients)?;
    held.set_item("statistics", statistics(py, &found.statistics)?)?;
    Ok(held)
}

fn statistics<'py>(py: Python<'py>, found: &Statistics) -> PyResult<Bound<'py, PyDict>> {
    let held = PyDict::new(py);
    held.set_item("tokens", found.tokens as f64)?;
    held.set_item("rollouts", found.rollouts as f64)?;
    held.set_item("ratio", found.ratio)?;
    held.set_item("ratio_std", found.ratio_std)?;
    held.set_item("ratio_max", found.ratio_max)?;
    held.set_item("ratio_min", found.ratio_min)?;
    held.set_item("clip_low", found.clip_low)?;
    held.set_item("clip_high", found.clip_high)?;
    held.set_item("ratio_ess", found.ratio_ess)?;
    held.set_item("kl_old", found.kl_old)?;
    if let Some(kl) = found.kl {
        held.set_item("kl", kl)?;
    }
    Ok(held)
}
