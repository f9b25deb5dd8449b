//! Log-weights that a caller made: taken as they are, and the draw is still ours.
#![allow(clippy::unwrap_used, reason = "a helper that fails, fails its test")]

use karl_core::filter::tally;
use karl_core::numeric::log_sum_exp;
use karl_core::{
    Error, Groups, Key, Population, Rules, Sampler, Score, Selection, Settings, Temperature, Verdict, select,
    select_weighted,
};

const REWARDS: [f64; 6] = [1.0, 0.0, 0.5, f64::NAN, 0.9, 0.2];
const GIVEN: [f64; 6] = [2.0, f64::NEG_INFINITY, -1.0, 0.0, f64::NAN, 700.0];

fn with<T>(rewards: &[f64], then: impl FnOnce(&Population) -> T) -> T {
    let keys: Vec<Key> = (0..rewards.len()).map(Key::of_index).collect();
    let groups = Groups::from_ids(&vec![0; rewards.len()]).unwrap();
    then(&Population { keys: &keys, rewards, groups: &groups, scopes: &groups, fingerprints: None })
}

fn weighted(rewards: &[f64], given: &[f64], rules: Rules) -> karl_core::Result<Selection> {
    with(rewards, |population| select_weighted(population, given, rules, Sampler::Gumbel, 7))
}

#[test]
fn rows_without_a_weight_are_dropped_by_name() {
    let found = weighted(&REWARDS, &GIVEN, Rules::default()).unwrap();
    assert_eq!(tally(&found.verdicts), [3, 1, 0, 2, 0, 0, 0]);
    assert_eq!(
        (found.verdicts[1], found.verdicts[4]),
        (Verdict::MissingLogWeight, Verdict::MissingLogWeight)
    );
    let mut rows = found.ranking.clone().take(usize::MAX);
    rows.sort_unstable();
    assert_eq!(rows, [0, 2, 5]);
}

#[test]
fn log_weights_are_those_given_less_their_log_sum() {
    let found = weighted(&[0.0; 3], &[0.5, -3.0, 1.25], Rules::default()).unwrap();
    let log_z = log_sum_exp(&[0.5, -3.0, 1.25]).unwrap();
    for (found, given) in found.target.log_weights.iter().zip([0.5, -3.0, 1.25]) {
        assert!((found - (given - log_z)).abs() < 1e-15);
    }
    assert!((found.target.log_z[0] - log_z).abs() < 1e-15);
}

#[test]
fn the_weights_of_a_target_handed_back_draw_what_the_target_draws() {
    let settings = Settings {
        score: Score::Raw,
        rules: Rules::default(),
        temperature: Temperature::Inverse(3.0),
        sampler: Sampler::Gumbel,
        seed: 7,
    };
    let mut ours = with(&REWARDS, |population| select(population, &settings)).unwrap();
    let mut theirs = weighted(&REWARDS, &ours.target.log_weights, Rules::default()).unwrap();
    assert_eq!(theirs.ranking.take(usize::MAX), ours.ranking.take(usize::MAX));
    assert!((theirs.target.reached_ess - ours.target.reached_ess).abs() < 1e-9);
}

#[test]
fn rules_hold_for_rows_with_given_weights_too() {
    let rules = Rules { min_reward: Some(0.4), ..Rules::default() };
    let found = weighted(&[1.0, 0.2, 0.5], &[0.0; 3], rules).unwrap();
    assert_eq!(found.verdicts[1], Verdict::BelowMinimum);
    assert!((found.target.log_weights[0] + std::f64::consts::LN_2).abs() < 1e-15);
}

#[test]
fn weights_of_another_length_or_without_bound_are_refused() {
    let refused = weighted(&[1.0, 0.5], &[0.0], Rules::default()).unwrap_err();
    assert_eq!(refused, Error::Length { what: "log_weights", got: 1, wanted: 2 });
    let refused = weighted(&[1.0, 0.5], &[0.0, f64::INFINITY], Rules::default()).unwrap_err();
    assert_eq!(refused, Error::NotFinite { what: "score", index: 1, value: f64::INFINITY });
}
