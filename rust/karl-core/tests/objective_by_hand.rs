//! Objectives on a few tokens, worked out by hand: what a bound counts and cuts, masks, weights and groups of none.

#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "tests: a failure is a panic, and some values are exact"
)]
#![allow(clippy::disallowed_methods, reason = "formulas as they are written")]

use karl_core::Offsets;
use karl_core::objective::{
    Advantages, Aggregate, Anchor, Balance, Clip, Evaluation, LogZ, Penalty, Per, PolicyGradient, Power,
    Ratio, Rollouts, TargetPolicy, Update, balance, policy_gradient, target_policy,
};

const TOKEN_SUM: Aggregate = Aggregate::TokenMean { tokens: Some(1.0) };

fn close(found: &[f64], wanted: &[f64]) {
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(wanted) {
        assert!((found - wanted).abs() < 1e-12 * wanted.abs().max(1.0), "{found} is not {wanted}");
    }
}

/// Evaluate tokens of one rollout with these ratios, each with its advantage.
fn tokens(ratios: &[f64], advantages: &[f64], objective: &PolicyGradient<'_>) -> (Evaluation, Vec<f64>) {
    rollouts(&[ratios], advantages, objective)
}

fn rollouts(rows: &[&[f64]], advantages: &[f64], objective: &PolicyGradient<'_>) -> (Evaluation, Vec<f64>) {
    let logp: Vec<f64> = rows.iter().flat_map(|row| row.iter().map(|ratio| ratio.ln())).collect();
    let mut offsets = vec![0_i64];
    offsets.extend(rows.iter().scan(0, |end, row| {
        *end += i64::try_from(row.len()).unwrap();
        Some(*end)
    }));
    let (old, mask) = (vec![0.0; logp.len()], vec![true; logp.len()]);
    let offsets = Offsets::new("offsets", &offsets, logp.len()).unwrap();
    let batch = Rollouts::new(&logp, Some(&old), None, &mask, offsets).unwrap();
    let mut out = vec![f64::NAN; logp.len()];
    let credit = Advantages::double(advantages, Per::Token);
    (policy_gradient(&batch, credit, objective, &mut out, 1).unwrap(), out)
}

fn by_token(update: Update) -> PolicyGradient<'static> {
    PolicyGradient {
        ratio: Ratio::Token,
        update,
        mask_negatives: None,
        penalty: Penalty::None,
        aggregate: TOKEN_SUM,
    }
}

#[test]
fn a_ratio_on_its_bound_is_within() {
    let objective = by_token(Update::Bounded(Clip::ppo(0.0, 0.0).unwrap()));
    let (found, out) = tokens(&[1.0, 1.0], &[2.0, -3.0], &objective);
    assert_eq!(out, [-2.0, 3.0]);
    let statistics = found.statistics;
    assert_eq!([statistics.clip_low, statistics.clip_high, statistics.clip_bound], [0.0; 3]);
}

#[test]
fn each_side_of_a_clip_counts_the_sign_that_it_bounds() {
    let objective = by_token(Update::Bounded(Clip::dual(0.5, 0.5, 3.0).unwrap()));
    // Above for A > 0 (two), below for A < 0 (one), above the second bound for A < 0 (one); the rest flows.
    let ratios = [2.0, 4.0, 0.25, 4.0, 0.25, 2.0, 1.25, 0.25];
    let advantages = [1.0, 1.0, -1.0, -1.0, 1.0, -1.0, 1.0, 0.0];
    let (found, out) = tokens(&ratios, &advantages, &objective);
    close(&out, &[0.0, 0.0, 0.0, 0.0, -0.25, 2.0, -1.25, 0.0]);
    close(&[found.loss], &[-1.5 - 1.5 + 0.5 + 3.0 - 0.25 + 2.0 - 1.25]);
    let statistics = found.statistics;
    assert_eq!([statistics.clip_low, statistics.clip_high, statistics.clip_bound], [0.125, 0.375, 0.125]);
}

