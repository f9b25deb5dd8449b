//! Objectives of whole rollouts: balances, target policies and likelihoods.

use karl_core::Offsets;
use karl_core::objective::{
    Aggregate, Anchor, Balance, Gate, LogZ, Power, Residuals, Rollouts, TargetPolicy, WeightedLikelihood,
    balance, linear_term, target_policy, weighted_likelihood,
};

use super::{close, offsets_of};

/// The residual `logp - 2 r` of whole rollouts, squared.
const PLAIN: Balance<'_> = Balance {
    anchor: Anchor::None,
    length: Power::Sum,
    drift: 1.0,
    reward: 2.0,
    log_z: LogZ::None,
    width: f64::INFINITY,
    choice: None,
    weight: None,
    denominator: 2.0,
};

/// Evaluate a balance of rollouts of one token each.
fn balanced(logp: &[f64], rewards: &[f64], log_z: LogZ<'_>, width: f64) -> (f64, Vec<f64>) {
    let offsets: Vec<i64> = (0..=i64::try_from(logp.len()).unwrap()).collect();
    let mask = vec![true; logp.len()];
    let batch =
        Rollouts::new(logp, None, None, &mask, Offsets::new("offsets", &offsets, logp.len()).unwrap())
            .unwrap();
    let objective = Balance { log_z, width, ..PLAIN };
    let (mut out, mut by_log_z) = (vec![f64::NAN; logp.len()], vec![f64::NAN; logp.len()]);
    let (found, _) = balance(&batch, rewards, &objective, &mut out, &mut by_log_z, 1).unwrap();
    (found.loss, out)
}

#[test]
fn a_residual_beyond_the_width_costs_a_line() {
    // Residuals logp - 2 r: -0.5 within, -1 on the width, -3 beyond it, with equal slopes on both sides of the width.
    let (loss, out) = balanced(&[-0.5, -1.0, -1.0], &[0.0, 0.0, 1.0], LogZ::None, 1.0);
    close(&[loss], &[(0.25 + 1.0 + 5.0) / 2.0]);
    close(&out, &[-0.5, -1.0, -1.0]);
    let (loss, out) = balanced(&[-1.0], &[1.0], LogZ::None, f64::INFINITY);
    close(&[loss], &[9.0 / 2.0]);
    close(&out, &[-3.0]);
}

#[test]
fn the_optimum_of_a_group_leaves_rows_of_no_group_as_they_are() {
    let groups = [4, -1, 4, -1];
    let (loss, out) =
        balanced(&[-1.0, -2.0, -3.0, -0.5], &[0.0; 4], LogZ::GroupOptimum(&groups), f64::INFINITY);
    let own = balanced(&[-2.0], &[0.0], LogZ::GroupOptimum(&[-1]), f64::INFINITY);
    // The members of the group are 1 from their mean; a row of no group is its own optimum.
    close(&[own.0, loss], &[0.0, 1.0]);
    close(&out, &[1.0, 0.0, -1.0, 0.0]);
}

#[test]
fn a_target_policy_sums_the_groups_and_leaves_out_rows_of_none() {
    let logp = [0.0, 3_f64.ln(), 0.0, 0.0, -7.0];
    let offsets: Vec<i64> = (0..=5).collect();
    let mask = [true; 5];
    let batch =
        Rollouts::new(&logp, None, None, &mask, Offsets::new("offsets", &offsets, 5).unwrap()).unwrap();
    let objective = TargetPolicy {
        targets: &[0.5, 0.5, 0.25, 0.75, 1.0],
        groups: &[1, 1, 0, 0, -1],
        length: Power::Sum,
        denominator: 2.0,
    };
    let mut out = [f64::NAN; 5];
    let found = target_policy(&batch, &objective, &mut out, 1).unwrap();
    // p is 1/4 and 3/4 in the first group, 1/2 and 1/2 in the second.
    let wanted = -0.5 * 0.25_f64.ln() - 0.5 * 0.75_f64.ln() - 0.5_f64.ln();
    close(&[found.loss], &[wanted / 2.0]);
    close(&out, &[-0.125, 0.125, 0.125, -0.125, 0.0]);
}

