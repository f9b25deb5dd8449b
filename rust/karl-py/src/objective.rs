//! Bindings of `karl_core::objective`.

#![allow(clippy::too_many_arguments, reason = "one keyword an axis, as in the Python family of this name")]
#![allow(clippy::doc_markdown, reason = "these are docstrings of Python")]

use crate::boundary::array::{Column, Reals, column, flags, fresh, reals, threads};
use crate::boundary::error::{ArgumentError, DTypeError, UsageError, to_python};
use crate::boundary::release_gil::compute;
use karl_core::Offsets;
use karl_core::objective::{
    Advantages, Aggregate, Anchor, Balance, Clip, Correction, CorrectionLevel, Evaluation, Gate, Link, LogZ,
    Margin, Penalty, Per, PolicyGradient, Power, Preference, Ratio, Rollouts, Statistics, TargetPolicy,
    Turns, Update, WeightedLikelihood, balance as balance_of, correction_weights,
    linear_term as linear_term_of, policy_gradient as policy_gradient_of, policy_loss as loss_of,
    preference as preference_of, row_log_ratio, target_policy as target_policy_of,
    token_log_ratio as log_ratio_of, token_weights as weights_of,
    weighted_likelihood as weighted_likelihood_of,
};
use numpy::{Element, IntoPyArray, PyArray1, PyReadonlyArray1, PyReadwriteArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::borrow::Cow;

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
        let objective = PolicyGradient {
            ratio,
            update,
            mask_negatives: None,
            penalty: Penalty::None,
            aggregate,
            row_weights: None,
        };
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

/// The columns of a batch, all of one dtype.
struct TokenColumns<'py> {
    logp: Reals<'py>,
    old: Option<Reals<'py>>,
    reference: Option<Reals<'py>>,
    mask: PyReadonlyArray1<'py, bool>,
    offsets: Column<'py, i64>,
}

impl<'py> TokenColumns<'py> {
    fn of(
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
trait Token: Element + karl_core::objective::RealArithmetic {
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

impl TokenColumns<'_> {
    /// Run a kernel that fills a column of coefficients.
    fn run<'py, T: Token, R: Send>(
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
fn evaluation<'py>(
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

/// Compute a policy gradient of padded or packed tokens; see `karl_fast.objective.PolicyGradient`.
#[pyfunction]
#[pyo3(signature = (
    logp, mask, offsets, advantages, *, logp_old=None, logp_ref=None, turns=None, row_weights=None, ratio, clip, kl,
    aggregate, denominator
))]
pub(crate) fn objective_policy_gradient<'py>(
    py: Python<'py>,
    logp: &Bound<'py, PyAny>,
    mask: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    advantages: &Bound<'py, PyAny>,
    logp_old: Option<&Bound<'py, PyAny>>,
    logp_ref: Option<&Bound<'py, PyAny>>,
    turns: Option<&Bound<'py, PyAny>>,
    row_weights: Option<&Bound<'py, PyAny>>,
    ratio: &str,
    clip: &Bound<'py, PyAny>,
    kl: &Bound<'py, PyAny>,
    aggregate: &Bound<'py, PyAny>,
    denominator: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let columns = TokenColumns::of(logp, logp_old, logp_ref, mask, offsets)?;
    let advantages = column::<f64>("advantages", advantages)?;
    let advantages = advantages.as_slice()?;
    let turns = turns.map(|turns| column::<i64>("turns", turns)).transpose()?;
    let turns = turns.as_ref().map(Column::as_slice).transpose()?;
    let row_weights = row_weights.map(|weights| column::<f64>("row_weights", weights)).transpose()?;
    let objective = PolicyGradient {
        ratio: ratio_of(ratio, turns, columns.mask.as_slice()?)?,
        update: update_of(clip)?,
        mask_negatives: mask_negatives_of(clip)?,
        penalty: penalty_of(kl)?,
        aggregate: aggregate_of(aggregate, Some(denominator))?,
        row_weights: row_weights.as_ref().map(Column::as_slice).transpose()?,
    };
    of_dtype!(columns, T, {
        let (found, coefficients) = columns.run::<T, _>(py, |rollouts, out| {
            let per = if advantages.len() == rollouts.rows() { Per::Sequence } else { Per::Token };
            policy_gradient_of(rollouts, Advantages::double(advantages, per), &objective, out, threads())
        })?;
        evaluation(py, &found, coefficients)
    })
}

