//! Every family of objectives: coefficients are derivatives, parts add up, and threads change no bit.

#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "tests: a failure is a panic, and a masked token is exactly 0"
)]
#![allow(clippy::disallowed_methods, reason = "formulas as they are written, within a tolerance")]

use karl_core::Offsets;
use karl_core::objective::{
    Advantages, Aggregate, Anchor, Balance, Clip, LogZ, Penalty, Per, PolicyGradient, Power, Ratio, Rollouts,
    TargetPolicy, Turns, Update, WeightedLikelihood, balance, linear_term, policy_gradient, target_policy,
    weighted_likelihood,
};

/// A weight by ratio, advantage and log-probability.
type Weight<'a> = Box<dyn Fn(f64, f64, f64) -> f64 + 'a>;

const LENGTHS: [usize; 6] = [5, 1, 4, 3, 6, 2];
const STEP: f64 = 1e-6;

/// A batch of six rollouts with a masked token and one rollout that does not count.
struct Batch {
    logp: Vec<f64>,
    old: Vec<f64>,
    reference: Vec<f64>,
    mask: Vec<bool>,
    turns: Vec<i64>,
    offsets: Vec<i64>,
    /// One a token: of both signs in a rollout.
    advantages: Vec<f64>,
    rewards: Vec<f64>,
    groups: Vec<i64>,
    weights: Vec<f64>,
}

fn batch() -> Batch {
    let tokens: usize = LENGTHS.iter().sum();
    let wave = |at: usize, speed: f64| (at as f64 * speed).sin();
    let old: Vec<f64> = (0..tokens).map(|at| -1.2 - 0.8 * wave(at, 1.7)).collect();
    let mut offsets = vec![0_i64];
    let (mut turns, mut mask) = (Vec::new(), Vec::new());
    for (row, &length) in LENGTHS.iter().enumerate() {
        offsets.push(offsets[row] + i64::try_from(length).unwrap());
        turns.extend(
            (0..length).map(|at| if row == 3 && at == 0 { -1 } else { i64::try_from(at / 2).unwrap() }),
        );
        mask.extend((0..length).map(|at| row != 5 && !(row == 2 && at == 1)));
    }
    Batch {
        logp: old.iter().enumerate().map(|(at, old)| old + 0.45 * wave(at, 2.3)).collect(),
        reference: old.iter().enumerate().map(|(at, old)| old + 0.3 * wave(at, 0.9)).collect(),
        old,
        mask,
        turns,
        offsets,
        advantages: (0..tokens).map(|at| 1.3 * wave(at, 0.8) + 0.1).collect(),
        rewards: vec![1.0, 0.3, -0.4, 0.8, 0.0, 9.0],
        groups: vec![2, 7, 2, -1, 7, 2],
        weights: vec![0.5, 1.7, 1.0, 0.2, 1.1, 3.0],
    }
}

impl Batch {
    fn rollouts<'a>(&'a self, logp: &'a [f64]) -> Rollouts<'a, f64> {
        let offsets = Offsets::new("offsets", &self.offsets, logp.len()).unwrap();
        Rollouts::new(logp, Some(&self.old), Some(&self.reference), &self.mask, offsets).unwrap()
    }

    /// The largest difference between a coefficient and a central difference of the loss, over the largest one.
    fn off(&self, loss: impl Fn(&[f64]) -> (f64, Vec<f64>)) -> f64 {
        let (_, coefficients) = loss(&self.logp);
        let largest = coefficients.iter().fold(1e-3_f64, |most, value| most.max(value.abs()));
        let apart = (0..self.logp.len()).map(|at| {
            let moved = |by: f64| {
                let mut logp = self.logp.clone();
                logp[at] += by;
                loss(&logp).0
            };
            ((moved(STEP) - moved(-STEP)) / (2.0 * STEP) - coefficients[at]).abs()
        });
        apart.fold(0.0, f64::max) / largest
    }
}

const AGGREGATES: [Aggregate; 4] = [
    Aggregate::SequenceMean { sequences: Some(5.0) },
    Aggregate::TokenMean { tokens: Some(18.0) },
    Aggregate::ConstantLength { tokens: 7.0, sequences: Some(5.0) },
    Aggregate::SequenceSum { sequences: Some(5.0) },
];