#[test]
fn a_choice_leaves_out_the_tokens_that_moved_where_the_reward_sends_them() {
    let ratios: [&[f64]; 3] = [&[4.0, 1.25], &[0.25, 0.75], &[4.0, 0.25]];
    let logp: Vec<f64> = ratios.concat().iter().map(|ratio| ratio.ln()).collect();
    let starts = offsets_of(&ratios);
    let offsets = Offsets::new("offsets", &starts, 6).unwrap();
    let batch = Rollouts::new(&logp, Some(&[0.0; 6]), None, &[true; 6], offsets).unwrap();
    let objective = Balance { choice: Some((0.5, 0.5)), ..PLAIN };
    let mut out = [f64::NAN; 6];
    let (found, _) = balance(&batch, &[1.0, -1.0, 0.0], &objective, &mut out, &mut [], 1).unwrap();
    // Without a reward all tokens are left in.
    let residuals = [1.25_f64.ln() - 2.0, 0.75_f64.ln() + 2.0, 0.0];
    close(&[2.0 * found.loss], &[residuals[0].powi(2) + residuals[1].powi(2)]);
    close(&out, &[0.0, residuals[0], 0.0, residuals[1], 0.0, 0.0]);
    // An importance weight is of the tokens that are left in: 1.25, 0.75 and 4 * 0.25.
    let objective = Balance { weight: Some((Power::Mean, 0.0, 9.0)), ..objective };
    balance(&batch, &[1.0, -1.0, 0.0], &objective, &mut out, &mut [], 1).unwrap();
    close(&out, &[0.0, 1.25 * residuals[0], 0.0, 0.75 * residuals[1], 0.0, 0.0]);
}

#[test]
fn the_importance_weight_of_a_rollout_is_its_ratio_within_a_floor_and_a_ceiling() {
    let logp = [2.0, 4.0, 0.25].map(f64::ln);
    let offsets = Offsets::new("offsets", &[0, 1, 2, 3], 3).unwrap();
    let batch = Rollouts::new(&logp, Some(&[0.0; 3]), Some(&[1.0; 3]), &[true; 3], offsets).unwrap();
    let objective = Balance {
        anchor: Anchor::Reference,
        weight: Some((Power::Sum, 0.5, 3.0)),
        denominator: 3.0,
        ..PLAIN
    };
    let mut out = [f64::NAN; 3];
    let (found, _) = balance(&batch, &[0.0; 3], &objective, &mut out, &mut [], 1).unwrap();
    let weighed = [2.0 * (logp[0] - 1.0), 3.0 * (logp[1] - 1.0), 0.5 * (logp[2] - 1.0)];
    let costs = weighed.iter().zip(logp).map(|(weighed, logp)| weighed * (logp - 1.0));
    close(&[found.loss], &[costs.sum::<f64>() / 3.0]);
    close(&out, &weighed.map(|weighed| 2.0 * weighed / 3.0));
}

#[test]
fn a_learned_log_z_has_the_slope_of_the_residual_and_tokens_a_share_of_it() {
    // The last rollout has no token that counts.
    let (logp, mask) = ([-1.0, -3.0, -2.0, -9.0], [true, true, true, false]);
    let offsets = Offsets::new("offsets", &[0, 2, 3, 4], 4).unwrap();
    let batch = Rollouts::new(&logp, None, None, &mask, offsets).unwrap();
    let objective = Balance { drift: 0.5, log_z: LogZ::Learned(&[0.5, 2.0, 7.0]), ..PLAIN };
    let (mut out, mut by_log_z) = ([f64::NAN; 4], [f64::NAN; 3]);
    let (found, residuals) =
        balance(&batch, &[0.25, 1.0, 5.0], &objective, &mut out, &mut by_log_z, 1).unwrap();
    // -4 / 2 + 1/2 - 2/4 and -2 / 2 + 2 - 2.
    close(&[2.0 * found.loss], &[4.0 + 1.0]);
    close(&by_log_z, &[-2.0, -1.0, 0.0]);
    close(&out, &[-1.0, -1.0, -0.5, 0.0]);
    assert_eq!(residuals, Residuals { mean: -1.5, std: 0.5 });
    // Without a behaviour policy nothing has moved.
    let moved = found.statistics;
    assert_eq!((moved.tokens, moved.rollouts), (3, 2));
    assert_eq!([moved.ratio, moved.ratio_max, moved.ratio_min, moved.ratio_ess], [1.0; 4]);
    assert_eq!([moved.ratio_std, moved.kl_old], [0.0; 2]);
}