/// Return the weight of each token that another arithmetic drew, and how far apart the two are; see
/// `karl_fast.objective.Correction`.
#[pyfunction]
#[pyo3(signature = (logp_old, logp_rollout, mask, offsets, *, level, low, high, drop))]
pub(crate) fn objective_correction<'py>(
    py: Python<'py>,
    logp_old: &Bound<'py, PyAny>,
    logp_rollout: &Bound<'py, PyAny>,
    mask: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    level: &str,
    low: f64,
    high: f64,
    drop: bool,
) -> PyResult<(Bound<'py, PyArray1<f64>>, Bound<'py, PyDict>)> {
    let columns = TokenColumns::of(logp_old, Some(logp_rollout), None, mask, offsets)?;
    let level = match level {
        "token" => CorrectionLevel::Token,
        "sequence" => CorrectionLevel::Sequence,
        "geometric" => CorrectionLevel::Geometric,
        other => return Err(unknown("level", other, "token, sequence or geometric")),
    };
    let correction = Correction { level, low, high, mask: drop };
    let (keep, starts) = (columns.mask.as_slice()?, columns.offsets.as_slice()?);
    let mut weights = vec![0.0; keep.len()];
    let mismatch = of_dtype!(columns, T, {
        let old = T::column("logp_old", &columns.logp)?;
        let rollout = columns.old.as_ref().map_or(Ok(old), |column| T::column("logp_rollout", column))?;
        compute(py, || {
            let offsets = Offsets::new("offsets", starts, keep.len())?;
            correction_weights(old, rollout, keep, &offsets, correction, &mut weights)
        })
    })?;
    let held = PyDict::new(py);
    held.set_item("k3", mismatch.k3)?;
    held.set_item("chi2", mismatch.chi2)?;
    held.set_item("low", mismatch.low)?;
    held.set_item("high", mismatch.high)?;
    held.set_item("ess", mismatch.ess)?;
    Ok((weights.into_pyarray(py), held))
}

fn ratio_of<'a>(word: &str, turns: Option<&'a [i64]>, mask: &'a [bool]) -> PyResult<Ratio<'a>> {
    match (word, turns) {
        ("on-policy", _) => Ok(Ratio::OnPolicy),
        ("token", _) => Ok(Ratio::Token),
        ("turn", Some(turns)) => Ok(Ratio::Turn(Turns::Numbers(turns, mask))),
        ("turn", None) => Err(ArgumentError::new_err("turns are not given, wanted for the ratio of a turn")),
        ("sequence", _) => Ok(Ratio::Sequence),
        ("sequence-product", _) => Ok(Ratio::SequenceProduct),
        ("sequence-token", _) => Ok(Ratio::SequenceToken),
        (other, _) => {
            let wanted = "on-policy, token, turn, sequence, sequence-product or sequence-token";
            Err(unknown("ratio", other, wanted))
        }
    }
}

