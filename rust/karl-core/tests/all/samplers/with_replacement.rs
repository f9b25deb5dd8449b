//! Draws with replacement.

use karl_core::rng::uniform;
use karl_core::{Copies, Key, Keys, Purpose, Sampler, Weighted};
use proptest::prelude::*;

use super::{assert_follows, assert_rejected, counted, logs};
use crate::naive;

/// The copies by their definition: one point after another, one row after another, in floats.
fn twin(weights: &[f64], points: &[f64]) -> Vec<u64> {
    let total: f64 = weights.iter().sum();
    let mut counts = vec![0; weights.len()];
    for point in points {
        let mut end = 0.0;
        let row = weights.iter().position(|weight| {
            end += weight;
            point * total < end
        });
        counts[row.unwrap()] += 1;
    }
    counts
}

fn points(sampler: Sampler, k: usize, seed: u64) -> Vec<f64> {
    let number = |draw: usize| uniform(seed, Key::of_index(draw), Purpose::Point);
    let point = |draw: usize| match sampler {
        Sampler::Systematic => (number(0) + draw as f64) / k as f64,
        _ => number(draw),
    };
    (0..k).map(point).collect()
}

fn weights() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(prop_oneof![0.001..9.0, Just(0.0), Just(1.0)], 1..60)
        .prop_filter("some weight", |weights| weights.iter().any(|&weight| weight > 0.0))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn copies_equal_their_twin(weights in weights(), k in 0..200_usize, seed in any::<u64>()) {
        for sampler in [Sampler::Systematic, Sampler::Multinomial] {
            let counts = counted(sampler, &logs(&weights), k, seed, &[]);
            prop_assert_eq!(counts.iter().sum::<u64>(), k as u64);
            prop_assert_eq!(counts, twin(&weights, &points(sampler, k, seed)));
        }
    }

    #[test]
    fn systematic_counts_are_within_one_of_their_expectation(
        logs in prop::collection::vec(prop_oneof![-40.0..0.0, -2.0..0.0, Just(f64::NEG_INFINITY)], 1..300),
        k in 1..5_000_usize,
        seed in any::<u64>(),
    ) {
        let total: f64 = logs.iter().map(|&log| libm::exp(log)).sum();
        prop_assume!(total > 0.0);
        for (log, count) in logs.iter().zip(counted(Sampler::Systematic, &logs, k, seed, &[])) {
            let expected = k as f64 * libm::exp(*log) / total;
            prop_assert!((count as f64 - expected).abs() < 1.0 + 1e-6, "{} for {}", count, expected);
        }
    }

    #[test]
    fn a_draw_made_again_takes_from_no_row_but_those_that_are_out(
        weights in weights(), k in 1..100_usize, seed in any::<u64>(), out in 0..60_u32,
    ) {
        let left: f64 = (0..).zip(&weights).filter(|&(row, _)| row != out).map(|(_, weight)| weight).sum();
        prop_assume!(left > 0.0);
        for sampler in [Sampler::Systematic, Sampler::Multinomial] {
            let before = counted(sampler, &logs(&weights), k, seed, &[]);
            let after = counted(sampler, &logs(&weights), k, seed, &[out]);
            prop_assert_eq!(after.iter().sum::<u64>(), k as u64);
            for (row, (&after, &before)) in (0..).zip(after.iter().zip(&before)) {
                let kept = if row == out { after == 0 } else { after >= before };
                prop_assert!(kept, "{} before, {} after", before, after);
                // Each part is within one of its own expectation, and so is the number of draws made again.
                let expected = if row == out { 0.0 } else { k as f64 * weights[row as usize] / left };
                let near = (after as f64 - expected).abs() < 3.0 + 1e-6;
                prop_assert!(near || sampler == Sampler::Multinomial, "{} for {}", after, expected);
            }
        }
    }
}

#[test]
fn large_draws_do_not_depend_on_blocks_and_threads() {
    let log = |row: usize| -5.0 * uniform(3, Key::of_index(row), Purpose::Split);
    let logs: Vec<f64> = (0..40_000).map(log).collect();
    let keys = karl_core::Keys::of_indices(logs.len());
    for sampler in [Sampler::Systematic, Sampler::Multinomial] {
        let of = |threads| {
            let weighted = karl_core::Weighted::by_logs(&logs, &keys).unwrap();
            karl_core::Copies::new(weighted, sampler, 50_000, 7, threads).unwrap().drawn()
        };
        assert!(of(1) == of(2) && of(1) == of(5) && of(1).len() == 50_000, "{sampler:?}");
    }
}

const SEEDS: u64 = 20_000;

