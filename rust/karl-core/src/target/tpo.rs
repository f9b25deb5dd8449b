//! The target of Target Policy Optimization: what the candidates of a prompt should weigh, from rewards and the policy that
//! drew them.

use crate::check::{check_length, check_logs, check_not_infinite, check_positive};
use crate::error::Result;
use crate::group::Groups;
use crate::logsumexp::log_sum_exp_by;
use crate::numeric::exp::exp;
use crate::numeric::sum::Compensated;
use crate::numeric::{Real, parallel};

/// Largest standard deviation at which rewards are centred but not scaled, from the reference code.
const FLAT: f64 = 1e-6;

/// Sharpness of the target, and the policy it starts from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tpo {
    /// Divides the utility; above zero. The paper's is 1, and 0.25 to 2 do as well.
    pub temperature: f64,
    /// True if the target starts from the behaviour policy; else it is a softmax of utilities alone.
    pub anchored: bool,
}

/// Return the target probability of each candidate among those of its group.
///
/// ```text
/// q_i = softmax over the group of (logp_old_i + u_i / t)         t = temperature
/// u_i = (r_i - mean) / std, ddof 0;  r_i - mean where std <= 1e-6;  exactly 0 where all rewards are equal
/// ```
///
/// `logp_old` is of whole candidates. A row without a group or with a missing reward is not a candidate: its probability is 0,
/// and it is in no statistic. The loss is `-sum_i q_i logp_i` over the softmax of `logp` in the group, with the gradient
/// `p - q`. Shapes: `[B]` each, result `[B]`. Cost: five passes. Reference: TPO (arXiv:2604.06159).
///
/// # Errors
/// [`Error::Length`](crate::Error::Length) where arguments differ in rows; [`Error::NotFinite`](crate::Error::NotFinite) for
/// an infinite reward, or a log-probability that is NaN or plus infinity; [`Error::Positive`](crate::Error::Positive) for a
/// temperature that is not above zero.
pub fn tpo<L: Real, T: Real>(
    logp_old: &[L],
    rewards: &[T],
    groups: &Groups<'_>,
    settings: Tpo,
    threads: usize,
) -> Result<Vec<f64>> {
    check_length("logp_old", logp_old.len(), groups.rows())?;
    check_length("rewards", rewards.len(), groups.rows())?;
    check_not_infinite("rewards", rewards)?;
    check_logs("logp_old", logp_old)?;
    check_positive("temperature", settings.temperature)?;
    let scales = scales(rewards, groups, threads);
    let exponent = |row: usize| match groups.code(row) {
        Some(group) if !rewards[row].widen().is_nan() => {
            let anchor = if settings.anchored { logp_old[row].widen() } else { 0.0 };
            anchor + scales[group].utility(rewards[row].widen()) / settings.temperature
        }
        _ => f64::NEG_INFINITY,
    };
    let mut column = vec![0.0; groups.rows()];
    parallel::fill(&mut column, threads, |first, block| {
        block.iter_mut().zip(first..).for_each(|(value, row)| *value = exponent(row));
    });
    let logs = log_sum_exp_by(&column, groups, threads)?;
    parallel::fill(&mut column, threads, |first, block| {
        for (value, row) in block.iter_mut().zip(first..) {
            let log_z = groups.code(row).map_or(0.0, |group| logs[group].max(f64::MIN));
            *value = exp(*value - log_z);
        }
    });
    Ok(column)
}

/// Map from the rewards of a group to utilities.
#[derive(Clone, Copy)]
struct GroupScale {
    low: f64,
    high: f64,
    mean: f64,
    /// Divisor of a deviation.
    unit: f64,
}

impl GroupScale {
    fn utility(&self, reward: f64) -> f64 {
        if self.low < self.high { (reward - self.mean) / self.unit } else { 0.0 }
    }
}

fn scales<T: Real>(rewards: &[T], groups: &Groups<'_>, threads: usize) -> Vec<GroupScale> {
    let seen = groups.fold(threads, RewardSums::default(), |seen, _, row| seen.push(rewards[row].widen()));
    let means: Vec<f64> = seen.iter().map(|seen| seen.total.value() / f64::from(seen.count)).collect();
    let squares = groups.fold(threads, Compensated::default(), |sum: &mut Compensated, group, row| {
        let deviation = rewards[row].widen() - means[group];
        if !deviation.is_nan() {
            sum.add(deviation * deviation);
        }
    });
    let scale = |((seen, &mean), squares): ((&RewardSums, &f64), Compensated)| {
        let std = (squares.value() / f64::from(seen.count)).sqrt();
        GroupScale { low: seen.low, high: seen.high, mean, unit: if std > FLAT { std } else { 1.0 } }
    };
    seen.iter().zip(&means).zip(squares).map(scale).collect()
}

/// The rewards of a group that are there.
#[derive(Clone, Copy)]
struct RewardSums {
    count: u32,
    low: f64,
    high: f64,
    total: Compensated,
}

impl Default for RewardSums {
    fn default() -> Self {
        Self { count: 0, low: f64::INFINITY, high: f64::NEG_INFINITY, total: Compensated::default() }
    }
}

impl RewardSums {
    fn push(&mut self, reward: f64) {
        if !reward.is_nan() {
            self.count += 1;
            self.low = self.low.min(reward);
            self.high = self.high.max(reward);
            self.total.add(reward);
        }
    }
}
