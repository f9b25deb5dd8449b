//! Bindings of `karl_core::objective`.

#![allow(clippy::doc_markdown, reason = "these are docstrings of Python")]

mod columns;
pub(crate) mod families;
mod points;

use std::borrow::Cow;

use karl_core::Offsets;
use karl_core::objective::{
    Advantages, Evaluation, Penalty, PolicyGradient, Power, Rollouts, Update, policy_loss as loss_of,
    row_log_ratio, token_log_ratio as log_ratio_of, token_weights as weights_of,
};
use numpy::{Element, IntoPyArray, PyArray1, PyReadonlyArray1, PyReadwriteArray1};
use pyo3::prelude::*;

use crate::boundary::array::{Column, Reals, column, flags, fresh, reals, threads};
use crate::boundary::error::{DTypeError, to_python};
use crate::boundary::release_gil::compute;
use points::{aggregate_of, clip_of, places};

/// Log-probabilities of tokens under both policies, which have one dtype, and which tokens count.
struct Packed<'py> {
    logp: Reals<'py>,
    logp_old: Reals<'py>,
    mask: Option<PyReadonlyArray1<'py, bool>>,
}

impl<'py> Packed<'py> {
    fn of(
        logp: &Bound<'py, PyAny>,
        logp_old: &Bound<'py, PyAny>,
        mask: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let mask = mask.map(|mask| flags("mask", mask)).transpose()?;
        let (logp, logp_old) = (reals("logp", logp)?, reals("logp_old", logp_old)?);
        let refused = |got, wanted| {
            Err(DTypeError::new_err(format!("logp_old has dtype {got}, wanted {wanted} as logp")))
        };
        match (&logp, &logp_old) {
            (Reals::Single(_), Reals::Double(_)) => refused("float64", "float32"),
            (Reals::Double(_), Reals::Single(_)) => refused("float32", "float64"),
            _ => Ok(Self { logp, logp_old, mask }),
        }
    }

    /// Return the mask of tokens that count; without one, that of all.
    fn mask(&self) -> PyResult<Cow<'_, [bool]>> {
        let all = || match &self.logp {
            Reals::Single(values) => values.as_slice().map(<[f32]>::len),
            Reals::Double(values) => values.as_slice().map(<[f64]>::len),
        };
        match &self.mask {
            Some(mask) => Ok(Cow::Borrowed(mask.as_slice()?)),
            None => Ok(Cow::Owned(vec![true; all()?])),
        }
    }
}

/// Calls a kernel that is generic over what the two columns of `Packed` hold.
macro_rules! with_packed {
    ($packed:expr, |$logp:ident, $old:ident| $work:expr) => {
        match (&$packed.logp, &$packed.logp_old) {
            (Reals::Single(logp), Reals::Single(old)) => {
                let ($logp, $old) = (logp.as_slice()?, old.as_slice()?);
                $work
            }
            (Reals::Double(logp), Reals::Double(old)) => {
                let ($logp, $old) = (logp.as_slice()?, old.as_slice()?);
                $work
            }
            _ => Err(DTypeError::new_err("logp_old and logp have two dtypes, wanted one")),
        }
    };
}

/// Compute the log ratio of each token, in nats.
///
/// ```text
/// log_ratio_t = logp_t - logp_old_t
/// ```
///
/// Cost: memory speed.
///
/// Args:
///     logp: log-probabilities under the policy, float32 or float64. [N]
///     logp_old: the same under the behaviour policy, of the same dtype. [N]
///     mask: true for tokens that count, all by default; a masked one has 0, whatever its values. [N]
///
/// Returns:
///     The log ratios, of the same dtype. [N]
///
/// Raises:
///     ArgumentError: a token that counts has no finite log ratio, or columns differ in length.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Schulman et al. 2017, PPO (arXiv:1707.06347), where the ratio is the exp of it.
#[pyfunction]
#[pyo3(signature = (logp, logp_old, *, mask=None))]
pub(crate) fn token_log_ratio<'py>(
    py: Python<'py>,
    logp: &Bound<'py, PyAny>,
    logp_old: &Bound<'py, PyAny>,
    mask: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let packed = Packed::of(logp, logp_old, mask)?;
    let mask = packed.mask()?;
    with_packed!(packed, |logp, old| {
        let found = compute(py, || {
            let one = [0, i64::try_from(logp.len()).unwrap_or(i64::MAX)];
            let offsets = Offsets::new("offsets", &one, logp.len())?;
            log_ratio_of(&Rollouts::new(logp, Some(old), None, &mask, offsets)?)
        });
        Ok(found?.into_pyarray(py).into_any())
    })
}

