//! Draws follow the law they are named after, and the same statistics reject a neighbouring law.
//!
//! Seeds are fixed, so a test either always passes or always fails. `ALPHA` is the chance that any one of the
//! chi-square tests here would have failed for a correct sampler; it is shared among them (Bonferroni).

mod orders;
mod uniforms;

use karl_core::sample::gumbel::{inclusion, keys};
use karl_core::{Keys, Ranking, Scopes, Temperature, boltzmann};

use crate::naive;
use crate::statistics::{deviation, fit};

/// The chance of a false alarm over all chi-square tests of this file.
const ALPHA: f64 = 1e-3;

/// At least as many as there are chi-square tests below.
const TESTS: f64 = 40.0;

/// A wrong law has to be this unlikely, so that its rejection is not an accident either.
const REJECTED: f64 = 1e-12;

/// Standard deviations that an exact frequency may be off: one in 16,000 for each comparison.
const SIGMAS: f64 = 4.0;

fn assert_follows(tail: f64, what: &str) {
    assert!(tail > ALPHA / TESTS, "{what}: tail probability {tail:e}");
}

fn assert_rejected(tail: f64, what: &str) {
    assert!(tail < REJECTED, "{what}: tail probability {tail:e}");
}

fn index_keys(rows: usize) -> Keys {
    Keys::of_indices(rows)
}

fn logs(weights: &[f64]) -> Vec<f64> {
    weights.iter().map(|&weight| libm::log(weight)).collect()
}

/// The first k rows of each of `seeds` draws.
fn draws(log_weights: &[f64], k: usize, seeds: std::ops::Range<u64>) -> impl Iterator<Item = Vec<usize>> {
    let rows = index_keys(log_weights.len());
    seeds.map(move |seed| {
        let drawn = Ranking::new(keys(log_weights, &rows, seed).unwrap()).unwrap().take(k);
        drawn.into_iter().map(|row| row as usize).collect()
    })
}

/// Small populations, whose law can be written out.
fn small() -> [(Vec<f64>, usize); 5] {
    [
        (vec![1.0, 2.0, 3.0, 4.0], 2),
        (vec![1.0, 2.0, 3.0, 4.0], 3),
        (vec![0.1, 1.0, 10.0], 2),
        (vec![1.0; 5], 2),
        (vec![0.2, 5.0, 1.0, 1.0, 3.0, 0.7, 2.0, 9.0], 4),
    ]
}

/// How often each row was among the first k.
fn included(log_weights: &[f64], k: usize, seeds: u64) -> Vec<f64> {
    let mut counts = vec![0.0; log_weights.len()];
    for row in draws(log_weights, k, 0..seeds).flatten() {
        counts[row] += 1.0;
    }
    counts
}

/// The largest deviation of counts from `probabilities`, in standard deviations.
fn farthest(counts: &[f64], seeds: u64, probabilities: &[f64]) -> f64 {
    let each = counts.iter().zip(probabilities).map(|(&count, &p)| deviation(count, seeds as f64, p).abs());
    each.fold(0.0, f64::max)
}

const SEEDS: u64 = 100_000;

#[test]
fn inclusion_is_that_of_plackett_luce() {
    for (weights, k) in small() {
        let counts = included(&logs(&weights), k, SEEDS);
        let off = farthest(&counts, SEEDS, &naive::inclusion(&weights, k));
        assert!(off < SIGMAS, "{weights:?} {k}: {off} standard deviations");
    }
}

#[test]
fn inclusion_in_proportion_is_rejected_and_so_are_replacement_and_squared_weights() {
    let (weights, k) = (vec![1.0, 2.0, 3.0, 4.0], 2);
    let counts = included(&logs(&weights), k, SEEDS);
    let proportional = [0.2, 0.4, 0.6, 0.8];
    let replaced = weights.iter().map(|w| 1.0 - (1.0 - w / 10.0f64).powi(2)).collect::<Vec<_>>();
    let squared = naive::inclusion(&[1.0, 4.0, 9.0, 16.0], k);
    for law in [&proportional[..], &replaced, &squared] {
        assert!(farthest(&counts, SEEDS, law) > 10.0 * SIGMAS, "{law:?}");
    }
}

