//! The samplers: each against its slow twin, its law, its golden trace and its pinned rows.
//!
//! Seeds are fixed, so a test either always passes or always fails. `ALPHA` is the chance that any one of the chi-square
//! tests here would have failed for a correct sampler; it is shared among them (Bonferroni).

mod golden;
mod kernels;
mod ranking;
mod strata;
mod streams;
mod with_replacement;

use karl_core::{Copies, Keys, Sampler, Weighted};

use crate::naive;
use crate::statistics::fit;

/// The chance of a false alarm over all chi-square tests of this file.
const ALPHA: f64 = 1e-3;

/// At least as many as there are chi-square tests below.
const TESTS: f64 = 40.0;

/// A wrong law has to be this unlikely, so that its rejection is not an accident either.
const REJECTED: f64 = 1e-12;

fn assert_follows(counts: &[f64], law: &[f64], what: &str) {
    let tail = fit(counts, law);
    assert!(tail > ALPHA / TESTS, "{what}: tail probability {tail:e}");
}

fn assert_rejected(counts: &[f64], law: &[f64], what: &str) {
    let tail = fit(counts, law);
    assert!(tail < REJECTED, "{what}: tail probability {tail:e}");
}

fn logs(weights: &[f64]) -> Vec<f64> {
    weights.iter().map(|&weight| libm::log(weight)).collect()
}

/// The rows of a draw without replacement.
fn drawn(sampler: Sampler, logs: &[f64], k: usize, seed: u64, threads: usize) -> Vec<u32> {
    let keys = Keys::of_indices(logs.len());
    Weighted::by_logs(logs, &keys).unwrap().ranking(sampler, seed, threads).unwrap().take(k)
}

/// How often each row is in a draw with replacement.
fn counted(sampler: Sampler, logs: &[f64], k: usize, seed: u64, without: &[u32]) -> Vec<u64> {
    let keys = Keys::of_indices(logs.len());
    let mut copies = Copies::new(Weighted::by_logs(logs, &keys).unwrap(), sampler, k, seed, 2).unwrap();
    if !without.is_empty() {
        copies.replace(without);
    }
    let mut counts = vec![0; logs.len()];
    copies.rows().iter().for_each(|copy| counts[copy.row as usize] = u64::from(copy.count));
    counts
}

/// Ordered draws of k, counted in the order of `naive::ordered_draws`.
fn ordered(weights: &[f64], k: usize, draws: impl Iterator<Item = Vec<u32>>) -> (Vec<f64>, Vec<f64>) {
    let laws = naive::ordered_draws(weights, k);
    let mut counts = vec![0.0; laws.len()];
    for drawn in draws {
        let rows: Vec<usize> = drawn.into_iter().map(|row| row as usize).collect();
        counts[laws.iter().position(|(wanted, _)| *wanted == rows).unwrap()] += 1.0;
    }
    (counts, laws.into_iter().map(|(_, probability)| probability).collect())
}