#[test]
fn a_target_policy_takes_weights_of_any_sum_and_lengths_of_any_size() {
    // Candidates of 1/4 and 3/4, with a masked one; then two far below the least exponential.
    let logp = [0.0, 3_f64.ln(), 2.0, -2000.0, -2000.0];
    let (starts, mask): (Vec<i64>, _) = ((0..=5).collect(), [true, true, false, true, true]);
    let batch =
        Rollouts::new(&logp, None, None, &mask, Offsets::new("offsets", &starts, 5).unwrap()).unwrap();
    let objective = TargetPolicy {
        targets: &[1.0, 1.0, 1.0, 0.5, 0.0],
        groups: &[0, 0, 0, 1, 1],
        length: Power::Sum,
        denominator: 1.0,
    };
    let mut out = [f64::NAN; 5];
    let found = target_policy(&batch, &objective, &mut out, 1).unwrap();
    close(&[found.loss], &[-0.25_f64.ln() - 0.75_f64.ln() - 0.5 * 0.5_f64.ln()]);
    close(&out, &[2.0 * 0.25 - 1.0, 2.0 * 0.75 - 1.0, 0.0, -0.25, 0.25]);
}

#[test]
fn a_likelihood_weighs_rows_by_their_tokens_that_count_and_says_how_far_they_moved() {
    let ln2 = std::f64::consts::LN_2;
    let (logp, mask) = ([-1.0, -9.0, -3.0, -ln2], [true, false, true, true]);
    let old = [-1.0 - ln2, 0.0, -3.0 - ln2, -ln2];
    let offsets = Offsets::new("offsets", &[0, 3, 4], 4).unwrap();
    let batch = Rollouts::new(&logp, Some(&old), None, &mask, offsets).unwrap();
    let aggregate = Aggregate::SequenceMean { sequences: None };
    let of = |gate| {
        let objective = WeightedLikelihood { weights: &[2.0, 0.5], gate, aggregate };
        let mut out = [f64::NAN; 4];
        (weighted_likelihood(&batch, &objective, &mut out, 1).unwrap(), out)
    };
    let (found, out) = of(Gate::Open);
    close(&[2.0 * found.loss], &[2.0 * 4.0 / 2.0 + 0.5 * ln2]);
    close(&out, &[-0.5, 0.0, -0.5, -0.25]);
    // Ratios 2, 2 and 1; the rollouts have the products 4 and 1.
    let moved = found.statistics;
    assert_eq!((moved.tokens, moved.rollouts), (3, 2));
    close(&[moved.ratio, moved.ratio_max, moved.ratio_min], &[5.0 / 3.0, 2.0, 1.0]);
    close(&[moved.kl_old, moved.ratio_ess], &[2.0 * (1.0 - ln2) / 3.0, 25.0 / 17.0 / 2.0]);
    let (found, out) = of(Gate::Probability);
    let [first, third] = [-1.0, -3.0].map(f64::exp);
    close(&[2.0 * found.loss], &[2.0 * (first + 3.0 * third) / 2.0 + 0.5 * 0.5 * ln2]);
    close(&out, &[-0.5 * first, 0.0, -0.5 * third, -0.125]);
    let (kappa, gamma) = (4.0, -2.5);
    let gates = [-1.0, -3.0, -ln2].map(|logp: f64| 1.0 / (1.0 + (kappa * (gamma - logp)).exp()));
    let mean = gates[..2].iter().sum::<f64>() / 2.0;
    let (_, out) = of(Gate::Surprisal { kappa, gamma });
    close(&out, &[-0.5 * gates[0] / mean, 0.0, -0.5 * gates[1] / mean, -0.25]);
}

#[test]
fn a_linear_term_has_its_factor_in_the_loss_and_not_in_the_mean() {
    let offsets = Offsets::new("offsets", &[0, 3, 4], 4).unwrap();
    let batch = Rollouts::new(&[-1.0; 4], None, None, &[true, false, true, true], offsets).unwrap();
    let mut out = [f64::NAN; 4];
    let aggregate = Aggregate::TokenMean { tokens: None };
    let found = linear_term(&batch, &[1.0, 100.0, 5.0, 3.0], -0.5, aggregate, &mut out, 1).unwrap();
    close(&[found.0, found.1], &[-1.5, 3.0]);
    close(&out, &[-0.5 / 3.0, 0.0, -0.5 / 3.0, -0.5 / 3.0]);
}
