//! The Boltzmann target and its temperature.

use karl_core::numeric::sum::sum;
use karl_core::target::{Note, temper};
use karl_core::{Rows, Target, Temperature, boltzmann};
use proptest::prelude::*;

use super::{CLOSE, all_close, bits, close, config, log};
use crate::naive;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_target_equals_its_twin((scores, scopes) in log(), b in 0.0..3.0) {
        let target = boltzmann(&scores, &naive::groups(&scopes), Temperature::Inverse(b), 2).unwrap();
        let weights: Vec<f64> = target.log_weights.iter().map(|&log| libm::exp(log)).collect();
        let expected = naive::boltzmann(&scores, &scopes, b);
        prop_assert!(all_close(&weights, &expected));
        let kept = expected.iter().filter(|&&weight| weight > 0.0).count();
        if kept > 0 {
            prop_assert!(close(target.reached_ess, naive::ess(&expected)));
            prop_assert!(close(target.reached_share, target.reached_ess / kept as f64));
        }
    }

    #[test]
    fn each_scope_has_weight_one((scores, scopes) in log(), b in 0.0..1e6) {
        let groups = naive::groups(&scopes);
        let target = boltzmann(&scores, &groups, Temperature::Inverse(b), 2).unwrap();
        for (scope, &log_z) in target.log_z.iter().enumerate() {
            let members = (0..scores.len()).filter(|&row| groups.code(row) == Some(scope));
            let total = sum(members.map(|row| libm::exp(target.log_weights[row])));
            let expected = if log_z > f64::NEG_INFINITY { 1.0 } else { 0.0 };
            prop_assert!(close(total, expected));
        }
    }

    #[test]
    fn a_share_is_reached_or_the_note_says_why((scores, scopes) in log(), wanted in 0.01..1.0) {
        let groups = naive::groups(&scopes);
        let target = boltzmann(&scores, &groups, Temperature::Ess(wanted), 2).unwrap();
        let at = |b| boltzmann(&scores, &groups, Temperature::Inverse(b), 2).unwrap();
        prop_assert!(explained(&target, wanted, cap(&scores, &scopes), at), "{target:?}");
    }

    #[test]
    fn the_target_does_not_depend_on_the_order_of_rows((scores, scopes) in log(), wanted in 0.01..1.0) {
        let forward = boltzmann(&scores, &naive::groups(&scopes), Temperature::Ess(wanted), 2).unwrap();
        let (scores, scopes): (Vec<f64>, Vec<Option<u8>>) = scores.into_iter().zip(scopes).rev().unzip();
        let mut backward = boltzmann(&scores, &naive::groups(&scopes), Temperature::Ess(wanted), 2).unwrap();
        backward.log_weights.reverse();
        prop_assert_eq!(bits(&forward.log_weights), bits(&backward.log_weights));
        prop_assert_eq!(bits(&forward.log_z), bits(&backward.log_z));
    }

    #[test]
    fn a_larger_inverse_temperature_never_raises_the_ess((scores, scopes) in log(), a in 0.0..50.0, b in 0.0..50.0) {
        let groups = naive::groups(&scopes);
        let rows = temper(Rows::all(&scores, &groups), &scores, &[f64::min(a, b), f64::max(a, b)], 2).unwrap();
        prop_assert!(rows[1].ess <= rows[0].ess * (1.0 + CLOSE));
        prop_assert!(rows[1].top_share >= rows[0].top_share * (1.0 - CLOSE));
    }

    #[test]
    fn the_table_equals_the_twin((scores, scopes) in log(), b in 0.0..3.0) {
        let rewards: Vec<f64> = scores.iter().map(|score| score * score - 1.0).collect();
        let row = temper(Rows::all(&scores, &naive::groups(&scopes)), &rewards, &[b], 2).unwrap()[0];
        let weights = naive::boltzmann(&scores, &scopes, b);
        let total: f64 = weights.iter().sum();
        let kept = (0..scores.len()).filter(|&row| weights[row] > 0.0);
        let expected: f64 = kept.map(|row| weights[row] / total * rewards[row]).sum();
        if total > 0.0 {
            prop_assert!(close(row.expected_reward, expected));
            prop_assert!(close(row.top_share, weights.iter().fold(0.0, |top, &w| f64::max(top, w)) / total));
            prop_assert!(close(row.ess, naive::ess(&weights)));
        } else {
            prop_assert!(row.expected_reward.is_nan() && row.top_share <= 0.0 && row.ess <= 0.0);
        }
    }
}

/// The largest inverse temperature that is tried.
fn cap(scores: &[f64], partition: &[Option<u8>]) -> f64 {
    let kept =
        || scores.iter().zip(partition).filter(|(s, scope)| !s.is_nan() && scope.is_some()).map(|(&s, _)| s);
    1e4 / (kept().fold(f64::NEG_INFINITY, f64::max) - kept().fold(f64::INFINITY, f64::min))
}

/// Whether the share is the wanted one and no smaller b would do, or the note is true.
fn explained(target: &Target, wanted: f64, cap: f64, at: impl Fn(f64) -> Target) -> bool {
    let (b, share) = (target.inverse_temperature, target.reached_share);
    match target.note {
        None => (share - wanted).abs() < 1e-6 && (b <= 0.0 || at(b * 0.999).reached_share > wanted),
        Some(Note::NoRows) => b <= 0.0 && target.log_weights.iter().all(|&log| log == f64::NEG_INFINITY),
        Some(Note::EqualScores) => b <= 0.0 && close(at(1e3).reached_share, share),
        Some(Note::UnevenScopes) => b <= 0.0 && share < wanted,
        Some(Note::TiesAtTop) => share > wanted && at(cap).reached_share > share * (1.0 - 2e-6),
    }
}
