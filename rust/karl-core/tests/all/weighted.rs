//! Log-weights that a caller made: taken as they are, and the draw is still ours.

use karl_core::filter::tally;
use karl_core::logsumexp::log_sum_exp;
use karl_core::{
    Error, Groups, Keys, Population, Result, Rules, Sampler, Scopes, Score, Selection, SelectionSettings,
    Temperature, Verdict, select, select_weighted,
};

const REWARDS: [f64; 6] = [1.0, 0.0, 0.5, f64::NAN, 0.9, 0.2];
const GIVEN: [f64; 6] = [2.0, f64::NEG_INFINITY, -1.0, 0.0, f64::NAN, 700.0];

fn settings(rules: Rules) -> SelectionSettings {
    let temperature = Temperature::Inverse(3.0);
    SelectionSettings {
        shaping: None,
        score: Score::Raw,
        rules,
        temperature,
        sampler: Sampler::Gumbel,
        seed: 7,
        threads: 2,
    }
}

/// A selection with the log-weight of each row, and all rows in the order of the draw.
struct Found {
    selection: Selection,
    logs: Vec<f64>,
    rows: Vec<u32>,
}

fn found(
    rewards: &[f64],
    settings: &SelectionSettings,
    make: impl FnOnce(&Population) -> Result<Selection>,
) -> Result<Found> {
    let groups = Groups::from_ids(&vec![0; rewards.len()])?;
    let keys = Keys::of_indices(rewards.len());
    let scopes = Scopes::Whole;
    let population =
        Population { keys: &keys, rewards, groups: &groups, scopes, fingerprints: None, digests: None };
    let selection = make(&population)?;
    let weighted = selection.weighted(&population)?;
    let logs = (0..weighted.len()).map(|row| weighted.log(row)).collect();
    let rows = selection.ranking(&population, settings)?.take(usize::MAX);
    Ok(Found { selection, logs, rows })
}

fn weighted(rewards: &[f64], given: &[f64], rules: Rules) -> Result<Found> {
    let settings = settings(rules);
    found(rewards, &settings, |population| select_weighted(population, given, &settings))
}

#[test]
fn rows_without_a_weight_are_dropped_by_name() {
    let Found { selection, mut rows, .. } = weighted(&REWARDS, &GIVEN, Rules::default()).unwrap();
    assert_eq!(tally(&selection.verdicts, 1), [3, 1, 0, 2, 0, 0, 0, 0, 0]);
    let missing = (selection.verdicts[1], selection.verdicts[4]);
    assert_eq!(missing, (Verdict::MissingLogWeight, Verdict::MissingLogWeight));
    rows.sort_unstable();
    assert_eq!(rows, [0, 2, 5]);
}

#[test]
fn log_weights_are_those_given_less_their_log_sum() {
    let given = [0.5, -3.0, 1.25];
    let found = weighted(&[0.0; 3], &given, Rules::default()).unwrap();
    let log_z = log_sum_exp(&given, 1).unwrap();
    for (found, given) in found.logs.iter().zip(given) {
        assert!((found - (given - log_z)).abs() < 1e-15);
    }
    assert!((found.selection.target.log_z().next().unwrap() - log_z).abs() < 1e-15);
}

#[test]
fn the_weights_of_a_target_handed_back_draw_what_the_target_draws() {
    let settings = settings(Rules::default());
    let ours = found(&REWARDS, &settings, |population| select(population, &settings)).unwrap();
    let theirs = weighted(&REWARDS, &ours.logs, Rules::default()).unwrap();
    assert_eq!(theirs.rows, ours.rows);
    let [theirs, ours] = [theirs, ours].map(|found| found.selection.target.reached_ess);
    assert!((theirs - ours).abs() < 1e-9);
}

#[test]
fn rules_hold_for_rows_with_given_weights_too() {
    let rules = Rules { min_reward: Some(0.4), ..Rules::default() };
    let found = weighted(&[1.0, 0.2, 0.5], &[0.0; 3], rules).unwrap();
    assert_eq!(found.selection.verdicts[1], Verdict::BelowMinimum);
    assert!((found.logs[0] + std::f64::consts::LN_2).abs() < 1e-15);
}

#[test]
fn weights_of_another_length_or_without_bound_are_refused() {
    let refused = weighted(&[1.0, 0.5], &[0.0], Rules::default()).err().unwrap();
    assert_eq!(refused, Error::Length { what: "log_weights", got: 1, wanted: 2 });
    let refused = weighted(&[1.0, 0.5], &[0.0, f64::INFINITY], Rules::default()).err().unwrap();
    assert_eq!(refused, Error::NotFinite { what: "score", index: 1, value: f64::INFINITY });
}