/// Compute a balance; see `karl_fast.objective.TrajectoryBalance`.
#[pyfunction]
#[pyo3(signature = (
    logp, mask, offsets, rewards, *, logp_old=None, logp_ref=None, groups=None, log_z=None, anchor, mean, scale,
    width, choice=None, weight=None, denominator
))]
pub(crate) fn objective_balance<'py>(
    py: Python<'py>,
    logp: &Bound<'py, PyAny>,
    mask: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    rewards: &Bound<'py, PyAny>,
    logp_old: Option<&Bound<'py, PyAny>>,
    logp_ref: Option<&Bound<'py, PyAny>>,
    groups: Option<&Bound<'py, PyAny>>,
    log_z: Option<&Bound<'py, PyAny>>,
    anchor: Option<&str>,
    mean: bool,
    scale: (f64, f64),
    width: f64,
    choice: Option<(f64, f64)>,
    weight: Option<(bool, f64, f64)>,
    denominator: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let columns = TokenColumns::of(logp, logp_old, logp_ref, mask, offsets)?;
    let rewards = column::<f64>("rewards", rewards)?;
    let rewards = rewards.as_slice()?;
    let groups = groups.map(|groups| column::<i64>("groups", groups)).transpose()?;
    let groups = groups.as_ref().map(Column::as_slice).transpose()?;
    let log_z = log_z.map(|log_z| column::<f64>("log_z", log_z)).transpose()?;
    let log_z = log_z.as_ref().map(Column::as_slice).transpose()?;
    let objective = Balance {
        anchor: anchor_of(anchor)?,
        length: power(mean),
        drift: scale.0,
        reward: scale.1,
        log_z: match (log_z, groups) {
            (Some(log_z), _) => LogZ::Learned(log_z),
            (None, Some(groups)) => LogZ::GroupOptimum(groups),
            (None, None) => LogZ::None,
        },
        width,
        choice,
        weight: weight.map(|(mean, floor, ceiling)| (power(mean), floor, ceiling)),
        denominator,
    };
    let mut by_log_z: PyReadwriteArray1<'py, f64> = fresh(py, log_z.map_or(0, <[f64]>::len))?;
    let slopes = by_log_z.as_slice_mut()?;
    of_dtype!(columns, T, {
        let ((found, residuals), coefficients) = columns.run::<T, _>(py, |rollouts, out| {
            balance_of(rollouts, rewards, &objective, out, slopes, threads())
        })?;
        let held = evaluation(py, &found, coefficients)?;
        let statistics = held.as_any().get_item("statistics")?;
        statistics.set_item("residual", residuals.mean)?;
        statistics.set_item("residual_std", residuals.std)?;
        if log_z.is_some() {
            held.set_item("log_z_coefficients", &*by_log_z as &Bound<'py, PyArray1<f64>>)?;
        }
        Ok(held)
    })
}

fn anchor_of(word: Option<&str>) -> PyResult<Anchor> {
    match word {
        None => Ok(Anchor::None),
        Some("logp_old") => Ok(Anchor::Behaviour),
        Some("logp_ref") => Ok(Anchor::Reference),
        Some(other) => Err(unknown("anchor", other, "logp_old, logp_ref or None")),
    }
}

fn power(mean: bool) -> Power {
    if mean { Power::Mean } else { Power::Sum }
}

/// Compute the cross-entropy to a target; see `karl_fast.objective.TargetPolicy`.
#[pyfunction]
#[pyo3(signature = (logp, mask, offsets, targets, groups, *, logp_old=None, mean, denominator))]
pub(crate) fn objective_target_policy<'py>(
    py: Python<'py>,
    logp: &Bound<'py, PyAny>,
    mask: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    targets: &Bound<'py, PyAny>,
    groups: &Bound<'py, PyAny>,
    logp_old: Option<&Bound<'py, PyAny>>,
    mean: bool,
    denominator: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let columns = TokenColumns::of(logp, logp_old, None, mask, offsets)?;
    let (targets, groups) = (column::<f64>("targets", targets)?, column::<i64>("groups", groups)?);
    let (targets, groups, length) = (targets.as_slice()?, groups.as_slice()?, power(mean));
    let objective = TargetPolicy { targets, groups, length, denominator };
    of_dtype!(columns, T, {
        let (found, coefficients) = columns
            .run::<T, _>(py, |rollouts, out| target_policy_of(rollouts, &objective, out, threads()))?;
        evaluation(py, &found, coefficients)
    })
}

