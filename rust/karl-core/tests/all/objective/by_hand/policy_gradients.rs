//! Policy gradients: masks, weights, statistics and numbers that are not finite.

use karl_core::objective::{
    Advantages, Aggregate, Clip, Penalty, Per, PolicyGradient, Power, Ratio, Rollouts, Turns, Update,
    policy_gradient, policy_loss, row_log_ratio, token_log_ratio, token_weights,
};
use karl_core::{Error, Offsets};

use super::{by_token, close, masked_rollouts, rollouts, tokens};

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
fn a_row_weight_multiplies_all_that_a_rollout_adds() {
    let aggregate = Aggregate::SequenceMean { sequences: Some(2.0) };
    let objective = PolicyGradient { aggregate, ..by_token(Update::Bounded(Clip::NONE)) };
    let weigh = |row_weights| {
        let objective = PolicyGradient { row_weights, ..objective };
        rollouts(&[&[1.0, 1.0], &[1.0]], &[-1.0, -1.0, 3.0], &objective)
    };
    let (even, out) = weigh(Some(&[0.5, 4.0]));
    close(&out, &[0.125, 0.125, -6.0]);
    close(&[even.loss], &[0.25 - 6.0]);
    assert_eq!(weigh(Some(&[1.0, 1.0])), weigh(None));
    assert!(weigh(Some(&[0.0, 0.0])).1.iter().all(|&value| value == 0.0));
    let short = PolicyGradient { row_weights: Some(&[1.0]), ..objective };
    let (starts, mask) = ([0, 1, 2], [true; 2]);
    let batch =
        Rollouts::new(&[0.0; 2], None, None, &mask, Offsets::new("offsets", &starts, 2).unwrap()).unwrap();
    let credit = Advantages::double(&[1.0, 1.0], Per::Sequence);
    let error = policy_gradient(&batch, credit, &short, &mut [0.0; 2], 1).unwrap_err();
    assert!(matches!(error, Error::Length { .. }), "{error:?}");
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
    // More than one block of tokens, with a clipped one in each; that of the last row has a negative advantage.
    let row = vec![1.0; 20_000];
    let mut first = row.clone();
    first[7] = 4.0;
    let rows: [&[f64]; 4] = [&first, &row, &first, &first];
    let mut advantages = vec![1.0; 80_000];
    advantages[60_007] = -1.0;
    let objective = by_token(Update::Bounded(Clip::dual(0.5, 0.5, 3.0).unwrap()));
    let (found, out) = rollouts(&rows, &advantages, &objective);
    let statistics = found.statistics;
    assert_eq!((statistics.tokens, statistics.rollouts), (80_000, 4));
    close(&[found.loss, statistics.clip_high * 80_000.0], &[-79_997.0 - 1.5 - 1.5 + 3.0, 3.0]);
    close(&[statistics.clip_bound * 80_000.0], &[1.0]);
    close(&[statistics.ratio, statistics.ratio_max], &[1.0 + 9.0 / 80_000.0, 4.0]);
    close(&[out.iter().sum()], &[-79_997.0]);
    let mean: f64 = 9.0 / 80_000.0;
    close(&[statistics.ratio_std], &[(27.0 / 80_000.0 - mean * mean).sqrt()]);
    close(&[statistics.kl_old * 80_000.0], &[3.0 * (3.0 - 4_f64.ln())]);
}

#[test]
fn advantages_of_single_precision_are_those_of_double() {
    let objective = by_token(Update::Bounded(Clip::NONE));
    for (advantages, wanted) in [
        (Advantages::single(&[2.0, -3.0, 0.5], Per::Token), [-2.0, 3.0, -0.5]),
        (Advantages::single(&[2.0, -3.0], Per::Sequence), [-2.0, -2.0, 3.0]),
    ] {
        let rows: [&[f64]; 2] = [&[1.0, 1.0], &[1.0]];
        assert_eq!(masked_rollouts(&rows, &[true; 3], advantages, &objective).1, wanted);
    }
}

#[test]
fn each_turn_has_its_advantage() {
    let turns = Offsets::new("turn_offsets", &[0, 1, 3, 4], 4).unwrap();
    let credit = Advantages::double(&[1.0, -2.0, 3.0], Per::Turn(turns));
    let rows: [&[f64]; 2] = [&[1.0, 1.0, 1.0], &[1.0]];
    let objective = by_token(Update::Bounded(Clip::NONE));
    assert_eq!(masked_rollouts(&rows, &[true; 4], credit, &objective).1, [-1.0, 2.0, 2.0, -3.0]);
    // A shared ratio shares the gradient: 1 - 2 - 2 over three tokens.
    let shared = PolicyGradient { ratio: Ratio::Sequence, ..objective };
    close(&masked_rollouts(&rows, &[true; 4], credit, &shared).1, &[1.0, 1.0, 1.0, -3.0]);
}

#[test]
fn log_ratios_and_weights_are_those_of_tokens_that_count() {
    let (logp, old, mask) = ([-1.0, -9.0, -3.0, -4.0], [-2.0, 0.0, -1.0, 0.0], [true, false, true, false]);
    let offsets = Offsets::new("offsets", &[0, 3, 4], 4).unwrap();
    let batch = Rollouts::new(&logp, Some(&old), None, &mask, offsets).unwrap();
    assert_eq!(token_log_ratio(&batch).unwrap(), [1.0, 0.0, -2.0, 0.0]);
    for (power, wanted) in [(Power::Mean, -0.5), (Power::Sum, -1.0)] {
        let found = row_log_ratio(&batch, power, 1).unwrap();
        assert!(found[0] == wanted && found[1].is_nan(), "{found:?}");
    }
    let weights = |aggregate| token_weights(&offsets, Some(&mask), aggregate, 1).unwrap();
    assert_eq!(weights(Aggregate::SequenceMean { sequences: None }), [0.5, 0.0, 0.5, 0.0]);
    assert_eq!(
        weights(Aggregate::ConstantLength { tokens: 2.0, sequences: Some(2.0) }),
        [0.25, 0.0, 0.25, 0.0]
    );
}