#[test]
fn a_detached_cap_keeps_the_gradient_of_what_it_holds() {
    let objective = by_token(Update::Bounded(Clip::cap(0.5, 2.0).unwrap()));
    let (found, out) = tokens(&[4.0, 0.25, 1.5], &[1.0, 1.0, -1.0], &objective);
    close(&out, &[-2.0, -0.5, 1.5]);
    close(&[found.loss], &[-2.0 * 4_f64.ln() - 0.5 * 0.25_f64.ln() + 1.5 * 1.5_f64.ln()]);
    assert_eq!([found.statistics.clip_low, found.statistics.clip_high], [1.0 / 3.0; 2]);
    assert_eq!(found.statistics.clip_bound, 0.0);
}

#[test]
fn a_flip_drops_counts_and_bounds() {
    let objective = by_token(Update::Flip { low: 0.5, high: 1.0, bound: 2.0 });
    // Dropped above; dropped below; inverse ratio at most 2; ratio at most 2; neither.
    let ratios = [3.0, 0.25, 0.25, 3.0, 1.25];
    let advantages = [1.0, -1.0, 1.0, -1.0, 1.0];
    let (found, out) = tokens(&ratios, &advantages, &objective);
    close(&out, &[0.0, 0.0, -2.0, 2.0, -0.8]);
    assert_eq!([found.statistics.clip_low, found.statistics.clip_high], [0.4, 0.4]);
}

#[test]
fn a_geometric_mean_holds_the_log_ratio_of_each_token() {
    let objective = by_token(Update::Geometric { low: 0.5, high: 0.25 });
    let objective =
        PolicyGradient { aggregate: Aggregate::SequenceSum { sequences: Some(1.0) }, ..objective };
    let log_ratios = [1.0_f64, 0.1, -0.3];
    let (found, out) = tokens(&log_ratios.map(f64::exp), &[2.0; 3], &objective);
    let mean = ((0.25 + 0.1 - 0.3) / 3.0_f64).exp();
    close(&[found.loss], &[-6.0 * mean]);
    close(&out, &[0.0, -2.0 * mean, -2.0 * mean]);
    assert_eq!([found.statistics.clip_low, found.statistics.clip_high], [0.0, 1.0 / 3.0]);
    let (found, out) = tokens(&log_ratios.map(|ratio| (-ratio).exp()), &[-2.0; 3], &objective);
    let mean = ((-0.5 - 0.1 + 0.3) / 3.0_f64).exp();
    close(&[found.loss], &[6.0 * mean]);
    close(&out, &[0.0, 2.0 * mean, 2.0 * mean]);
    assert_eq!([found.statistics.clip_low, found.statistics.clip_high], [1.0 / 3.0, 0.0]);
}

#[test]
fn negatives_are_masked_beyond_the_drift_alone() {
    let masked = |ratio, delta| {
        let objective = by_token(Update::Bounded(Clip::NONE));
        let objective = PolicyGradient { ratio, mask_negatives: Some(delta), ..objective };
        // The mean log ratio of the first rollout is -ln 2, that of the second ln 2.
        rollouts(&[&[0.5, 0.5], &[2.0, 2.0]], &[-1.0, 1.0, -1.0, 1.0], &objective).1
    };
    let far = std::f64::consts::LN_2 * 1.5;
    close(&masked(Ratio::Token, 0.5), &[0.0, -0.5, 2.0, -2.0]);
    close(&masked(Ratio::Token, far), &[0.5, -0.5, 2.0, -2.0]);
    // The product has moved by twice as much, and its tokens share the gradient.
    close(&masked(Ratio::SequenceProduct, far), &[-0.25, -0.25, 0.0, 0.0]);
    close(&masked(Ratio::SequenceProduct, 2.0), &[0.0; 4]);
    // On the bound itself a rollout is kept.
    let objective = by_token(Update::Bounded(Clip::NONE));
    let objective = PolicyGradient { mask_negatives: Some(0.0), ..objective };
    assert_eq!(tokens(&[1.0], &[-1.0], &objective).1, [1.0]);
}

