//! Bindings of `karl_core::filter`.

use karl_core::Offsets;
use karl_core::filter::rollouts::PenaltyForm;
use karl_core::filter::tokens::{self, RatioTokens};
use karl_core::filter::variance::{self, TopGroups};
use karl_core::filter::{self, MaskReason, rollouts};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use crate::boundary::array::{column, count, flags, freedom, reals, small_count, threads, with_reals};
use crate::boundary::error::UsageError;
use crate::boundary::grouping::Grouping;
use crate::boundary::release_gil::compute;

/// Filtered rows or tokens, with reasons and counts, as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct Filtered<'py> {
    keep: Bound<'py, PyArray1<bool>>,
    reasons: Bound<'py, PyArray1<u8>>,
    counts: Vec<(&'static str, usize)>,
}

impl<'py> Filtered<'py> {
    fn new(py: Python<'py>, reasons: Vec<MaskReason>) -> Self {
        let counts = MaskReason::ALL.into_iter().zip(filter::counts(&reasons));
        let told = counts.filter(|&(reason, count)| reason == MaskReason::Kept || count > 0);
        let keep: Vec<bool> = reasons.iter().map(|&reason| reason == MaskReason::Kept).collect();
        Self {
            counts: told.map(|(reason, count)| (reason.name(), count)).collect(),
            keep: keep.into_pyarray(py),
            reasons: reasons.into_iter().map(|reason| reason as u8).collect::<Vec<u8>>().into_pyarray(py),
        }
    }
}

/// Return the name of each reason code, by its number.
#[pyfunction]
pub(crate) fn reasons() -> Vec<&'static str> {
    MaskReason::ALL.into_iter().map(MaskReason::name).collect()
}

/// Drop groups with equal outcomes.
#[pyfunction]
#[pyo3(signature = (outcomes, group_ids=None, *, offsets=None, rewards=None))]
pub(crate) fn constant_groups<'py>(
    py: Python<'py>,
    outcomes: &Bound<'py, PyAny>,
    group_ids: Option<&Bound<'py, PyAny>>,
    offsets: Option<&Bound<'py, PyAny>>,
    rewards: Option<&Bound<'py, PyAny>>,
) -> PyResult<Filtered<'py>> {
    let outcomes = reals("outcomes", outcomes)?;
    let shaped = rewards.map(|rewards| reals("rewards", rewards)).transpose()?;
    let kept = with_reals!(&outcomes, |values| {
        let groups = Grouping::in_any_order(group_ids, offsets)?.codes("offsets", values.len())?;
        match &shaped {
            None => compute(py, || filter::groups::constant::<_, f64>(values, None, &groups, threads())),
            Some(shaped) => with_reals!(shaped, |shaped| compute(py, || {
                filter::groups::constant(values, Some(shaped), &groups, threads())
            })),
        }
    })?;
    Ok(Filtered::new(py, kept))
}

/// Keep groups of which some rollouts are right and some are not.
#[pyfunction]
#[pyo3(signature = (right, group_ids=None, *, offsets=None))]
pub(crate) fn mixed_groups<'py>(
    py: Python<'py>,
    right: &Bound<'py, PyAny>,
    group_ids: Option<&Bound<'py, PyAny>>,
    offsets: Option<&Bound<'py, PyAny>>,
) -> PyResult<Filtered<'py>> {
    let right = flags("right", right)?;
    let values = right.as_slice()?;
    let groups = Grouping::in_any_order(group_ids, offsets)?.codes("offsets", values.len())?;
    let kept = compute(py, || filter::groups::mixed(values, &groups, threads()))?;
    Ok(Filtered::new(py, kept))
}

/// Count the effects of a mask on groups with a training signal: groups before it, now short, now constant.
#[pyfunction]
#[pyo3(signature = (keep, rewards, group_ids=None, *, offsets=None, min_group=2))]
pub(crate) fn starved<'py>(
    py: Python<'py>,
    keep: &Bound<'py, PyAny>,
    rewards: &Bound<'py, PyAny>,
    group_ids: Option<&Bound<'py, PyAny>>,
    offsets: Option<&Bound<'py, PyAny>>,
    min_group: i64,
) -> PyResult<(usize, usize, usize)> {
    let (keep, rewards) = (flags("keep", keep)?, reals("rewards", rewards)?);
    let least = count("min_group", min_group)?;
    let mask = keep.as_slice()?;
    let groups = Grouping::in_any_order(group_ids, offsets)?.codes("offsets", mask.len())?;
    let found = with_reals!(&rewards, |values| {
        compute(py, || filter::groups::starved(mask, values, &groups, least, threads()))
    })?;
    Ok((found.groups, found.short, found.constant))
}

/// Keep the groups with the largest variance of rewards: a share `p` of the sum of the variances, or `k` groups.
#[pyfunction]
#[pyo3(signature = (rewards, group_ids=None, *, offsets=None, p=None, k=None, ddof=0))]
pub(crate) fn variance_top<'py>(
    rewards: &Bound<'py, PyAny>,
    group_ids: Option<&Bound<'py, PyAny>>,
    offsets: Option<&Bound<'py, PyAny>>,
    p: Option<f64>,
    k: Option<i64>,
    ddof: i64,
) -> PyResult<Filtered<'py>> {
    let (py, rewards, ddof) = (rewards.py(), reals("rewards", rewards)?, freedom(ddof)?);
    let top = match (p, k) {
        (Some(share), None) => TopGroups::Share(share),
        (None, Some(k)) => TopGroups::Count(count("k", k)?),
        _ => return Err(UsageError::new_err("give either p or k")),
    };
    let kept = with_reals!(&rewards, |values| {
        let groups = Grouping::in_order(group_ids, offsets)?.codes("offsets", values.len())?;
        compute(py, || variance::top(values, &groups, top, ddof, threads()))
    })?;
    Ok(Filtered::new(py, kept))
}