#[test]
fn a_masked_token_between_others_is_in_no_count_and_no_mean() {
    let mask = [true, false, true];
    let clip = by_token(Update::Bounded(Clip::ppo(0.5, 0.5).unwrap()));
    let credit = Advantages::double(&[1.0, 7.0, 1.0], Per::Token);
    let (found, out) = masked_rollouts(&[&[4.0, 9.0, 1.0]], &mask, credit, &clip);
    close(&out, &[0.0, 0.0, -1.0]);
    close(&[found.loss, found.statistics.clip_high, found.statistics.ratio_max], &[-2.5, 0.5, 4.0]);
    // Log ratios 0.1 and 0.3, of which the second is held at 0.2; their mean is 0.15.
    let geometric = by_token(Update::Geometric { low: 0.2, high: 0.2 });
    let ratios = [0.1_f64.exp(), 5_f64.exp(), 0.3_f64.exp()];
    let (found, out) = masked_rollouts(&[&ratios], &mask, credit, &geometric);
    close(&[found.loss], &[-2.0 * 0.15_f64.exp()]);
    close(&out, &[-0.15_f64.exp(), 0.0, 0.0]);
}

#[test]
fn tokens_of_no_turn_have_the_ratio_one_and_no_part_in_the_drift() {
    let mask = [true; 3];
    let turns = Turns::Numbers(&[0, 0, -1], &mask);
    let objective = PolicyGradient { ratio: Ratio::Turn(turns), ..by_token(Update::Bounded(Clip::NONE)) };
    let (found, out) = tokens(&[0.5, 0.5, 4.0], &[-1.0; 3], &objective);
    close(&out, &[0.5, 0.5, 0.0]);
    close(&[found.loss], &[0.5 + 0.5 + 1.0]);
    // The drift is -2/3 ln 2 a token; with the last token it would be 0.
    let masked = PolicyGradient { mask_negatives: Some(0.4), ..objective };
    let (found, out) = tokens(&[0.5, 0.5, 4.0], &[-1.0; 3], &masked);
    assert_eq!((found.loss, out), (0.0, vec![0.0; 3]));
}

#[test]
fn how_far_tokens_moved_is_by_their_own_ratios_at_any_level() {
    let objective = by_token(Update::Bounded(Clip::NONE));
    for ratio in [Ratio::Token, Ratio::OnPolicy, Ratio::Sequence, Ratio::SequenceProduct] {
        let (found, _) = tokens(&[2.0, 0.5], &[1.0; 2], &PolicyGradient { ratio, ..objective });
        // 2 - 1 - ln 2 and 1/2 - 1 + ln 2.
        close(&[found.statistics.kl_old], &[0.25]);
    }
    // A huge ratio is the whole of an effective sample size, and no NaN.
    let (found, _) = rollouts(&[&[500_f64.exp()], &[1.0]], &[1.0; 2], &objective);
    close(&[found.statistics.ratio_ess], &[0.5]);
}

#[test]
fn a_divergence_is_weighted_by_the_ratio_in_the_loss_and_not_in_its_mean() {
    let (ln2, offsets) = (std::f64::consts::LN_2, Offsets::new("offsets", &[0, 1], 1).unwrap());
    // Twice as likely as under the behaviour policy, and as under the reference.
    let (logp, before) = ([-1.0], [-1.0 - ln2]);
    let batch = Rollouts::new(&logp, Some(&before), Some(&before), &[true], offsets).unwrap();
    let credit = Advantages::double(&[1.0], Per::Token);
    let (k2, k3) = (ln2 * ln2 / 2.0, ln2 - 0.5);
    for (penalty, value) in
        [(Penalty::K2 { coef: 0.1, by_ratio: true }, k2), (Penalty::K3 { coef: 0.1, by_ratio: true }, k3)]
    {
        let objective = PolicyGradient { penalty, ..by_token(Update::Bounded(Clip::NONE)) };
        let mut out = [f64::NAN];
        let found = policy_gradient(&batch, credit, &objective, &mut out, 1).unwrap();
        close(&[found.statistics.kl.unwrap()], &[k3]);
        close(&[found.loss, out[0]], &[-2.0 + 0.2 * value, -2.0 + 0.2 * ln2]);
    }
}

#[test]
fn the_number_that_is_named_is_one_that_counts() {
    let objective = by_token(Update::Variance { strength: 1.0 });
    let named = |ratio: f64, advantages: &[f64; 2]| {
        let (logp, offsets) = ([0.0, ratio.ln()], Offsets::new("offsets", &[0, 1, 2], 2).unwrap());
        let batch = Rollouts::new(&logp, Some(&[0.0; 2]), None, &[false, true], offsets).unwrap();
        let advantages = Advantages::double(advantages, Per::Sequence);
        match policy_loss(&batch, advantages, &objective, &mut [0.0; 2], 1) {
            Err(Error::NotFinite { what, index, .. }) => (what, index),
            found => panic!("{found:?}"),
        }
    };
    // The loss is the square of the ratio, 1.44e308; its slope is twice that.
    assert_eq!(named(1.2e154, &[0.0, 0.0]), ("coefficient", 1));
    assert_eq!(named(1.0, &[f64::NAN, f64::INFINITY]), ("advantages", 1));
    assert_eq!(named(1.2e154, &[f64::NAN, 0.0]), ("coefficient", 1));
}
