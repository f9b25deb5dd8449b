//! Rollouts of a policy too old.

use super::MaskReason;
use super::groups::each;
use crate::error::{Error, Result};

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
    Ok(each(versions.len(), threads, reason))
}