/// Compute a weighted likelihood; see `karl_fast.objective.WeightedLikelihood`.
#[pyfunction]
#[pyo3(signature = (logp, mask, offsets, weights, *, logp_old=None, term, aggregate, denominator))]
pub(crate) fn objective_likelihood<'py>(
    py: Python<'py>,
    logp: &Bound<'py, PyAny>,
    mask: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    weights: &Bound<'py, PyAny>,
    logp_old: Option<&Bound<'py, PyAny>>,
    term: &Bound<'py, PyAny>,
    aggregate: &Bound<'py, PyAny>,
    denominator: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let columns = TokenColumns::of(logp, logp_old, None, mask, offsets)?;
    let weights = column::<f64>("weights", weights)?;
    let number = |name: &str| term.getattr(name)?.extract::<f64>();
    let gate = match kind("term", term)?.as_str() {
        "log-likelihood" => Gate::Open,
        "probability-scaled" => Gate::Probability,
        "surprisal-gated" => Gate::Surprisal { kappa: number("kappa")?, gamma: number("gamma")? },
        other => {
            return Err(unknown("term", other, "log-likelihood, probability-scaled or surprisal-gated"));
        }
    };
    let aggregate = aggregate_of(aggregate, Some(denominator))?;
    let objective = WeightedLikelihood { weights: weights.as_slice()?, gate, aggregate };
    of_dtype!(columns, T, {
        let (found, coefficients) = columns
            .run::<T, _>(py, |rollouts, out| weighted_likelihood_of(rollouts, &objective, out, threads()))?;
        evaluation(py, &found, coefficients)
    })
}

/// Compute a preference loss; see `karl_fast.objective.Preference`.
#[pyfunction]
#[pyo3(signature = (
    logp, mask, offsets, preferred, *, logp_ref=None, pairs=None, baselines=None, anchor, mean, margin, link,
    likelihood, denominator
))]
pub(crate) fn objective_preference<'py>(
    py: Python<'py>,
    logp: &Bound<'py, PyAny>,
    mask: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    preferred: &Bound<'py, PyAny>,
    logp_ref: Option<&Bound<'py, PyAny>>,
    pairs: Option<&Bound<'py, PyAny>>,
    baselines: Option<&Bound<'py, PyAny>>,
    anchor: Option<&str>,
    mean: bool,
    margin: &Bound<'py, PyAny>,
    link: &Bound<'py, PyAny>,
    likelihood: f64,
    denominator: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let columns = TokenColumns::of(logp, None, logp_ref, mask, offsets)?;
    let preferred = flags("preferred", preferred)?;
    let pairs = pairs.map(|pairs| column::<i64>("pairs", pairs)).transpose()?;
    let pairs = pairs.as_ref().map(Column::as_slice).transpose()?;
    let baselines = baselines.map(|baselines| column::<f64>("baselines", baselines)).transpose()?;
    let baselines = baselines.as_ref().map(Column::as_slice).transpose()?;
    let objective = Preference {
        anchor: anchor_of(anchor)?,
        length: power(mean),
        margin: margin_of(margin, pairs, baselines)?,
        link: link_of(link)?,
        coef: link.getattr("coef")?.extract()?,
        likelihood,
        preferred: preferred.as_slice()?,
        denominator,
    };
    of_dtype!(columns, T, {
        let ((found, margins), coefficients) =
            columns.run::<T, _>(py, |rollouts, out| preference_of(rollouts, &objective, out, threads()))?;
        let held = evaluation(py, &found, coefficients)?;
        let statistics = held.as_any().get_item("statistics")?;
        statistics.set_item("margin", margins.margin)?;
        statistics.set_item("accuracy", margins.accuracy)?;
        statistics.set_item("reward_chosen", margins.chosen)?;
        statistics.set_item("reward_rejected", margins.rejected)?;
        Ok(held)
    })
}