/// Return the log ratio of each sequence, in nats: the mean of its tokens' log ratios, or their sum.
///
/// ```text
/// log s_i = (1 / T_i) sum_t (logp_t - logp_old_t)     exp of it is the geometric mean of the tokens' ratios
/// product=True:       sum_t (logp_t - logp_old_t)     exp of it is their product
/// ```
///
/// T_i is the number of tokens of sequence i that count. Offsets of turns give the log ratios of turns. Cost: one read.
///
/// Args:
///     logp: log-probabilities under the policy, float32 or float64. [N]
///     logp_old: the same under the behaviour policy, of the same dtype. [N]
///     offsets: where each sequence begins, and the last ends. int64, [B + 1]
///     mask: which tokens count, all by default. [N]
///     product: the sum in place of the mean.
///
/// Returns:
///     The log ratios, NaN where no token counts. float64, [B]
///
/// Raises:
///     ArgumentError: a token that counts has no finite log ratio, or columns differ in length.
///     DTypeError, LayoutError: an array that would have to be cast or copied, or offsets that are out of place.
///
/// Reference: Zheng et al. 2025, GSPO (arXiv:2507.18071).
#[pyfunction]
#[pyo3(signature = (logp, logp_old, offsets, *, mask=None, product=false))]
pub(crate) fn sequence_log_ratio<'py>(
    py: Python<'py>,
    logp: &Bound<'py, PyAny>,
    logp_old: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    mask: Option<&Bound<'py, PyAny>>,
    product: bool,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let packed = Packed::of(logp, logp_old, mask)?;
    let (mask, offsets) = (packed.mask()?, column::<i64>("offsets", offsets)?);
    let offsets = offsets.as_slice()?;
    let power = if product { Power::Sum } else { Power::Mean };
    with_packed!(packed, |logp, old| {
        let out = compute(py, || {
            let offsets = Offsets::new("offsets", offsets, logp.len())?;
            row_log_ratio(&Rollouts::new(logp, Some(old), None, &mask, offsets)?, power, threads())
        })?;
        Ok(out.into_pyarray(py))
    })
}

/// Return the weight of each token of so many in the sum of an aggregate.
#[pyfunction]
#[pyo3(signature = (offsets, *, mask=None, aggregate, denominator=None))]
pub(crate) fn token_weights<'py>(
    py: Python<'py>,
    offsets: &Bound<'py, PyAny>,
    mask: Option<&Bound<'py, PyAny>>,
    aggregate: &Bound<'py, PyAny>,
    denominator: Option<f64>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let (starts, aggregate) = (column::<i64>("offsets", offsets)?, aggregate_of(aggregate, denominator)?);
    let mask = mask.map(|mask| flags("mask", mask)).transpose()?;
    let (starts, mask) = (starts.as_slice()?, mask.as_ref().map(PyReadonlyArray1::as_slice).transpose()?);
    let weights = compute(py, || {
        // Without a mask the last offset says how many tokens there are; a negative one is refused as out of place.
        let last = usize::try_from(starts.last().copied().unwrap_or(0)).unwrap_or(0);
        let offsets = Offsets::new("offsets", starts, mask.map_or(last, <[bool]>::len))?;
        weights_of(&offsets, mask, aggregate, threads())
    })?;
    Ok(weights.into_pyarray(py))
}

/// Check the numbers of a clip.
#[pyfunction]
pub(crate) fn check_clip(clip: &Bound<'_, PyAny>) -> PyResult<()> {
    clip_of(clip, None).map(drop)
}