/// Drop rollouts that were truncated at the limit of tokens.
#[pyfunction]
#[pyo3(signature = (lengths, *, max_tokens, truncated=None))]
pub(crate) fn overlong<'py>(
    py: Python<'py>,
    lengths: &Bound<'py, PyAny>,
    max_tokens: i64,
    truncated: Option<&Bound<'py, PyAny>>,
) -> PyResult<Filtered<'py>> {
    let (lengths, most) = (column::<i64>("lengths", lengths)?, small_count("max_tokens", max_tokens)?);
    let cut = truncated.map(|cut| flags("truncated", cut)).transpose()?;
    let cut = cut.as_ref().map(|cut| cut.as_slice()).transpose()?;
    let values = lengths.as_slice()?;
    let kept = compute(py, || rollouts::overlong(values, most, cut, threads()))?;
    Ok(Filtered::new(py, kept))
}

/// Return the penalty for the reward of a rollout near the limit of tokens.
#[pyfunction]
#[pyo3(signature = (lengths, *, max_tokens, cache_tokens, form="dapo", factor=None))]
pub(crate) fn soft_overlong_penalty<'py>(
    py: Python<'py>,
    lengths: &Bound<'py, PyAny>,
    max_tokens: i64,
    cache_tokens: i64,
    form: &str,
    factor: Option<f64>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let lengths = column::<i64>("lengths", lengths)?;
    let (most, cache) = (small_count("max_tokens", max_tokens)?, small_count("cache_tokens", cache_tokens)?);
    let form = match (form, factor) {
        ("dapo", None) => PenaltyForm::Dapo,
        ("dapo", Some(_)) => return Err(UsageError::new_err("the form dapo takes no factor")),
        ("verl", factor) => PenaltyForm::Verl(factor.unwrap_or(1.0)),
        ("openrlhf", factor) => PenaltyForm::OpenRlhf(factor.unwrap_or(1.0)),
        _ => {
            let message = format!("form is {form:?}, wanted one of dapo, verl, openrlhf");
            return Err(UsageError::new_err(message));
        }
    };
    let values = lengths.as_slice()?;
    let work = || rollouts::soft_overlong_penalty(values, most, cache, form, threads());
    Ok(compute(py, work)?.into_pyarray(py))
}

/// Drop rollouts of a policy more than `max_age` versions behind.
#[pyfunction]
#[pyo3(signature = (versions, *, now, max_age))]
pub(crate) fn stale<'py>(
    py: Python<'py>,
    versions: &Bound<'py, PyAny>,
    now: i64,
    max_age: i64,
) -> PyResult<Filtered<'py>> {
    let versions = column::<i64>("versions", versions)?;
    let values = versions.as_slice()?;
    let kept = compute(py, || rollouts::stale(values, now, max_age, threads()))?;
    Ok(Filtered::new(py, kept))
}

/// The tokens of rollouts under two policies, as Python hands them over.
#[derive(FromPyObject)]
pub(crate) struct TokenArguments<'py>(
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Option<Bound<'py, PyAny>>,
);

/// Calls a kernel on `RatioTokens` and advantages, whatever the three columns of numbers hold.
macro_rules! with_tokens {
    ($py:expr, $given:expr, $advantages:expr, |$tokens:ident, $values:ident| $work:expr) => {{
        let TokenArguments(logp, logp_old, offsets, mask) = $given;
        let (logp, logp_old) = (reals("logp", logp)?, reals("logp_old", logp_old)?);
        let (offsets, advantages) = (column::<i64>("offsets", offsets)?, reals("advantages", $advantages)?);
        let mask = mask.as_ref().map(|mask| flags("mask", mask)).transpose()?;
        let mask = mask.as_ref().map(|mask| mask.as_slice()).transpose()?;
        let places = offsets.as_slice()?;
        with_reals!(&logp, |new| with_reals!(&logp_old, |old| with_reals!(&advantages, |$values| {
            compute($py, || {
                let offsets = Offsets::new("offsets", places, new.len())?;
                let $tokens = RatioTokens::new(new, old, offsets, mask)?;
                $work
            })
        })))
    }};
}

/// Drop rollouts of negative advantage that have become less likely under the policy.
#[pyfunction]
pub(crate) fn low_ratio_negatives<'py>(
    py: Python<'py>,
    tokens: TokenArguments<'py>,
    advantages: &Bound<'py, PyAny>,
    delta: f64,
) -> PyResult<Filtered<'py>> {
    let kept = with_tokens!(py, &tokens, advantages, |tokens, values| {
        tokens::low_ratio_negatives(&tokens, values, delta, threads())
    })?;
    Ok(Filtered::new(py, kept))
}

/// Drop tokens with a probability that has moved far enough in the direction of their advantage.
#[pyfunction]
pub(crate) fn probability_difference<'py>(
    py: Python<'py>,
    tokens: TokenArguments<'py>,
    advantages: &Bound<'py, PyAny>,
    low: f64,
    high: f64,
) -> PyResult<Filtered<'py>> {
    let kept = with_tokens!(py, &tokens, advantages, |tokens, values| {
        tokens::probability_difference(&tokens, values, (low, high), threads())
    })?;
    Ok(Filtered::new(py, kept))
}
