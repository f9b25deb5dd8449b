//! Updates: what a bound holds, counts and cuts.

use karl_core::objective::{Advantages, Aggregate, Clip, Per, PolicyGradient, Ratio, Update};

use super::{by_token, close, masked_rollouts, rollouts, tokens};

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
    // Above for A > 0 (two), below for A < 0 (one), above the second bound for A < 0 (one); the rest flows,
    // and a token with advantage 0 counts nowhere.
    let ratios = [2.0, 4.0, 0.25, 4.0, 0.25, 2.0, 1.25, 4.0];
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
    let (found, out) = tokens(&[4.0, 0.25, 1.5, 0.25], &[1.0, 1.0, -1.0, -1.0], &objective);
    close(&out, &[-2.0, -0.5, 1.5, 0.5]);
    close(&[found.loss], &[-2.0 * 4_f64.ln() + 1.5 * 1.5_f64.ln()]);
    assert_eq!([found.statistics.clip_low, found.statistics.clip_high], [0.5, 0.25]);
    assert_eq!(found.statistics.clip_bound, 0.0);
}

#[test]
fn two_sided_is_a_dual_clip() {
    let clip = Clip::two_sided(0.5, 0.5, 3.0).unwrap();
    assert_eq!(clip, Clip::dual(0.5, 0.5, 3.0).unwrap());
    assert_eq!((clip.positive.ceiling, clip.negative.ceiling), (1.5, 3.0));
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
fn a_soft_gate_has_a_steepness_for_each_sign_and_no_slope_where_it_is_flat() {
    // At a ratio of 2 the gates are sigmoid(ln 3) = 3/4 and sigmoid(2 ln 3) = 9/10.
    let ln3 = 3_f64.ln();
    let objective = by_token(Update::SoftGate { positive: ln3, negative: 2.0 * ln3 });
    let (found, out) = tokens(&[2.0, 2.0], &[1.0, -1.0], &objective);
    close(&[found.loss], &[-4.0 / ln3 * 0.75 + 2.0 / ln3 * 0.9]);
    close(&out, &[-4.0 * 0.1875 * 2.0, 4.0 * 0.09 * 2.0]);
    // The gate is flat beyond e^20, even where it is not yet 1.
    let objective = by_token(Update::SoftGate { positive: 1e-9, negative: 1.0 });
    let (found, out) = tokens(&[21_f64.exp()], &[1.0], &objective);
    close(&[found.loss], &[-4e9 / (1.0 + (-1e-9 * (20_f64.exp() - 1.0)).exp())]);
    assert_eq!(out, [0.0]);
}

#[test]
fn a_rollout_with_one_advantage_counts_its_tokens_together() {
    let of = |mask_negatives| {
        let objective = PolicyGradient {
            ratio: Ratio::Sequence,
            mask_negatives,
            ..by_token(Update::Bounded(Clip::dual(0.5, 0.5, 3.0).unwrap()))
        };
        // Above for A > 0, above the second bound for A < 0, no advantage, below for A < 0, within.
        let rows: [&[f64]; 5] = [&[4.0, 1.0], &[4.0], &[4.0], &[0.25], &[1.25]];
        let advantages = Advantages::double(&[1.0, -1.0, 0.0, -1.0, -2.0], Per::Sequence);
        let (found, out) = masked_rollouts(&rows, &[true; 6], advantages, &objective);
        close(&out, &[0.0, 0.0, 0.0, 0.0, 0.0, 2.5]);
        let statistics = found.statistics;
        close(&[statistics.clip_high, statistics.clip_bound], &[0.5, 1.0 / 6.0]);
        (found.loss, statistics.clip_low)
    };
    assert_eq!(of(None), (-1.5 - 1.5 + 3.0 + 0.5 + 2.5, 1.0 / 6.0));
    assert_eq!(
        of(Some(1.0)),
        (-1.5 - 1.5 + 3.0 + 2.5, 0.0),
        "the mask of negatives takes the fourth rollout"
    );
}

#[test]
fn a_price_on_the_variance_needs_no_advantage() {
    let objective = by_token(Update::Variance { strength: 0.5 });
    for ratio in [Ratio::Token, Ratio::Sequence] {
        let (found, out) = tokens(&[2.0], &[0.0], &PolicyGradient { ratio, ..objective });
        close(&[found.loss, out[0]], &[0.5, 2.0]);
    }
}

#[test]
fn a_log_ratio_on_its_bound_is_within_a_geometric_mean() {
    let objective = by_token(Update::Geometric { low: 0.0, high: 0.0 });
    let (found, out) = rollouts(&[&[1.0], &[1.0]], &[2.0, -3.0], &objective);
    close(&out, &[-2.0, 3.0]);
    assert_eq!([found.statistics.clip_low, found.statistics.clip_high], [0.0; 2]);
}

#[test]
fn a_geometric_mean_has_the_advantages_of_all_its_tokens() {
    let objective = by_token(Update::Geometric { low: 0.0, high: 0.0 });
    // More than one piece of tokens: 1000 advantages of 1, then 500 of 3.
    let advantages: Vec<f64> = (0..1500).map(|at| if at < 1000 { 1.0 } else { 3.0 }).collect();
    close(&[tokens(&[1.0; 1500], &advantages, &objective).0.loss], &[-2500.0]);
    // The mean log ratio is -ln 2: the mask of negatives leaves the advantage of the second token.
    let masked = PolicyGradient { mask_negatives: Some(0.2), ..objective };
    let (found, out) = tokens(&[0.5, 0.5], &[-3.0, 1.0], &masked);
    close(&[found.loss, out[0], out[1]], &[-0.5, -0.25, -0.25]);
}
