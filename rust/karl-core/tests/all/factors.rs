//! Factors on the weights beside those of the score.

use karl_core::replay::{Decay, recency};
use karl_core::{Error, Groups, Population, Sampler, Scopes, Selection, SelectionSettings, select};

use crate::selection::{IDS, REWARDS, keys, settings, whole};

/// Factors of the eight rows.
const FACTORS: [f64; 8] = [-0.5, 0.0, -3.0, -1.0, -0.2, -0.1, -2.0, -40.0];

fn weights(logs: &[f64]) -> Vec<f64> {
    let sum: f64 = logs.iter().map(|&log| libm::exp(log)).sum();
    logs.iter().map(|&log| libm::exp(log) / sum).collect()
}

#[test]
fn factors_multiply_the_weights_of_every_scope_and_keep_the_temperature_of_the_scores() {
    let (groups, keys) = (Groups::from_ids(&IDS).unwrap(), keys(8));
    for (scopes, sampler) in [
        (Scopes::Whole, Sampler::Gumbel),
        (Scopes::Of(&groups), Sampler::Systematic),
        (Scopes::Whole, Sampler::WeightedReservoir),
    ] {
        let digests = [9, 8, 7, 6, 5, 4, 3, 2];
        let population = Population {
            keys: &keys,
            rewards: &REWARDS,
            groups: &groups,
            scopes,
            fingerprints: None,
            digests: Some(&digests),
        };
        let settings = SelectionSettings { sampler, ..settings() };
        let plain = select(&population, &settings).unwrap();
        let aged = plain.clone().times(&population, FACTORS.to_vec(), &settings).unwrap();
        let of = |selection: &Selection| -> Vec<f64> {
            let weighted = selection.weighted(&population).unwrap();
            (0..8).map(|row| weighted.log(row)).collect()
        };
        let (before, after) = (of(&plain), of(&aged));
        for group in [1, 2, 3] {
            let own = |row: &usize| IDS[*row] == group || matches!(scopes, Scopes::Whole);
            let rows: Vec<usize> = (0..8).filter(own).filter(|&row| !REWARDS[row].is_nan()).collect();
            let product: Vec<f64> = rows.iter().map(|&row| before[row] + FACTORS[row]).collect();
            let found: Vec<f64> = rows.iter().map(|&row| after[row]).collect();
            for (found, wanted) in found.iter().zip(weights(&product)) {
                assert!((libm::exp(*found) - wanted).abs() < 1e-12, "{sampler:?}");
            }
        }
        assert_eq!(aged.tempered(), &plain.target);
        assert_eq!(aged.scores, None); // the reward as it is
        assert!((aged.target.reached_ess - plain.target.reached_ess).abs() > 1e-3);
        let b = plain.target.inverse_temperature;
        let ladder = aged.temper(&population, &[0.0, b], 2).unwrap();
        assert!((ladder[1].ess - aged.target.reached_ess).abs() < 1e-9, "{sampler:?}");
        assert!((ladder[1].inverse_temperature - b).abs() < f64::EPSILON);
        assert!((ladder[0].ess - ladder[1].ess).abs() > 1e-3, "{sampler:?}");
    }
}

#[test]
fn a_factor_that_is_no_finite_number_is_refused() {
    let (groups, keys) = (whole(8), keys(8));
    let population = Population {
        keys: &keys,
        rewards: &REWARDS,
        groups: &groups,
        scopes: Scopes::Whole,
        fingerprints: None,
        digests: None,
    };
    let of = |factors: Vec<f64>| {
        select(&population, &settings()).unwrap().times(&population, factors, &settings()).unwrap_err()
    };
    assert!(matches!(of(vec![0.0; 7]), Error::Length { what: "log_factors", .. }));
    for wrong in [f64::NAN, f64::NEG_INFINITY] {
        assert!(matches!(of(vec![wrong; 8]), Error::NotFinite { what: "log_factors", index: 0, .. }));
    }
}

#[test]
fn recency_is_exponential_decay_over_ages_of_any_number() {
    let times = [3.0, 10.0, 7.0, -4.0, 10.0];
    let ages = [7, 0, 3, 14, 0];
    let decay = Decay::Exponential(std::f64::consts::LN_2 / 7.0).log_weights(&ages, 1).unwrap();
    assert_eq!(recency(&times, 7.0, 2).unwrap(), decay);
    let halves: Vec<f64> = decay.iter().map(|&log| libm::exp(log)).collect();
    assert!((halves[0] - 0.5).abs() < 1e-15 && (halves[3] - 0.25).abs() < 1e-15, "{halves:?}");
    assert!(recency(&[], 7.0, 2).unwrap().is_empty());
    assert!(matches!(recency(&times, 0.0, 1), Err(Error::Positive { what: "half_life", .. })));
    assert!(matches!(recency(&[f64::NAN], 1.0, 1), Err(Error::NotFinite { what: "times", .. })));
}