fn loss_of(batch: &Batch, objective: &PolicyGradient<'_>, per: Per<'_>, logp: &[f64]) -> (f64, Vec<f64>) {
    let mut out = vec![f64::NAN; logp.len()];
    let advantages = match per {
        Per::Token => &batch.advantages[..],
        _ => &batch.advantages[..LENGTHS.len()],
    };
    let advantages = Advantages::double(advantages, per);
    let found = policy_gradient(&batch.rollouts(logp), advantages, objective, &mut out, 2).unwrap();
    (found.loss, out)
}

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
                    let objective = PolicyGradient { ratio, update, mask_negatives, penalty, aggregate };
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
fn balances_have_their_derivatives() {
    let batch = batch();
    let log_z = [0.1, -0.3, 0.2, 0.4, 0.0, 5.0];
    for anchor in [Anchor::None, Anchor::Behaviour, Anchor::Reference] {
        for (length, width) in [(Power::Mean, f64::INFINITY), (Power::Sum, 0.4)] {
            for choice in [None, Some((0.2, 0.28))] {
                for log_z in [LogZ::None, LogZ::Learned(&log_z)] {
                    let objective = Balance {
                        anchor,
                        length,
                        drift: 0.7,
                        reward: 1.9,
                        log_z,
                        width,
                        choice,
                        weight: None,
                        denominator: 5.0,
                    };
                    let off = batch.off(|logp| {
                        let (mut out, mut by) = (vec![f64::NAN; logp.len()], vec![0.0; LENGTHS.len()]);
                        let rollouts = batch.rollouts(logp);
                        let (found, _) =
                            balance(&rollouts, &batch.rewards, &objective, &mut out, &mut by, 2).unwrap();
                        (found.loss, out)
                    });
                    assert!(off < 1e-7, "{objective:?} {off}");
                }
            }
        }
    }
}

fn nats(log_z: LogZ<'_>, weight: Option<(Power, f64, f64)>) -> Balance<'_> {
    Balance {
        anchor: Anchor::Reference,
        length: Power::Mean,
        drift: 1.0,
        reward: 2.0,
        log_z,
        width: f64::INFINITY,
        choice: None,
        weight,
        denominator: 5.0,
    }
}

#[test]
fn the_derivative_by_log_z_is_one_and_the_optimum_of_a_group_is_where_it_is_zero() {
    let batch = batch();
    for weight in [None, Some((Power::Sum, 0.8, 1.2)), Some((Power::Mean, 0.0, 1.05))] {
        let of = |log_z: LogZ<'_>| {
            let (mut out, mut by) = (vec![0.0; batch.logp.len()], vec![0.0; LENGTHS.len()]);
            let rollouts = batch.rollouts(&batch.logp);
            let found =
                balance(&rollouts, &batch.rewards, &nats(log_z, weight), &mut out, &mut by, 1).unwrap();
            (found.0.loss, out, by)
        };
        let at = [0.1, -0.3, 0.2, 0.4, 0.0, 5.0];
        let (_, _, by) = of(LogZ::Learned(&at));
        assert_eq!(by[5], 0.0);
        for row in 0..LENGTHS.len() {
            let moved = |step: f64| {
                let mut log_z = at;
                log_z[row] += step;
                of(LogZ::Learned(&log_z)).0
            };
            assert!(((moved(STEP) - moved(-STEP)) / (2.0 * STEP) - by[row]).abs() < 1e-8);
        }
        // Each group at its optimum: the derivatives by its one log Z add up to nothing, and the loss is the least.
        let (least, slopes, _) = of(LogZ::GroupOptimum(&batch.groups));
        let zero = of(LogZ::Learned(&[0.0; 6]));
        let best = |rows: &[usize]| {
            let shifts: Vec<f64> = (0..400).map(|step| f64::from(step) * 0.01 - 1.0).collect();
            let loss = |shift: f64| {
                let mut log_z = [0.0; 6];
                for &row in rows {
                    log_z[row] = shift;
                }
                of(LogZ::Learned(&log_z)).0 - zero.0
            };
            shifts.into_iter().map(loss).fold(f64::INFINITY, f64::min)
        };
        let reached = zero.0 + best(&[0, 2]) + best(&[1, 4]) + best(&[3]);
        assert!(least <= reached + 1e-12 && reached - least < 1e-4, "{least} {reached}");
        assert!(slopes.iter().any(|slope| slope.abs() > 1e-3));
        assert!(slopes[10..13].iter().all(|&slope| slope.abs() < 1e-15), "a rollout alone has no gradient");
    }
}

