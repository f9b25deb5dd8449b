//! Balances, target policies and likelihoods: coefficients and slopes by log Z are derivatives.

use karl_core::objective::{
    Anchor, Balance, Gate, LogZ, Power, TargetPolicy, WeightedLikelihood, balance, linear_term,
    target_policy, weighted_likelihood,
};

use super::{AGGREGATES, LENGTHS, STEP, batch};

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
        let objective = WeightedLikelihood { weights: &batch.weights, gate: Gate::Open, aggregate };
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
    let scaled =
        WeightedLikelihood { weights: &batch.weights, gate: Gate::Probability, aggregate: AGGREGATES[3] };
    let mut out = vec![f64::NAN; batch.logp.len()];
    weighted_likelihood(&batch.rollouts(&batch.logp), &scaled, &mut out, 1).unwrap();
    assert!((out[2] + 0.5 * batch.logp[2].exp() / 5.0).abs() < 1e-15);
    assert_eq!(out[7], 0.0, "the masked token");
}