/// Return what answers are compared with, by a point of the axis of margins and the column that it needs.
fn margin_of<'a>(
    object: &Bound<'_, PyAny>,
    pairs: Option<&'a [i64]>,
    baselines: Option<&'a [f64]>,
) -> PyResult<Margin<'a>> {
    let number = |name: &str| object.getattr(name)?.extract::<f64>();
    let missing =
        |name: &str| ArgumentError::new_err(format!("{name} are not given, wanted for this margin"));
    match kind("margin", object)?.as_str() {
        "difference" => Ok(Margin::Difference {
            pairs: pairs.ok_or_else(|| missing("pairs"))?,
            scale: number("scale")?,
            target: number("target")?,
        }),
        "log-odds" => Ok(Margin::LogOdds { pairs: pairs.ok_or_else(|| missing("pairs"))? }),
        "baseline" => Ok(Margin::Baseline {
            baselines: baselines.ok_or_else(|| missing("baselines"))?,
            scale: number("scale")?,
            weights: (number("desirable")?, number("undesirable")?),
        }),
        other => Err(unknown("margin", other, "difference, log-odds or baseline")),
    }
}

/// Return the cost of a margin by a point of the axis of links.
fn link_of(object: &Bound<'_, PyAny>) -> PyResult<Link> {
    let number = |name: &str| object.getattr(name)?.extract::<f64>();
    match kind("link", object)?.as_str() {
        "log-sigmoid" => Ok(Link::LogSigmoid { smoothing: number("smoothing")? }),
        "square" => Ok(Link::Square { target: number("target")? }),
        "sigmoid" => Ok(Link::Sigmoid),
        other => Err(unknown("link", other, "log-sigmoid, square or sigmoid")),
    }
}

/// Compute a term that is linear in another quantity of each token: its sum, its coefficients, and the mean quantity.
#[pyfunction]
pub(crate) fn objective_linear_term<'py>(
    py: Python<'py>,
    values: &Bound<'py, PyAny>,
    mask: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    factor: f64,
    aggregate: &Bound<'py, PyAny>,
    denominator: f64,
) -> PyResult<(f64, Bound<'py, PyAny>, f64)> {
    let columns = TokenColumns::of(values, None, None, mask, offsets)?;
    let aggregate = aggregate_of(aggregate, Some(denominator))?;
    of_dtype!(columns, T, {
        let values = T::column("values", &columns.logp)?;
        let ((loss, mean), coefficients) = columns.run::<T, _>(py, |rollouts, out| {
            linear_term_of(rollouts, values, factor, aggregate, out, threads())
        })?;
        Ok((loss, coefficients, mean))
    })
}

fn clip_of(object: &Bound<'_, PyAny>, clamp: Option<f64>) -> PyResult<Clip> {
    let kind = kind("clip", object)?;
    let number = |name: &str| object.getattr(name)?.extract::<f64>();
    let clip = match kind.as_str() {
        "none" => Ok(Clip::NONE),
        "clip" => Clip::ppo(number("low")?, number("high")?),
        "dual-clip" => Clip::dual(number("low")?, number("high")?, number("bound")?),
        "two-sided" => Clip::two_sided(number("low")?, number("high")?, number("delta")?),
        "cap" => Clip::cap(number("floor")?, number("ceiling")?),
        other => return Err(unknown("clip", other, "none, clip, dual-clip, two-sided or cap")),
    };
    let clamped = clip.and_then(|clip| clamp.map_or(Ok(clip), |nats| clip.clamped(nats)));
    clamped.map_err(|error| to_python(error.into()))
}

/// Return the aggregate with the denominator of a whole batch; without one, with that of its own tokens.
fn aggregate_of(object: &Bound<'_, PyAny>, denominator: Option<f64>) -> PyResult<Aggregate> {
    let sequences = denominator;
    let aggregate = match kind("aggregate", object)?.as_str() {
        "sequence-mean" => Aggregate::SequenceMean { sequences },
        "token-mean" => Aggregate::TokenMean { tokens: denominator },
        "sequence-sum" => Aggregate::SequenceSum { sequences },
        "constant-length" => {
            Aggregate::ConstantLength { tokens: object.getattr("tokens")?.extract()?, sequences }
        }
        other => {
            let wanted = "sequence-mean, token-mean, constant-length or sequence-sum";
            return Err(unknown("aggregate", other, wanted));
        }
    };
    aggregate.check().map(|()| aggregate).map_err(|error| to_python(error.into()))
}

