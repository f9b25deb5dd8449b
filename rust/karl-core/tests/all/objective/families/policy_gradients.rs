//! Policy gradients: coefficients of attached rules are derivatives, detached rules are their formulas.

use karl_core::objective::{
    Advantages, Aggregate, Clip, Penalty, Per, PolicyGradient, Ratio, Turns, Update, policy_gradient,
};

use super::{AGGREGATES, Batch, LENGTHS, batch, loss_of};

/// A weight by ratio, advantage and log-probability.
type Weight<'a> = Box<dyn Fn(f64, f64, f64) -> f64 + 'a>;

fn ratios(batch: &Batch) -> [Ratio<'_>; 4] {
    let turns = Turns::Numbers(&batch.turns, &batch.mask);
    [Ratio::Token, Ratio::Turn(turns), Ratio::Sequence, Ratio::SequenceProduct]
}

#[test]
fn the_coefficients_of_attached_rules_are_derivatives() {
    let batch = batch();
    let updates = [
        Update::Bounded(Clip::NONE),
        Update::Bounded(Clip::ppo(0.2, 0.28).unwrap()),
        Update::Bounded(Clip::dual(0.1, 0.15, 1.3).unwrap()),
        Update::Variance { strength: 0.7 },
        Update::SoftGate { positive: 1.0, negative: 2.5 },
    ];
    let penalties = [
        Penalty::None,
        Penalty::K2 { coef: 0.3, by_ratio: false },
        Penalty::K3 { coef: 0.3, by_ratio: false },
        Penalty::K3 { coef: 0.3, by_ratio: true },
    ];
    for update in updates {
        for ratio in ratios(&batch) {
            for aggregate in AGGREGATES {
                for (penalty, mask_negatives) in
                    penalties.into_iter().zip([None, Some(0.02), Some(0.05), None])
                {
                    // Weights of rows beside a mask of negatives, which neither knows of.
                    let row_weights = mask_negatives.map(|_| &batch.weights[..]);
                    let objective =
                        PolicyGradient { ratio, update, mask_negatives, penalty, aggregate, row_weights };
                    for per in [Per::Sequence, Per::Token] {
                        let off = batch.off(|logp| loss_of(&batch, &objective, per, logp));
                        assert!(off < 1e-7, "{objective:?} {off}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_geometric_mean_of_clipped_ratios_has_its_derivative() {
    let batch = batch();
    for aggregate in AGGREGATES {
        let objective = PolicyGradient {
            ratio: Ratio::Token,
            update: Update::Geometric { low: 0.1, high: 0.2 },
            mask_negatives: None,
            penalty: Penalty::None,
            aggregate,
            row_weights: Some(&batch.weights),
        };
        for per in [Per::Sequence, Per::Token] {
            let off = batch.off(|logp| loss_of(&batch, &objective, per, logp));
            assert!(off < 1e-7, "{objective:?} {off}");
        }
    }
}

/// A detached weight w has the term `-w A logp` and the coefficient `-w A`.
#[test]
fn detached_rules_are_their_formulas() {
    let batch = batch();
    let plain = |update| PolicyGradient {
        ratio: Ratio::Token,
        update,
        mask_negatives: None,
        penalty: Penalty::None,
        aggregate: Aggregate::TokenMean { tokens: Some(1.0) },
        row_weights: None,
    };
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let rules: [(Update, Weight<'_>); 3] = [
        (Update::Bounded(Clip::cap(0.8, 1.2).unwrap()), Box::new(|ratio, _, _| ratio.clamp(0.8, 1.2))),
        (
            Update::Flip { low: 0.2, high: 0.28, bound: 1.1 },
            Box::new(|ratio, advantage, _| match advantage > 0.0 {
                true if ratio > 1.28 => 0.0,
                false if ratio < 0.8 => 0.0,
                true => (1.0 / ratio).min(1.1),
                false => ratio.min(1.1),
            }),
        ),
        (
            Update::Delight { temperature: 0.7 },
            Box::new(|_, advantage, logp| sigmoid(-advantage * logp / 0.7)),
        ),
    ];
    for (update, weight) in rules {
        let (loss, out) = loss_of(&batch, &plain(update), Per::Token, &batch.logp);
        let mut wanted = 0.0;
        for (at, &coefficient) in out.iter().enumerate() {
            let (logp, advantage) = (batch.logp[at], batch.advantages[at]);
            let slope = if batch.mask[at] {
                -weight((logp - batch.old[at]).exp(), advantage, logp) * advantage
            } else {
                0.0
            };
            assert!((coefficient - slope).abs() < 1e-12, "{update:?} at {at}: {coefficient} {slope}");
            wanted += slope * if batch.mask[at] { logp } else { 0.0 };
        }
        assert!((loss - wanted).abs() < 1e-11, "{update:?} {loss} {wanted}");
    }
}

#[test]
fn a_token_of_the_sequence_has_its_ratio_and_the_gradient_of_its_own() {
    let batch = batch();
    let objective = |ratio| PolicyGradient {
        ratio,
        update: Update::Bounded(Clip::ppo(0.1, 0.1).unwrap()),
        mask_negatives: None,
        penalty: Penalty::None,
        aggregate: Aggregate::SequenceMean { sequences: Some(5.0) },
        row_weights: None,
    };
    let of = |ratio, per| loss_of(&batch, &objective(ratio), per, &batch.logp);
    let (alike, wanted) = (of(Ratio::SequenceToken, Per::Sequence), of(Ratio::Sequence, Per::Sequence));
    assert!((alike.0 - wanted.0).abs() < 1e-12);
    assert!(alike.1.iter().zip(&wanted.1).all(|(one, other)| (one - other).abs() < 1e-12));
    let (own, shared) = (of(Ratio::SequenceToken, Per::Token), of(Ratio::Sequence, Per::Token));
    assert!((own.0 - shared.0).abs() < 1e-12);
    assert!(own.1.iter().zip(&shared.1).any(|(one, other)| (one - other).abs() > 1e-3));
}

#[test]
fn statistics_are_those_of_the_tokens_that_count() {
    let batch = batch();
    let objective = PolicyGradient {
        ratio: Ratio::Token,
        update: Update::Bounded(Clip::dual(0.2, 0.28, 1.3).unwrap()),
        mask_negatives: None,
        penalty: Penalty::K2 { coef: 0.1, by_ratio: false },
        aggregate: AGGREGATES[1],
        row_weights: None,
    };
    let mut out = vec![0.0; batch.logp.len()];
    let advantages = Advantages::double(&batch.advantages, Per::Token);
    let rollouts = batch.rollouts(&batch.logp);
    let found = policy_gradient(&rollouts, advantages, &objective, &mut out, 1).unwrap().statistics;
    let kept: Vec<usize> = (0..batch.logp.len()).filter(|&at| batch.mask[at]).collect();
    let mean = |of: &dyn Fn(usize) -> f64| kept.iter().map(|&at| of(at)).sum::<f64>() / kept.len() as f64;
    let ratio = |at: usize| (batch.logp[at] - batch.old[at]).exp();
    let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-12, "{found} {wanted}");
    assert_eq!((found.tokens, found.rollouts), (18, 5));
    near(found.ratio, mean(&ratio));
    near(found.ratio_std, mean(&|at| (ratio(at) - mean(&ratio)).powi(2)).sqrt());
    near(found.ratio_max, kept.iter().map(|&at| ratio(at)).fold(0.0, f64::max));
    near(found.ratio_min, kept.iter().map(|&at| ratio(at)).fold(9.0, f64::min));
    near(found.kl_old, mean(&|at| ratio(at) - 1.0 - ratio(at).ln()));
    let apart = |at: usize| batch.logp[at] - batch.reference[at];
    near(found.kl.unwrap(), mean(&|at| (-apart(at)).exp() - 1.0 + apart(at)));
    let gain = |at: usize| batch.advantages[at] > 0.0;
    near(found.clip_low, mean(&|at| f64::from(u8::from(!gain(at) && ratio(at) < 0.8))));
    near(found.clip_high, mean(&|at| f64::from(u8::from(ratio(at) > if gain(at) { 1.28 } else { 1.3 }))));
    assert!(found.clip_low > 0.0 && found.clip_high > 0.0);
    let rows = (0..LENGTHS.len()).filter_map(|row| {
        let tokens = || {
            (0..batch.logp.len()).filter(|&at| {
                let at = i64::try_from(at).unwrap();
                batch.offsets[row] <= at && at < batch.offsets[row + 1]
            })
        };
        let sum: f64 = tokens().filter(|&at| batch.mask[at]).map(|at| ratio(at).ln()).sum();
        tokens().any(|at| batch.mask[at]).then(|| sum.exp())
    });
    let products: Vec<f64> = rows.collect();
    let (sum, squares): (f64, f64) = (products.iter().sum(), products.iter().map(|row| row * row).sum());
    near(found.ratio_ess, sum * sum / squares / 5.0);
}

#[test]
fn a_number_that_is_not_finite_shows_in_the_loss_and_raises_nothing() {
    let batch = batch();
    let objective = PolicyGradient {
        ratio: Ratio::Sequence,
        update: Update::Bounded(Clip::ppo(0.2, 0.2).unwrap()),
        mask_negatives: None,
        penalty: Penalty::None,
        aggregate: AGGREGATES[0],
        row_weights: None,
    };
    let mut logp = batch.logp.clone();
    logp[1] = f64::NAN;
    for ratio in [Ratio::Token, Ratio::Sequence, Ratio::SequenceToken] {
        assert!(loss_of(&batch, &PolicyGradient { ratio, ..objective }, Per::Token, &logp).0.is_nan());
    }
    logp[1] = batch.logp[1];
    logp[7] = f64::NAN;
    let (loss, out) = loss_of(&batch, &objective, Per::Sequence, &logp);
    assert!(loss.is_finite() && out.iter().all(|value| value.is_finite()), "a masked token");
}
