//! Rollouts of a policy too old, and rollouts that fill the limit of tokens, with the soft penalty before it.

use super::{MaskReason, each_reason};
use crate::check::{check_counts, check_length, check_most, check_not_negative, check_number};
use crate::error::{Error, Result};
use crate::numeric::parallel;

/// Drop rollouts of a policy more than `max_age` versions behind.
///
/// ```text
/// keep_i = now - version_i <= max_age
/// ```
///
/// A version is the number of steps that the policy had taken when the rollout began; a `max_age` of 0 keeps
/// on-policy rollouts only. [`starved`](super::groups::starved) counts the groups that this leaves short. Shapes:
/// `[B]`. Cost: one pass.
///
/// # Errors
/// [`Error::Outside`] for a version from after `now`; [`Error::Negative`] for a negative `max_age`.
pub fn stale(versions: &[i64], now: i64, max_age: i64, threads: usize) -> Result<Vec<MaskReason>> {
    if let Some(index) = versions.iter().position(|&version| version > now) {
        let (value, low, high) = (versions[index] as f64, f64::NEG_INFINITY, now as f64);
        return Err(Error::Outside { what: "versions", index, value, low, high });
    }
    if max_age < 0 {
        return Err(Error::Negative { what: "max_age", value: max_age as f64 });
    }
    let oldest = now.saturating_sub(max_age);
    let reason = |row: usize| if versions[row] < oldest { MaskReason::Stale } else { MaskReason::Kept };
    Ok(each_reason(versions.len(), threads, reason))
}

/// Drop rollouts that were truncated at the limit of tokens (overlong filtering).
///
/// Without `truncated`, a rollout of `max_tokens` or more counts as truncated: one that ended by itself at the last
/// token looks the same. With it, the flags decide, and a rollout longer than the limit is dropped too.
/// Shapes: all `[B]`. Cost: one pass.
/// Reference: Yu et al. 2025, DAPO (arXiv:2503.14476), section 3.4.
///
/// # Errors
/// [`Error::Outside`] for a negative length; [`Error::Length`] for columns that differ in rows.
pub fn overlong(
    lengths: &[i64],
    max_tokens: u32,
    truncated: Option<&[bool]>,
    threads: usize,
) -> Result<Vec<MaskReason>> {
    check_counts("lengths", lengths)?;
    let flags = truncated.unwrap_or_default();
    if truncated.is_some() {
        check_length("truncated", flags.len(), lengths.len())?;
    }
    let limit = i64::from(max_tokens);
    let drops = |row: usize| match flags.get(row) {
        Some(&cut) => cut || lengths[row] > limit,
        None => lengths[row] >= limit,
    };
    let reason = |row| if drops(row) { MaskReason::Overlong } else { MaskReason::Kept };
    Ok(each_reason(lengths.len(), threads, reason))
}

/// The form of the penalty: papers and trainers differ beyond the limit, where responses should not be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PenaltyForm {
    /// Eq. 13 of DAPO; TRL: never below -1.
    Dapo,
    /// verl: a straight line without a floor, times a factor.
    Verl(f64),
    /// `OpenRLHF`: never below minus the factor.
    OpenRlhf(f64),
}

/// Return the penalty for the reward of a rollout near the limit of tokens.
///
/// ```text
/// x = (T - (L - C)) / C        T tokens of the rollout, L the limit, C the last stretch before it
/// dapo      0 for x <= 0,  -x up to the limit,  -1 beyond it
/// verl      factor * min(-x, 0)
/// openrlhf  -factor * clip(x, 0, 1)
/// ```
///
/// Up to the limit the three are one line. Shapes: lengths and result `[B]`. Cost: one pass.
/// Reference: Yu et al. 2025, DAPO (arXiv:2503.14476), eq. 13, with L = 20480 and C = 4096.
///
/// # Errors
/// [`Error::Outside`] for a negative length; [`Error::Negative`] for a negative factor, [`Error::Number`] for an infinite
/// one; [`Error::Positive`] for a stretch of 0; [`Error::Most`] for one above the limit.
pub fn soft_overlong_penalty(
    lengths: &[i64],
    max_tokens: u32,
    cache_tokens: u32,
    form: PenaltyForm,
    threads: usize,
) -> Result<Vec<f64>> {
    check_counts("lengths", lengths)?;
    check_most("cache_tokens", cache_tokens as usize, max_tokens as usize)?;
    if cache_tokens == 0 {
        return Err(Error::Positive { what: "cache_tokens", value: 0.0 });
    }
    let (factor, most) = match form {
        PenaltyForm::Dapo => (1.0, 1.0),
        PenaltyForm::Verl(factor) => (factor, f64::INFINITY),
        PenaltyForm::OpenRlhf(factor) => (factor, 1.0),
    };
    check_not_negative("factor", factor)?;
    check_number("factor", factor)?;
    let (free, stretch) = (i64::from(max_tokens - cache_tokens), f64::from(cache_tokens));
    let mut penalties = vec![0.0; lengths.len()];
    parallel::fill(&mut penalties, threads, |first, block| {
        for (penalty, &length) in block.iter_mut().zip(&lengths[first..]) {
            let excess = (length - free).max(0) as f64 / stretch;
            *penalty = -factor * excess.min(most);
        }
    });
    Ok(penalties)
}
