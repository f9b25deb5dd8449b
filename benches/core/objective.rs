//! Objectives on a million tokens, three eighths of them padding.
#![allow(clippy::unwrap_used, reason = "a bench that cannot be set up has failed")]
#![allow(clippy::cast_possible_truncation, reason = "log-probabilities are stored in f32")]

use divan::{Bencher, counter::ItemsCount};
use karl_bench::counted;
use karl_core::objective::{
    Advantages, Aggregate, Anchor, Balance, Clip, Gate, LogZ, Penalty, Per, PolicyGradient, Power, Ratio,
    Rollouts, TargetPolicy, Update, WeightedLikelihood, balance, policy_gradient, target_policy,
    weighted_likelihood,
};
use karl_core::{Key, Offsets, Purpose, rng};

const ROWS: usize = 1024;
const WIDTH: usize = 1024;
const TOKENS: usize = ROWS * WIDTH;
const AGGREGATE: Aggregate = Aggregate::TokenMean { tokens: Some(TOKENS as f64) };

fn main() {
    divan::main();
}

/// Rollouts of a quarter to all of the width, with log ratios of a few hundredths.
struct Batch {
    logp: Vec<f32>,
    old: Vec<f32>,
    reference: Vec<f32>,
    mask: Vec<bool>,
    starts: Vec<i64>,
    rewards: Vec<f64>,
    groups: Vec<i64>,
}

impl Batch {
    fn new() -> Self {
        let uniform = |seed, at| rng::uniform(seed, Key::of_index(at), Purpose::Draw);
        let old: Vec<f32> = (0..TOKENS).map(|at| (-3.0 * uniform(1, at)) as f32).collect();
        let near = |seed| {
            let apart = |at: usize| (0.1 * (uniform(seed, at) - 0.5)) as f32;
            old.iter().enumerate().map(|(at, old)| old + apart(at)).collect()
        };
        let live = |row| WIDTH / 4 + row * 7919 % (WIDTH * 3 / 4);
        let starts = (0..=ROWS).map(|row| i64::try_from(row * WIDTH).unwrap()).collect();
        Self {
            logp: near(3),
            reference: near(4),
            mask: (0..TOKENS).map(|at| at % WIDTH < live(at / WIDTH)).collect(),
            starts,
            rewards: (0..ROWS).map(|row| uniform(5, row) - 0.5).collect(),
            groups: (0..ROWS).map(|row| i64::try_from(row / 8).unwrap()).collect(),
            old,
        }
    }

    fn offsets(&self) -> Offsets<'_> {
        Offsets::new("offsets", &self.starts, TOKENS).unwrap()
    }

    /// The policy alone.
    fn alone(&self) -> Rollouts<'_, f32> {
        Rollouts::new(&self.logp, None, None, &self.mask, self.offsets()).unwrap()
    }

    /// The policy beside the behaviour policy and the reference.
    fn beside(&self) -> Rollouts<'_, f32> {
        Rollouts::new(&self.logp, Some(&self.old), Some(&self.reference), &self.mask, self.offsets()).unwrap()
    }
}

fn bench(bencher: Bencher, work: impl Fn(&Batch, &mut [f32]) + Sync) {
    let batch = Batch::new();
    let bencher = bencher.counter(ItemsCount::new(TOKENS)).with_inputs(|| vec![0.0; TOKENS]);
    bencher.bench_refs(|out| counted(|| work(&batch, out)));
}

/// A policy gradient with a mean over tokens.
fn gradient(bencher: Bencher, ratio: Ratio<'static>, update: Update, penalty: Penalty) {
    let objective = PolicyGradient {
        ratio,
        update,
        mask_negatives: None,
        penalty,
        aggregate: AGGREGATE,
        row_weights: None,
    };
    let on_policy = matches!(ratio, Ratio::OnPolicy);
    bench(bencher, |batch, out| {
        let rollouts = if on_policy { batch.alone() } else { batch.beside() };
        let advantages = Advantages::double(&batch.rewards, Per::Sequence);
        policy_gradient(&rollouts, advantages, &objective, out, 1).unwrap();
    });
}

fn clip() -> Update {
    Update::Bounded(Clip::ppo(0.2, 0.2).unwrap())
}

#[divan::bench]
fn on_policy(bencher: Bencher) {
    gradient(bencher, Ratio::OnPolicy, Update::Bounded(Clip::NONE), Penalty::None);
}

#[divan::bench]
fn delight(bencher: Bencher) {
    gradient(bencher, Ratio::OnPolicy, Update::Delight { temperature: 1.0 }, Penalty::None);
}

#[divan::bench]
fn token(bencher: Bencher) {
    gradient(bencher, Ratio::Token, clip(), Penalty::None);
}

#[divan::bench]
fn token_k3(bencher: Bencher) {
    gradient(bencher, Ratio::Token, clip(), Penalty::K3 { coef: 0.1, by_ratio: false });
}

#[divan::bench]
fn soft_gate(bencher: Bencher) {
    let gate = Update::SoftGate { positive: 1.0, negative: 1.05 };
    gradient(bencher, Ratio::Token, gate, Penalty::None);
}

#[divan::bench]
fn sequence(bencher: Bencher) {
    gradient(bencher, Ratio::Sequence, clip(), Penalty::None);
}

#[divan::bench]
fn likelihood(bencher: Bencher) {
    bench(bencher, |batch, out| {
        let objective =
            WeightedLikelihood { weights: &batch.rewards, gate: Gate::Open, aggregate: AGGREGATE };
        weighted_likelihood(&batch.alone(), &objective, out, 1).unwrap();
    });
}

#[divan::bench]
fn target(bencher: Bencher) {
    bench(bencher, |batch, out| {
        let Batch { rewards: targets, groups, .. } = batch;
        let objective = TargetPolicy { targets, groups, length: Power::Mean, denominator: 10.0 };
        target_policy(&batch.beside(), &objective, out, 1).unwrap();
    });
}

/// `FlowRL`, of all tokens or of those that did not move too far.
#[divan::bench(args = [false, true])]
fn flow(bencher: Bencher, chosen: bool) {
    bench(bencher, |batch, out| {
        let (log_z, mut by_log_z) = (vec![0.0; ROWS], vec![0.0; ROWS]);
        let objective = Balance {
            anchor: Anchor::Reference,
            length: Power::Mean,
            drift: 1.0,
            reward: 1.0,
            log_z: LogZ::Learned(&log_z),
            width: f64::INFINITY,
            choice: chosen.then_some((0.2, 0.2)),
            weight: Some((Power::Mean, 0.1, 5.0)),
            denominator: 10.0,
        };
        balance(&batch.beside(), &batch.rewards, &objective, out, &mut by_log_z, 1).unwrap();
    });
}
