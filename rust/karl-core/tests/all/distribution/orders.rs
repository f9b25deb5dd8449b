//! The joint law of whole orders, at any size.

use karl_core::rng::uniform;
use karl_core::{Key, Purpose};

use super::{INVERSE_TEMPERATURES, assert_follows, assert_rejected, draws, rewards, target};
use crate::statistics::{pairs, uniformity};

/// One uniform number for each row drawn, which are independent if, and only if, the law is Plackett-Luce with
/// these weights (Rosenblatt's transform): where the row falls in the distribution over the rows still there,
/// `(weight of those before it + v * its own) / weight left`, with v uniform. This tests the joint law of the
/// whole order, at any size.
fn transformed(drawn: &[usize], log_weights: &[f64], seed: u64) -> Vec<f64> {
    let mut left = log_weights.to_vec();
    let mut weights = rescaled(&left);
    let mut numbers = Vec::with_capacity(drawn.len());
    for &row in drawn {
        if weights.iter().fold(0.0, |top, &weight| f64::max(top, weight)) < 1e-100 {
            weights = rescaled(&left);
        }
        let v = uniform(seed, Key::of_index(row), Purpose::Split);
        let before: f64 = weights[..row].iter().sum();
        let after: f64 = weights[row + 1..].iter().sum();
        numbers.push((before + v * weights[row]) / (before + weights[row] + after));
        (left[row], weights[row]) = (f64::NEG_INFINITY, 0.0);
    }
    numbers
}

/// Weights relative to the largest: what is far below does not matter until the top has been drawn.
fn rescaled(logs: &[f64]) -> Vec<f64> {
    let top = logs.iter().fold(f64::NEG_INFINITY, |top, &log| top.max(log));
    logs.iter().map(|&log| libm::exp(log - top)).collect()
}

/// The transformed numbers of the first k rows of many draws, taken as if `assumed` were the log weights.
fn all_transformed(log_weights: &[f64], assumed: &[f64], k: usize, seeds: u64) -> Vec<f64> {
    draws(log_weights, k, 0..seeds)
        .zip(0..)
        .flat_map(|(drawn, seed)| transformed(&drawn, assumed, seed))
        .collect()
}

fn assert_uniform_and_independent(numbers: &[f64], what: &str) {
    assert_follows(uniformity(numbers.iter().copied(), 50), what);
    assert_follows(pairs(numbers.windows(2).step_by(2).map(|pair| (pair[0], pair[1])), 10), what);
}

/// Rows sorted by reward, so that a law too sharp or too flat pushes the numbers to one side.
fn sorted_target(rows: usize, inverse_temperature: f64) -> Vec<f64> {
    let mut log_weights = target(&rewards(rows), inverse_temperature);
    log_weights.sort_unstable_by(f64::total_cmp);
    log_weights
}

#[test]
fn whole_orders_of_111_rows_follow_the_law() {
    for inverse_temperature in INVERSE_TEMPERATURES {
        let log_weights = sorted_target(111, inverse_temperature);
        let numbers = all_transformed(&log_weights, &log_weights, 111, 100);
        assert_uniform_and_independent(&numbers, &format!("111 rows at {inverse_temperature}"));
    }
}

#[test]
fn draws_of_10_000_rows_follow_the_law() {
    for inverse_temperature in INVERSE_TEMPERATURES {
        let log_weights = sorted_target(10_000, inverse_temperature);
        let numbers = all_transformed(&log_weights, &log_weights, 100, 100);
        assert_uniform_and_independent(&numbers, &format!("10,000 rows at {inverse_temperature}"));
    }
}

#[test]
fn another_temperature_is_rejected() {
    let log_weights = sorted_target(111, 15.0);
    for wrong in [0.0, 7.5, 30.0] {
        let numbers = all_transformed(&log_weights, &sorted_target(111, wrong), 111, 100);
        assert_rejected(uniformity(numbers.into_iter(), 50), "another temperature");
    }
}
