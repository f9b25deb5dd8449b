//! Success and reward of k attempts, from n of them.

use crate::check::{check_counts, check_length, check_not_infinite, check_parts, check_positive};
use crate::error::Result;
use crate::group::Groups;
use crate::numeric::Real;
use crate::numeric::parallel::{self, in_parts};
use crate::numeric::sum::Compensated;

/// Compute pass@k: the probability that at least one of k attempts at a prompt is right, from n of which c are.
///
/// ```text
/// pass@k = 1 - C(n - c, k) / C(n, k) = 1 - prod_{j=0}^{b-1} (n - a - j) / (n - j),   a = max(c, k), b = min(c, k)
/// ```
///
/// It is unbiased; `1 - (1 - c/n)^k` is too low. NaN where n < k: fewer attempts than k say nothing of k.
/// Shapes: rollouts `[P]`, successes `[P]`, result `[P]`. Cost: `min(c, k)` products a prompt.
/// Reference: Chen et al. 2021 (arXiv:2107.03374).
///
/// # Errors
/// [`Error::Length`](crate::Error::Length) where the columns differ in length; [`Error::Positive`](crate::Error::Positive) for `k = 0`; [`Error::Outside`](crate::Error::Outside) for a
/// negative number of rollouts, and for successes that are negative or more than the rollouts.
pub fn pass_at_k(rollouts: &[i64], successes: &[i64], k: usize, threads: usize) -> Result<Vec<f64>> {
    check_length("successes", successes.len(), rollouts.len())?;
    check_positive("k", k as f64)?;
    check_counts("rollouts", rollouts)?;
    check_parts("successes", successes, rollouts)?;
    let mut passed = vec![0.0; rollouts.len()];
    parallel::fill(&mut passed, threads, |first, block| {
        for ((passed, &n), &c) in block.iter_mut().zip(&rollouts[first..]).zip(&successes[first..]) {
            *passed = pass_probability(n as f64, c as f64, k as f64);
        }
    });
    Ok(passed)
}

fn pass_probability(n: f64, c: f64, k: f64) -> f64 {
    if n < k {
        return f64::NAN;
    }
    if n - c < k {
        return 1.0;
    }
    let (more, fewer) = (c.max(k), c.min(k));
    let (mut fails, mut done) = (1.0, 0.0);
    while done < fewer {
        fails *= (n - more - done) / (n - done);
        done += 1.0;
    }
    1.0 - fails
}

/// Compute best@k: the expected largest reward of k rollouts of a group, drawn without replacement.
///
/// ```text
/// best@k = sum_{i=k}^{n} C(i - 1, k - 1) / C(n, k) * r_(i),   r_(1) <= ... <= r_(n)
/// ```
///
/// The n present rewards of a group count; NaN where they are fewer than k. k = 1 is the mean, k = n the largest, and
/// rewards of 0 and 1 give [`pass_at_k`]. Shapes: rewards `[B]`, result `[P]`, groups in order of first appearance.
/// Cost: one sort a group. Reference: the order statistics of Chen et al. 2021 (arXiv:2107.03374).
///
/// # Errors
/// [`Error::Length`](crate::Error::Length) where rewards and groups differ in rows; [`Error::Positive`](crate::Error::Positive) for `k = 0`; [`Error::NotFinite`](crate::Error::NotFinite)
/// for an infinite reward.
pub fn best_at_k<R: Real>(rewards: &[R], groups: &Groups<'_>, k: usize, threads: usize) -> Result<Vec<f64>> {
    check_length("rewards", rewards.len(), groups.rows())?;
    check_positive("k", k as f64)?;
    check_not_infinite("rewards", rewards)?;
    let (starts, members) = present(rewards, groups);
    let best = |group: usize| {
        let mut sorted = members[starts[group]..starts[group + 1]].to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        expected_best(&sorted, k)
    };
    let parts = in_parts(groups.len(), threads, |groups| groups.map(best).collect::<Vec<_>>());
    Ok(parts.concat())
}

/// Return the present rewards, group after group, and where each group begins.
fn present<R: Real>(rewards: &[R], groups: &Groups<'_>) -> (Vec<usize>, Vec<f64>) {
    let rows = || {
        let present = |(row, reward): (usize, &R)| Some((groups.code(row)?, reward.widen()));
        rewards.iter().enumerate().filter_map(present).filter(|(_, reward)| !reward.is_nan())
    };
    let mut starts = vec![0; groups.len() + 1];
    rows().for_each(|(group, _)| starts[group + 1] += 1);
    (1..starts.len()).for_each(|at| starts[at] += starts[at - 1]);
    let mut next = starts.clone();
    let mut members = vec![0.0; starts[groups.len()]];
    for (group, reward) in rows() {
        members[next[group]] = reward;
        next[group] += 1;
    }
    (starts, members)
}

fn expected_best(sorted: &[f64], k: usize) -> f64 {
    let [Some(&low), Some(&high)] = [sorted.first(), sorted.last()] else { return f64::NAN };
    if sorted.len() < k {
        return f64::NAN;
    }
    let (mut total, mut weight) = (Compensated::default(), k as f64 / sorted.len() as f64);
    for at in (k..=sorted.len()).rev() {
        total.add(weight * sorted[at - 1]);
        // C(i - 2, k - 1) / C(i - 1, k - 1), where i is `at`; i = 1 is the last.
        weight *= (at - k) as f64 / (at as f64 - 1.0).max(1.0);
    }
    // Equal rewards give that reward, to the bit.
    total.value().clamp(low, high)
}