#[test]
fn target_policies_and_likelihoods_have_their_derivatives() {
    let batch = batch();
    let targets = [0.3, 0.6, 0.7, 1.0, 0.4, 0.0];
    for length in [Power::Mean, Power::Sum] {
        let objective = TargetPolicy { targets: &targets, groups: &batch.groups, length, denominator: 3.0 };
        let off = batch.off(|logp| {
            let mut out = vec![f64::NAN; logp.len()];
            (target_policy(&batch.rollouts(logp), &objective, &mut out, 1).unwrap().loss, out)
        });
        assert!(off < 1e-7, "{off}");
    }
    for aggregate in AGGREGATES {
        let objective = WeightedLikelihood { weights: &batch.weights, scaled: false, aggregate };
        let off = batch.off(|logp| {
            let mut out = vec![f64::NAN; logp.len()];
            (weighted_likelihood(&batch.rollouts(logp), &objective, &mut out, 1).unwrap().loss, out)
        });
        assert!(off < 1e-7, "{off}");
        let off = batch.off(|values| {
            let mut out = vec![f64::NAN; values.len()];
            let rollouts = batch.rollouts(&batch.logp);
            (linear_term(&rollouts, values, -0.3, aggregate, &mut out, 1).unwrap().0, out)
        });
        assert!(off < 1e-7, "{off}");
    }
    let scaled = WeightedLikelihood { weights: &batch.weights, scaled: true, aggregate: AGGREGATES[3] };
    let mut out = vec![f64::NAN; batch.logp.len()];
    weighted_likelihood(&batch.rollouts(&batch.logp), &scaled, &mut out, 1).unwrap();
    assert!((out[2] + 0.5 * batch.logp[2].exp() / 5.0).abs() < 1e-15);
    assert_eq!(out[7], 0.0, "the masked token");
}

/// f32 tokens of many blocks: the bits are the same for any number of threads.
#[test]
fn threads_change_no_bit() {
    let tokens: usize = 400_000;
    let old: Vec<f32> = (0..tokens).map(|at| -1.0 - 0.5 * (at as f32 * 0.37).sin()).collect();
    let logp: Vec<f32> =
        old.iter().enumerate().map(|(at, old)| old + 0.1 * (at as f32 * 1.3).sin()).collect();
    let mask: Vec<bool> = (0..tokens).map(|at| at % 11 != 3).collect();
    let offsets: Vec<i64> = (0..=100).map(|row| row * 4000).collect();
    let advantages: Vec<f64> = (0..100).map(|row| (f64::from(row) * 0.7).sin()).collect();
    let rewards = advantages.clone();
    let groups: Vec<i64> = (0..100).map(|row| row / 4).collect();
    let offsets = Offsets::new("offsets", &offsets, tokens).unwrap();
    let rollouts = Rollouts::new(&logp, Some(&old), Some(&old), &mask, offsets).unwrap();
    let run = |threads| {
        let mut out = vec![0.0_f32; tokens];
        let objective = PolicyGradient {
            ratio: Ratio::Token,
            update: Update::Bounded(Clip::ppo(0.05, 0.05).unwrap()),
            mask_negatives: None,
            penalty: Penalty::K3 { coef: 0.1, by_ratio: true },
            aggregate: Aggregate::TokenMean { tokens: Some(1e5) },
        };
        let credit = Advantages::double(&advantages, Per::Sequence);
        let found = policy_gradient(&rollouts, credit, &objective, &mut out, threads).unwrap();
        let mut more = vec![0.0_f32; tokens];
        let objective = Balance {
            anchor: Anchor::Behaviour,
            length: Power::Mean,
            drift: 1.0,
            reward: 2.0,
            log_z: LogZ::GroupOptimum(&groups),
            width: 3.0,
            choice: Some((0.01, 0.01)),
            weight: Some((Power::Sum, 0.8, 1.2)),
            denominator: 100.0,
        };
        let other = balance(&rollouts, &rewards, &objective, &mut more, &mut [], threads).unwrap();
        (found, out, other.0, more)
    };
    let alone = run(1);
    for threads in [2, 3, 16] {
        assert_eq!(run(threads), alone);
    }
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