/// How often each ordered draw of k came, in the order of `naive::ordered_draws`.
fn ordered_counts(weights: &[f64], k: usize) -> Vec<f64> {
    let laws = naive::ordered_draws(weights, k);
    let mut counts = vec![0.0; laws.len()];
    for drawn in draws(&logs(weights), k, 0..SEEDS) {
        counts[laws.iter().position(|(rows, _)| *rows == drawn).unwrap()] += 1.0;
    }
    counts
}

fn ordered_law(weights: &[f64], k: usize) -> Vec<f64> {
    naive::ordered_draws(weights, k).into_iter().map(|(_, probability)| probability).collect()
}

#[test]
fn the_joint_law_of_the_first_rows_is_plackett_luce() {
    for (weights, k) in [(vec![1.0, 2.0, 3.0, 4.0], 2), (vec![0.5, 1.0, 4.0, 1.0, 2.0], 3)] {
        let counts = ordered_counts(&weights, k);
        assert_follows(fit(&counts, &ordered_law(&weights, k)), "ordered draws");
        let squared: Vec<f64> = weights.iter().map(|w| w * w).collect();
        assert_rejected(fit(&counts, &ordered_law(&squared, k)), "squared weights");
        let independent = ordered_law(&weights, 1);
        let pairs = naive::ordered_draws(&weights, k);
        let replaced: Vec<f64> =
            pairs.iter().map(|(rows, _)| rows.iter().map(|&row| independent[row]).product()).collect();
        let total: f64 = replaced.iter().sum();
        let replaced: Vec<f64> = replaced.iter().map(|p| p / total).collect();
        assert_rejected(fit(&counts, &replaced), "with replacement, given no row twice");
    }
}

/// Rewards between 0.32 and 0.79 that repeat, as in KARL's log of 111 trajectories.
fn rewards(rows: usize) -> Vec<f64> {
    (0..rows).map(|row| 0.32 + 0.01 * ((row * 37) % 48) as f64).collect()
}

fn target(rewards: &[f64], inverse_temperature: f64) -> Vec<f64> {
    boltzmann(rewards, Scopes::Whole, Temperature::Inverse(inverse_temperature), 2).unwrap().log_weights
}

const INVERSE_TEMPERATURES: [f64; 4] = [0.0, 1.0, 15.0, 1e3];

#[test]
fn the_first_row_has_its_own_probability() {
    let rewards = rewards(111);
    for inverse_temperature in INVERSE_TEMPERATURES {
        let log_weights = target(&rewards, inverse_temperature);
        let mut counts = vec![0.0; rewards.len()];
        draws(&log_weights, 1, 0..5_000).for_each(|drawn| counts[drawn[0]] += 1.0);
        let probabilities: Vec<f64> = log_weights.iter().map(|&log| libm::exp(log)).collect();
        assert_follows(fit(&counts, &probabilities), "first row");
        let halved: Vec<f64> =
            target(&rewards, inverse_temperature / 2.0).into_iter().map(libm::exp).collect();
        // At 0 and at 1 half is too near for so few draws; at 1000 the top has all the weight either way.
        if inverse_temperature.to_bits() == 15f64.to_bits() {
            assert_rejected(fit(&counts, &halved), "half the inverse temperature");
        }
    }
}

#[test]
fn dividing_by_the_inclusion_is_unbiased() {
    let weights = [0.2, 5.0, 1.0, 1.0, 3.0, 0.7, 2.0, 9.0];
    let (log_weights, rows) = (logs(&weights), index_keys(8));
    let values = [3.0, -1.0, 4.0, 1.0, -5.0, 9.0, 2.0, 6.0];
    let estimate = |seed| -> f64 {
        let mut ranking = Ranking::new(keys(&log_weights, &rows, seed).unwrap()).unwrap();
        let drawn = ranking.take(4);
        let threshold = ranking.threshold();
        drawn.iter().map(|&row| values[row as usize] / inclusion(log_weights[row as usize], threshold)).sum()
    };
    let estimates: Vec<f64> = (0..SEEDS).map(estimate).collect();
    let (mean, variance) = (naive::mean(&estimates), naive::variance(&estimates, 1));
    let off = (mean - values.iter().sum::<f64>()) / (variance / SEEDS as f64).sqrt();
    assert!(off.abs() < SIGMAS, "{off} standard deviations");
    assert!((inclusion(0.0, None) - 1.0).abs() <= 0.0, "all rows drawn");
}
