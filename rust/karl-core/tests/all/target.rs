//! The target by hand: known temperatures, and each degenerate case by its name.
#![allow(clippy::float_cmp, reason = "where a test says equal, it means every bit")]

use karl_core::target::{Note, temper};
use karl_core::{Groups, Rows, Scopes, Target, Temperature, boltzmann};

fn whole(scores: &[f64], temperature: Temperature) -> Target {
    boltzmann(scores, Scopes::Whole, temperature, 2).unwrap()
}

fn zero(value: f64) -> bool {
    value.abs() <= 0.0
}

#[test]
fn two_rows_have_a_closed_form() {
    // With p and 1 - p: ess = 1 / (p^2 + (1 - p)^2). A share of 0.8 is 1.6 rows: p = (1 + 1/2) / 2 = 3/4, so b = ln 3.
    let target = whole(&[0.0, 1.0], Temperature::Ess(0.8));
    assert!((target.inverse_temperature - libm::log(3.0)).abs() < 1e-12);
    assert!((target.reached_ess - 1.6).abs() < 1e-12 && (target.reached_share - 0.8).abs() < 1e-12);
    assert!((target.log_weights[0] - libm::log(0.25)).abs() < 1e-12);
    assert!((target.log_z[0] - libm::log(4.0)).abs() < 1e-12);
    assert_eq!((target.note, target.wanted_ess), (None, Some(0.8)));
}

#[test]
fn inverse_temperature_zero_is_uniform_within_each_scope() {
    let partition = Groups::from_codes(vec![0, 0, 1, Groups::NONE, 0], 3).unwrap();
    let scores = [5.0, f64::NAN, 2.0, 9.0, -5.0];
    let target = boltzmann(&scores, &partition, Temperature::Inverse(0.0), 2).unwrap();
    let (half, gone) = (-libm::log(2.0), f64::NEG_INFINITY);
    assert_eq!(target.log_weights, [half, gone, 0.0, gone, half]);
    assert_eq!(target.log_z, [libm::log(2.0), 0.0, gone]);
    // Weights 1/2, 1/2 and 1 of a total of 2: (1 + 1)^2 / (1/4 + 1/4 + 1).
    assert!((target.reached_ess - 4.0 / 1.5).abs() < 1e-12);
    assert_eq!((target.note, target.wanted_ess), (None, None));
}

#[test]
fn a_row_alone_is_a_scope_of_one() {
    let named = Groups::from_codes(vec![0, 1, 0, 2, 0], 3).unwrap();
    let alone = Groups::from_codes(vec![0, Groups::NONE, 0, Groups::NONE, 0], 1).unwrap();
    let scores = [5.0, 0.5, 2.0, 9.0, 4.5];
    let table = |scopes| temper(Rows::all(&scores, scopes), &scores, &[0.0, 0.5, 3.0], 2).unwrap();
    let (found, wanted) = (table(Scopes::OfOrAlone(&alone)), table(Scopes::Of(&named)));
    assert_eq!(found, wanted);
    assert!(
        found.iter().all(|row| (row.top_share - 1.0 / 3.0).abs() < 1e-15),
        "the row alone is the likeliest"
    );
}

#[test]
fn a_share_of_one_is_uniform_without_a_note() {
    let target = whole(&[0.0, 1.0, 0.3], Temperature::Ess(1.0));
    assert!(zero(target.inverse_temperature) && zero(target.reached_share - 1.0));
    assert_eq!(target.note, None);
}

#[test]
fn equal_scores_are_named() {
    let target = whole(&[0.7, 0.7, f64::NAN], Temperature::Ess(0.5));
    assert!(zero(target.inverse_temperature) && zero(target.reached_share - 1.0));
    assert_eq!(target.note, Some(Note::EqualScores));
}

#[test]
fn ties_at_the_top_are_named_and_the_nearest_share_is_taken() {
    let target = whole(&[1.0, 1.0, 1.0, 0.0], Temperature::Ess(0.5));
    assert_eq!(target.note, Some(Note::TiesAtTop));
    assert!(target.reached_ess >= 3.0 && target.reached_ess <= 3.0 * (1.0 + 2e-6), "{target:?}");
    assert!(target.inverse_temperature < 20.0, "the smallest that is near, not the cap");
}

#[test]
fn the_share_that_ties_at_the_top_leave_is_reached() {
    let target = whole(&[1.0, 1.0, 1.0, 0.0], Temperature::Ess(0.75));
    assert!(target.reached_share <= 0.75, "{target:?}");
    assert_eq!(target.note, None);
}

#[test]
fn uneven_scopes_are_named() {
    let partition = Groups::from_codes(vec![0, 1, 1, 1, 1, 1, 1, 1, 1, 1], 2).unwrap();
    let scores: Vec<f64> = (0..10).map(f64::from).collect();
    let target = boltzmann(&scores, &partition, Temperature::Ess(0.9), 2).unwrap();
    // 2^2 / (1 + 1/9) rows at inverse temperature 0, of 10.
    assert!(zero(target.inverse_temperature) && (target.reached_share - 0.36).abs() < 1e-12);
    assert_eq!(target.note, Some(Note::UnevenScopes));
}

#[test]
fn a_partition_without_rows_is_named() {
    for scores in [&[][..], &[f64::NAN, f64::NAN]] {
        for temperature in [Temperature::Ess(0.5), Temperature::Inverse(2.0)] {
            let target = whole(scores, temperature);
            assert_eq!(target.note, Some(Note::NoRows));
            assert!(zero(target.reached_ess) && zero(target.reached_share));
            assert!(target.log_weights.iter().chain(&target.log_z).all(|&log| log == f64::NEG_INFINITY));
        }
    }
}

#[test]
fn a_reached_share_leads_back_to_its_temperature() {
    let scores = [0.3, 0.4, 0.4, 0.5, 0.6, 0.6, 0.7, 0.8, 0.8];
    for inverse_temperature in [0.5, 5.0, 15.0] {
        let there = whole(&scores, Temperature::Inverse(inverse_temperature));
        let back = whole(&scores, Temperature::Ess(there.reached_share));
        assert!((back.inverse_temperature - inverse_temperature).abs() < 1e-9);
    }
}

#[test]
fn zero_and_minus_zero_are_one_level() {
    let target = whole(&[0.0, -0.0, 0.0], Temperature::Ess(0.5));
    assert_eq!(target.note, Some(Note::EqualScores));
}

#[test]
fn extreme_temperatures_put_all_weight_on_the_top() {
    let target = whole(&[0.1, 0.9, 0.9], Temperature::Inverse(1e300));
    assert!(zero(target.reached_ess - 2.0));
    assert_eq!(target.log_weights[1], -libm::log(2.0));
    assert!(target.log_weights[0] < -1e290, "far below, and still a number");
}

#[test]
fn the_table_has_one_row_a_temperature() {
    let scores = [0.0, 1.0, f64::NAN];
    let rows =
        temper(Rows::all(&scores, Scopes::Whole), &[10.0, 20.0, 99.0], &[0.0, libm::log(3.0)], 2).unwrap();
    let by_hand = [(2.0, 1.0, 0.5, 15.0), (1.6, 0.8, 0.75, 17.5)];
    for (row, (ess, share, top, reward)) in rows.iter().zip(by_hand) {
        for (got, wanted) in
            [(row.ess, ess), (row.share, share), (row.top_share, top), (row.expected_reward, reward)]
        {
            assert!((got - wanted).abs() < 1e-12, "{row:?}");
        }
    }
}
