//! What a rollout adds to the best of k rollouts of its group, on average over all choices of k.

use crate::check::{check_length, check_not_infinite};
use crate::error::{Error, Result};
use crate::group::Groups;

/// Compare the best of k rollouts of a group with the best of the others among them.
///
/// ```text
/// A_i = mean over S of max_{j in S} r_j - max_{j in S, j != i} r_j,    S: k rollouts of the group, i among them
///     = sum_{m=k-1}^{p} C(m, k-1) / C(n-1, k-1) (r_(m+1) - r_(m)),     r_(1) <= ... <= r_(n), i at place p + 1
/// ```
///
/// Zero or more; 0 in a group with fewer than k rewards; NaN for a row without a group or reward. Equal rewards have
/// equal advantages. Shapes: `[B]`. Cost: one sort a group, k multiplications a row.
/// Reference: Tang et al. 2025 (arXiv:2503.19595), for k equal to the size of the group.
///
/// # Errors
/// [`Error::Length`] for columns that differ in rows; [`Error::NotFinite`] for an infinite reward;
/// [`Error::Range`] for a `k` below 2.
pub fn best_of_k(rewards: &[f64], groups: &Groups<'_>, k: usize) -> Result<Vec<f64>> {
    check_length("rewards", rewards.len(), groups.rows())?;
    check_not_infinite("rewards", rewards)?;
    if k < 2 {
        return Err(Error::Range { what: "k", value: k as f64, low: 2.0, high: f64::INFINITY });
    }
    let mut members = vec![Vec::new(); groups.len()];
    for row in (0..rewards.len()).filter(|&row| !rewards[row].is_nan()) {
        if let Some(group) = groups.code(row) {
            members[group].push(row);
        }
    }
    let mut advantages = vec![f64::NAN; rewards.len()];
    for mut rows in members {
        rows.sort_by(|&a, &b| rewards[a].total_cmp(&rewards[b]));
        let mut total = 0.0;
        for (place, &row) in rows.iter().enumerate() {
            if place > 0 {
                total += share(place, rows.len(), k) * (rewards[row] - rewards[rows[place - 1]]);
            }
            advantages[row] = total;
        }
    }
    Ok(advantages)
}

/// Return `C(place, k - 1) / C(size - 1, k - 1)`, the share of choices of k whose others are all below a place.
fn share(place: usize, size: usize, k: usize) -> f64 {
    if place < k - 1 || size < k {
        return 0.0;
    }
    (0..k - 1).map(|at| (place - at) as f64 / (size - 1 - at) as f64).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_of_k_is_compared() {
        let (rewards, k) = ([0.1, 0.7, 0.3, 0.7, 0.2], 3);
        let groups = Groups::from_ids(&[4; 5]).unwrap();
        let advantages = best_of_k(&rewards, &groups, k).unwrap();
        for row in 0..5 {
            let (mut total, mut choices) = (0.0, 0.0);
            for a in 0..5 {
                for b in (a + 1)..5 {
                    if a != row && b != row {
                        let others = rewards[a].max(rewards[b]);
                        total += others.max(rewards[row]) - others;
                        choices += 1.0;
                    }
                }
            }
            assert!((advantages[row] - total / choices).abs() < 1e-15, "row {row}");
        }
    }

    #[test]
    fn small_groups_have_none_and_missing_rewards_stay_missing() {
        let groups = Groups::from_ids(&[0, 0, 1, -1, 0]).unwrap();
        let advantages = best_of_k(&[1.0, 0.0, 5.0, 2.0, f64::NAN], &groups, 3).unwrap();
        assert_eq!(&advantages[..3], [0.0, 0.0, 0.0]);
        assert!(advantages[3].is_nan() && advantages[4].is_nan());
        assert!(best_of_k(&[1.0], &Groups::from_ids(&[0]).unwrap(), 1).is_err());
    }
}