/// A loss, its coefficients and its statistics, as a dictionary; NaN for a share or a ratio of no token.
#[derive(IntoPyObject)]
pub(crate) struct PolicyLoss<'py> {
    loss: f64,
    coefficient: Bound<'py, PyAny>,
    clip_fraction_low: f64,
    clip_fraction_high: f64,
    clip_fraction_bound: f64,
    ratio_mean: f64,
    ratio_std: f64,
    ratio_min: f64,
    ratio_max: f64,
    tokens: u64,
    sequences: u64,
}

impl<'py> PolicyLoss<'py> {
    fn own<T: Element>(found: &Evaluation, coefficient: &PyReadwriteArray1<'py, T>) -> Self {
        let held = &found.statistics;
        let seen = |value| if held.tokens == 0 { f64::NAN } else { value };
        Self {
            loss: found.loss,
            coefficient: (***coefficient).clone().into_any(),
            clip_fraction_low: seen(held.clip_low),
            clip_fraction_high: seen(held.clip_high - held.clip_bound),
            clip_fraction_bound: seen(held.clip_bound),
            ratio_mean: seen(held.ratio),
            ratio_std: seen(held.ratio_std),
            ratio_min: seen(held.ratio_min),
            ratio_max: seen(held.ratio_max),
            tokens: held.tokens,
            sequences: held.rollouts,
        }
    }
}

/// The clipped policy-gradient loss of packed tokens, and its derivative by each `logp`.
#[pyfunction]
#[pyo3(signature = (
    logp, logp_old, advantages, offsets, *, mask=None, turn_offsets=None,
    level, per, clip, aggregate, denominator=None, log_ratio_clamp=None
))]
#[allow(clippy::too_many_arguments, reason = "one keyword an axis, as in the Python function of this name")]
pub(crate) fn policy_loss<'py>(
    py: Python<'py>,
    logp: &Bound<'py, PyAny>,
    logp_old: &Bound<'py, PyAny>,
    advantages: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    mask: Option<&Bound<'py, PyAny>>,
    turn_offsets: Option<&Bound<'py, PyAny>>,
    level: &str,
    per: &str,
    clip: &Bound<'py, PyAny>,
    aggregate: &Bound<'py, PyAny>,
    denominator: Option<f64>,
    log_ratio_clamp: Option<f64>,
) -> PyResult<PolicyLoss<'py>> {
    let packed = Packed::of(logp, logp_old, mask)?;
    let (mask, advantages) = (packed.mask()?, reals("advantages", advantages)?);
    let (starts, turns) = (column::<i64>("offsets", offsets)?, turn_column(turn_offsets)?);
    let (starts, turns) = (starts.as_slice()?, turns.as_ref().map(Column::as_slice).transpose()?);
    let (clip, aggregate) = (clip_of(clip, log_ratio_clamp)?, aggregate_of(aggregate, denominator)?);
    with_packed!(packed, |logp, old| {
        let over = |what, starts| Offsets::new(what, starts, logp.len());
        let turns = turns.map(|turns| over("turn_offsets", turns)).transpose();
        let (ratio, per) = places(level, per, turns.map_err(|error| to_python(error.into()))?)?;
        let advantages = match &advantages {
            Reals::Single(values) => Advantages::single(values.as_slice()?, per),
            Reals::Double(values) => Advantages::double(values.as_slice()?, per),
        };
        let update = Update::Bounded(clip);
        let objective =
            PolicyGradient { ratio, update, mask_negatives: None, penalty: Penalty::None, aggregate };
        let mut coefficient = fresh(py, logp.len())?;
        let column = coefficient.as_slice_mut()?;
        let found = compute(py, || {
            let rollouts = Rollouts::new(logp, Some(old), None, &mask, over("offsets", starts)?)?;
            loss_of(&rollouts, advantages, &objective, column, threads())
        })?;
        Ok(PolicyLoss::own(&found, &coefficient))
    })
}

fn turn_column<'py>(object: Option<&Bound<'py, PyAny>>) -> PyResult<Option<Column<'py, i64>>> {
    object.map(|object| column("turn_offsets", object)).transpose()
}