#[test]
fn a_ratio_shared_by_a_rollout_counts_each_of_its_tokens() {
    let objective = PolicyGradient {
        ratio: Ratio::Sequence,
        aggregate: Aggregate::SequenceMean { sequences: None },
        ..by_token(Update::Bounded(Clip::dual(0.5, 0.5, 3.0).unwrap()))
    };
    let rows: [&[f64]; 4] = [&[4.0, 1.0], &[0.25], &[4.0], &[1.0]];
    let (found, out) = rollouts(&rows, &[1.0, 1.0, -1.0, -1.0, 2.0], &objective);
    close(&out, &[0.0, 0.0, 0.0, 0.0, -0.5]);
    close(&[found.loss], &[(-1.5 + 0.5 + 3.0 - 2.0) / 4.0]);
    let statistics = found.statistics;
    assert_eq!([statistics.clip_low, statistics.clip_high, statistics.clip_bound], [0.2, 0.6, 0.2]);
    assert_eq!([statistics.ratio_min, statistics.ratio_max], [0.25, 4.0]);
    close(&[statistics.ratio], &[(2.0 + 2.0 + 0.25 + 4.0 + 1.0) / 5.0]);
}

#[test]
fn an_aggregate_weighs_each_token() {
    let objective = by_token(Update::Bounded(Clip::NONE));
    let weights = |aggregate| {
        let objective = PolicyGradient { aggregate, ..objective };
        rollouts(&[&[1.0, 1.0, 1.0], &[1.0]], &[-1.0; 4], &objective).1
    };
    let third = 1.0 / 3.0;
    close(
        &weights(Aggregate::SequenceMean { sequences: None }),
        &[third / 2.0, third / 2.0, third / 2.0, 0.5],
    );
    close(
        &weights(Aggregate::SequenceMean { sequences: Some(4.0) }),
        &[third / 4.0, third / 4.0, third / 4.0, 0.25],
    );
    close(&weights(Aggregate::TokenMean { tokens: None }), &[0.25; 4]);
    close(&weights(Aggregate::TokenMean { tokens: Some(8.0) }), &[0.125; 4]);
    close(&weights(Aggregate::SequenceSum { sequences: None }), &[0.5; 4]);
    close(&weights(Aggregate::ConstantLength { tokens: 5.0, sequences: None }), &[0.1; 4]);
    close(&weights(Aggregate::ConstantLength { tokens: 5.0, sequences: Some(4.0) }), &[0.05; 4]);
}

#[test]
fn blocks_of_a_long_batch_add_up() {
    // More than one block of tokens, with a clipped one in each.
    let row = vec![1.0; 20_000];
    let mut first = row.clone();
    first[7] = 4.0;
    let rows: [&[f64]; 4] = [&first, &row, &first, &first];
    let objective = by_token(Update::Bounded(Clip::ppo(0.5, 0.5).unwrap()));
    let (found, out) = rollouts(&rows, &vec![1.0; 80_000], &objective);
    let statistics = found.statistics;
    assert_eq!((statistics.tokens, statistics.rollouts), (80_000, 4));
    close(&[found.loss, statistics.clip_high * 80_000.0], &[-(79_997.0 + 4.5), 3.0]);
    close(&[statistics.ratio, statistics.ratio_max], &[1.0 + 9.0 / 80_000.0, 4.0]);
    close(&[out.iter().sum()], &[-79_997.0]);
    let mean: f64 = 9.0 / 80_000.0;
    close(&[statistics.ratio_std], &[(27.0 / 80_000.0 - mean * mean).sqrt()]);
}

/// Evaluate a balance of rollouts of one token each.
fn balanced(logp: &[f64], rewards: &[f64], log_z: LogZ<'_>, width: f64) -> (f64, Vec<f64>) {
    let offsets: Vec<i64> = (0..=i64::try_from(logp.len()).unwrap()).collect();
    let mask = vec![true; logp.len()];
    let batch =
        Rollouts::new(logp, None, None, &mask, Offsets::new("offsets", &offsets, logp.len()).unwrap())
            .unwrap();
    let objective = Balance {
        anchor: Anchor::None,
        length: Power::Sum,
        drift: 1.0,
        reward: 2.0,
        log_z,
        width,
        choice: None,
        weight: None,
        denominator: 2.0,
    };
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
