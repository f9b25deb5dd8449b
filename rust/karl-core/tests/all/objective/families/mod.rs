//! Every family of objectives: coefficients are derivatives, parts add up, and threads change no bit.

#![allow(clippy::float_cmp, reason = "tests: a failure is a panic, and a masked token is exactly 0")]
#![allow(clippy::disallowed_methods, reason = "formulas as they are written, within a tolerance")]

mod balances;
mod policy_gradients;

use karl_core::Offsets;
use karl_core::objective::{
    Advantages, Aggregate, Anchor, Balance, Clip, LogZ, Penalty, Per, PolicyGradient, Power, Ratio, Rollouts,
    Update, balance, policy_gradient,
};

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
            row_weights: None,
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