/// Return the rule of an update by its clip; that inside of one that masks negatives.
fn update_of(object: &Bound<'_, PyAny>) -> PyResult<Update> {
    let number = |name: &str| object.getattr(name)?.extract::<f64>();
    Ok(match kind("clip", object)?.as_str() {
        "mask-negatives" => update_of(&object.getattr("clip")?)?,
        "geometric-clip" => Update::Geometric { low: number("low")?, high: number("high")? },
        "variance-penalty" => Update::Variance { strength: number("strength")? },
        "soft-gate" => Update::SoftGate { positive: number("positive")?, negative: number("negative")? },
        "flip" => Update::Flip { low: number("low")?, high: number("high")?, bound: number("bound")? },
        "delight" => Update::Delight { temperature: number("temperature")? },
        "probability-mask" => Update::ProbabilityMask {
            low: number("low")?,
            high: number("high")?,
            ceiling: number("ceiling")?,
        },
        "probability-band" => Update::ProbabilityBand { width: number("width")? },
        _ => Update::Bounded(clip_of(object, None)?),
    })
}

/// Return the least delta of the clips that mask negatives, one within the other; None without one.
fn mask_negatives_of(object: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
    if kind("clip", object)? != "mask-negatives" {
        return Ok(None);
    }
    let (own, inner) = (object.getattr("delta")?.extract()?, mask_negatives_of(&object.getattr("clip")?)?);
    Ok(Some(inner.map_or(own, |inner: f64| inner.min(own))))
}

/// Return the penalty in the loss by its point of the axis of divergences.
fn penalty_of(object: &Bound<'_, PyAny>) -> PyResult<Penalty> {
    let coef = || object.getattr("coef")?.extract::<f64>();
    let by_ratio = || object.getattr("by_ratio")?.extract::<bool>();
    Ok(match kind("kl", object)?.as_str() {
        "k2" => Penalty::K2 { coef: coef()?, by_ratio: by_ratio()? },
        "k3" => Penalty::K3 { coef: coef()?, by_ratio: by_ratio()? },
        _ => Penalty::None,
    })
}

/// Return the word by which a point of an axis says what it is.
fn kind(what: &str, object: &Bound<'_, PyAny>) -> PyResult<String> {
    let Ok(kind) = object.getattr("kind").and_then(|kind| kind.extract()) else {
        let got = object.get_type().name()?;
        return Err(UsageError::new_err(format!(
            "{what} is a {got}, wanted one of those in karl_fast.ratio"
        )));
    };
    Ok(kind)
}

fn unknown(what: &str, got: &str, wanted: &str) -> PyErr {
    UsageError::new_err(format!("{what} is {got:?}, wanted {wanted}"))
}

/// Return the ratio of a level, and what one advantage is for. Turns are given where one of the two wants them, and only
/// there.
fn places<'a>(level: &str, per: &str, turns: Option<Offsets<'a>>) -> PyResult<(Ratio<'a>, Per<'a>)> {
    let missing = || UsageError::new_err("turn_offsets are not given, wanted for level or per = \"turn\"");
    let ratio = match level {
        "token" => Ratio::Token,
        "turn" => Ratio::Turn(Turns::Offsets(turns.ok_or_else(missing)?)),
        "sequence" => Ratio::Sequence,
        "sequence-product" => Ratio::SequenceProduct,
        "sequence-token" => Ratio::SequenceToken,
        other => {
            let wanted = "token, turn, sequence, sequence-product or sequence-token";
            return Err(unknown("level", other, wanted));
        }
    };
    let per = match per {
        "sequence" => Per::Sequence,
        "turn" => Per::Turn(turns.ok_or_else(missing)?),
        "token" => Per::Token,
        other => return Err(unknown("per", other, "sequence, turn or token")),
    };
    let used = matches!(ratio, Ratio::Turn(_)) || matches!(per, Per::Turn(_));
    if turns.is_some() && !used {
        return Err(UsageError::new_err("turn_offsets are given, wanted only for level or per = \"turn\""));
    }
    Ok((ratio, per))
}
