//! One number a group: the soft value that a regression subtracts, and the intercept that it fits. Both are given on each
//! row, so that they can be subtracted from rewards as they stand.

use crate::check::{check_finite, check_length, check_not_infinite, check_not_negative, check_positive};
use crate::error::Result;
use crate::group::Layout;
use crate::numeric::Real;
use crate::numeric::sum::Compensated;

/// Compute the soft value of each row's group: between the mean of its rewards (high temperature) and the largest
/// (low).
///
/// ```text
/// V = t log((1/n) sum_i exp(r_i / t))      t = temperature:   0 -> max r,   infinite -> mean r
/// ```
///
/// It is computed as `max + t log1p(mean expm1((r - max) / t))`, which keeps its digits at both ends. A missing
/// reward is left out of its group; a row without a group, or in a group without rewards, has NaN. A group of equal
/// rewards has exactly that value.
///
/// Groups come by codes, or end to end. Shapes: `[B]`, result `[B]`. Cost: two passes, one `expm1` a row.
/// References: OAPL (arXiv:2602.19362); A*PO (arXiv:2505.20686), which writes the mean as temperature 0; the mean is
/// the baseline of Kimi k1.5 (arXiv:2501.12599).
///
/// # Errors
/// [`Error::Length`](crate::Error::Length) where rewards and groups differ in rows;
/// [`Error::NotFinite`](crate::Error::NotFinite) for an infinite reward, or a spread beyond f64;
/// [`Error::Negative`](crate::Error::Negative) for a negative temperature.
pub fn soft_value<'a, T: Real>(
    rewards: &[T],
    groups: impl Into<Layout<'a>>,
    temperature: f64,
    threads: usize,
) -> Result<Vec<f64>> {
    let layout = groups.into();
    layout.check("rewards", rewards.len())?;
    check_not_infinite("rewards", rewards)?;
    check_not_negative("temperature", temperature)?;
    let tops = layout.fold(threads, f64::NEG_INFINITY, |top, _, row| *top = top.max(rewards[row].widen()));
    let raised =
        |below: f64| if temperature.is_infinite() { below } else { libm::expm1(below / temperature) };
    let means = layout.fold(threads, GroupMean::default(), |mean: &mut GroupMean, group, row| {
        let below = rewards[row].widen() - tops[group];
        // 0 / 0 is the top itself.
        mean.add(if below == 0.0 { 0.0 } else { raised(below) });
    });
    let value = |(&top, mean): (&f64, GroupMean)| match mean.value() {
        mean if mean.is_nan() => f64::NAN,
        mean if temperature.is_infinite() => top + mean,
        mean if temperature > 0.0 => top + temperature * libm::log1p(mean),
        _ => top,
    };
    let values: Vec<f64> = tops.iter().zip(means).map(value).collect();
    check_column("soft value", layout.on_rows(&values, threads))
}

/// Return the intercept that a regression of log-ratios on rewards fits to each group, on each of its rows.
///
/// ```text
/// c = argmin_c sum_i (c + log_ratio_i - r_i / t)^2 = mean_i(r_i / t - log_ratio_i)      t = temperature
/// log_ratio_i = logp_i - logp_old_i,    over draws of the behaviour policy: c = mean(r) / t + KL(old || current)
/// ```
///
/// This is what PACED's learned log Z converges to, and why `t c` is near the mean reward, its signal of difficulty. It is
/// not the log partition `log mean exp(r / t)`, of which `t` times is [`soft_value`]: that is near the largest reward.
///
/// Rows with a missing reward are left out. Groups come by codes, or end to end. Shapes: `[B]` each, result `[B]`. Cost: one pass.
/// Reference: PACED-RL (arXiv:2602.12642), proposition 4.1.
///
/// # Errors
/// [`Error::Length`](crate::Error::Length) where arguments differ in rows; [`Error::NotFinite`](crate::Error::NotFinite) for an infinite reward, a log-ratio that is not
/// finite, or a result beyond f64; [`Error::Positive`](crate::Error::Positive) for a temperature that is not above zero.
pub fn regression_intercept<'a, T: Real, L: Real>(
    rewards: &[T],
    log_ratio: &[L],
    groups: impl Into<Layout<'a>>,
    temperature: f64,
    threads: usize,
) -> Result<Vec<f64>> {
    let layout = groups.into();
    layout.check("rewards", rewards.len())?;
    check_length("log_ratio", log_ratio.len(), rewards.len())?;
    check_not_infinite("rewards", rewards)?;
    check_finite("log_ratio", log_ratio)?;
    check_positive("temperature", temperature)?;
    let means = layout.fold(threads, GroupMean::default(), |mean: &mut GroupMean, _, row| {
        mean.add(rewards[row].widen() / temperature - log_ratio[row].widen());
    });
    let intercepts: Vec<f64> = means.into_iter().map(GroupMean::value).collect();
    check_column("regression intercept", layout.on_rows(&intercepts, threads))
}

/// The mean of what is there.
#[derive(Clone, Copy, Debug, Default)]
struct GroupMean {
    total: Compensated,
    count: u32,
}

impl GroupMean {
    fn add(&mut self, value: f64) {
        if !value.is_nan() {
            self.total.add(value);
            self.count += 1;
        }
    }

    /// NaN for none.
    fn value(self) -> f64 {
        self.total.value() / f64::from(self.count)
    }
}

fn check_column(what: &'static str, column: Vec<f64>) -> Result<Vec<f64>> {
    check_not_infinite(what, &column).map(|()| column)
}