/// How often row 3 of 4 came 0, 1, 2, ... times among 5.
fn copies_of_the_last(sampler: Sampler, without: &[u32]) -> Vec<f64> {
    let mut counts = vec![0.0; 6];
    for seed in 0..SEEDS {
        let copies = counted(sampler, &logs(&[1.0, 2.0, 3.0, 4.0]), 5, seed, without)[3];
        counts[usize::try_from(copies).unwrap()] += 1.0;
    }
    counts
}

fn binomial(n: u32, p: f64) -> Vec<f64> {
    let choose = |k: u32| (0..k).map(|i| f64::from(n - i) / f64::from(i + 1)).product::<f64>();
    (0..=n).map(|k| choose(k) * p.powi(k.cast_signed()) * (1.0 - p).powi((n - k).cast_signed())).collect()
}

#[test]
fn multinomial_counts_are_binomial_and_systematic_ones_are_not() {
    let multinomial = copies_of_the_last(Sampler::Multinomial, &[]);
    assert_follows(&multinomial, &binomial(5, 0.4), "multinomial");
    assert_rejected(&multinomial, &binomial(5, 0.5), "another probability");
    let systematic = copies_of_the_last(Sampler::Systematic, &[]);
    assert_eq!(systematic, [0.0, 0.0, SEEDS as f64, 0.0, 0.0, 0.0], "5 * 0.4 is 2");
    assert_rejected(&systematic, &binomial(5, 0.4), "systematic as multinomial");
}

#[test]
fn without_a_row_the_law_is_that_of_the_others() {
    let multinomial = copies_of_the_last(Sampler::Multinomial, &[0, 2]);
    assert_follows(&multinomial, &binomial(5, 4.0 / 6.0), "multinomial without rows 0 and 2");
    // 5 * 4/6 is 3 and a third: four copies come a third of the time.
    let systematic = copies_of_the_last(Sampler::Systematic, &[0, 2]);
    assert_follows(&systematic[3..5], &[2.0 / 3.0, 1.0 / 3.0], "systematic without rows 0 and 2");
    assert!(naive::mean(&systematic[..3]) <= 0.0);
}

#[test]
fn nothing_is_drawn_where_nothing_has_weight() {
    for sampler in [Sampler::Systematic, Sampler::Multinomial] {
        assert_eq!(counted(sampler, &[f64::NEG_INFINITY; 3], 5, 7, &[]), [0; 3]);
        assert_eq!(counted(sampler, &[0.0; 2], 5, 7, &[0, 1]), [0; 2]);
    }
}

/// A change here is a breaking change: say so in the changelog.
#[test]
fn the_copies_of_seed_7_are_these() {
    let logs: Vec<f64> = (0..12).map(|row| f64::from(row * 7 % 12) / 4.0).collect();
    assert_eq!(counted(Sampler::Systematic, &logs, 20, 7, &[]), SYSTEMATIC);
    assert_eq!(counted(Sampler::Multinomial, &logs, 20, 7, &[]), MULTINOMIAL);
    assert_eq!(counted(Sampler::Multinomial, &logs, 20, 7, &[1, 11]), WITHOUT);
}

const SYSTEMATIC: [u64; 12] = [0, 2, 0, 3, 1, 5, 1, 0, 2, 1, 4, 1];
const MULTINOMIAL: [u64; 12] = [0, 0, 0, 3, 1, 4, 2, 0, 3, 1, 4, 2];
const WITHOUT: [u64; 12] = [0, 0, 0, 3, 2, 5, 2, 0, 3, 1, 4, 0];

/// Alpha: about 6e-7 a case, two-sided, at five standard deviations of a fair coin.
#[test]
fn systematic_draws_made_again_favour_no_row() {
    const SEEDS: u64 = 4_000;
    let (logs, keys) = ([0.0; 3], Keys::of_indices(3));
    for bad in 0..3_u32 {
        let mut counts = [0_i64; 3];
        for seed in 0..SEEDS {
            let rows = Weighted::by_logs(&logs, &keys).unwrap();
            let mut copies = Copies::new(rows, Sampler::Systematic, 1, seed, 1).unwrap();
            if copies.rows()[0].row == bad {
                copies.replace(&[bad]);
            }
            counts[copies.rows()[0].row as usize] += 1;
        }
        assert_eq!(counts[bad as usize], 0);
        let good: Vec<i64> = (0..3).filter(|&row| row != bad as usize).map(|row| counts[row]).collect();
        let deviation = (good[0] - good[1]).abs() as f64 / (SEEDS as f64).sqrt();
        assert!(deviation < 5.0, "{bad}: {counts:?}");
    }
}
