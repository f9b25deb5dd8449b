//! Target policies: the cross-entropy of the policy to a target over the candidates of each prompt.

use super::arithmetic::RealArithmetic;
use super::batch_statistics::Evaluation;
use super::ratio::Power;
use super::rollouts::{RolloutPart, Rollouts};
use super::row_sums::{RolloutGroups, RowSummary, collect_row_facts, fill_rows};
use crate::check::{check_length, check_range};
use crate::error::Result;

/// A point in the axes of target policies, for one batch.
#[derive(Clone, Copy, Debug)]
pub struct TargetPolicy<'a> {
    /// The wanted probability of each candidate within its group. `[B]`
    pub targets: &'a [f64],
    /// The group of each candidate, negative for none. `[B]`
    pub groups: &'a [i64],
    /// Mean or sum of the log-probabilities of a candidate.
    pub length: Power,
    /// The number of groups of the whole batch.
    pub denominator: f64,
}

impl<T: RealArithmetic> RowSummary<T> for Power {
    /// The log-probability of a candidate, and its number of tokens.
    type Row = (f64, usize);

    #[inline(always)]
    fn of(&self, _: usize, part: &RolloutPart<'_, T>) -> Self::Row {
        let kept = part.kept();
        (Self::of(*self, part.kept_sum(), kept.max(1)), kept)
    }
}

/// Compute the cross-entropy to the targets and its derivative by each log-probability.
///
/// ```text
/// loss = sum over groups of -sum_i q_i log p_i / denominator,    p = softmax over the group of length(logp_i)
/// d loss / d length_i = (p_i sum_j q_j - q_i) / denominator
/// ```
///
/// Shapes: `coefficient` `[N]`, all of it written. Cost: two reads of the columns, one write.
///
/// # Errors
/// [`Error::Length`](crate::Error::Length) for columns that do not match; [`Error::Range`](crate::Error::Range) for a
/// denominator below 1.
pub fn target_policy<T: RealArithmetic>(
    rollouts: &Rollouts<'_, T>,
    objective: &TargetPolicy<'_>,
    coefficient: &mut [T],
    threads: usize,
) -> Result<Evaluation> {
    let TargetPolicy { targets, groups, length, denominator } = *objective;
    check_length("coefficient", coefficient.len(), rollouts.logp.len())?;
    check_length("targets", targets.len(), rollouts.offsets.len())?;
    check_length("groups", groups.len(), rollouts.offsets.len())?;
    check_range("denominator", denominator, 1.0, f64::MAX)?;
    let (rows, statistics) = collect_row_facts(rollouts, threads, &length);
    let (mut slopes, mut loss) = (vec![0.0; rows.len()], 0.0);
    for members in RolloutGroups::of(groups, |row| rows[row].1 > 0).members() {
        let peak = members.iter().map(|&row| rows[row].0).fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = members.iter().map(|&row| libm::exp(rows[row].0 - peak)).sum();
        let wanted: f64 = members.iter().map(|&row| targets[row]).sum();
        for &row in members {
            let log_p = rows[row].0 - peak - libm::log(total);
            loss -= targets[row] * log_p;
            slopes[row] = (wanted * libm::exp(log_p) - targets[row]) / denominator;
        }
    }
    fill_rows(rollouts, coefficient, threads, |row, part, out| {
        let share = if length == Power::Mean { 1.0 / rows[row].1.max(1) as f64 } else { 1.0 };
        part.spread(T::narrow(slopes[row] * share), out);
    });
    Ok(Evaluation { loss: loss / denominator, statistics })
}
