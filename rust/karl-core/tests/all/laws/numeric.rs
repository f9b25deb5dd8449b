//! Log-sum-exp and effective sample size.

use karl_core::logsumexp::{ess, log_mean_exp, log_sum_exp};
use karl_core::sketch::LogSumExp;
use proptest::prelude::*;

use super::{CLOSE, close, config};
use crate::naive;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn log_sum_exp_equals_its_twin_and_merges(values in prop::collection::vec(-30.0..30.0, 1..40), cut in 0..40_usize) {
        let direct = log_sum_exp(&values, 2).unwrap();
        prop_assert!(close(direct, naive::log_sum_exp(&values)));
        prop_assert!(close(log_mean_exp(&values, 2).unwrap(), direct - libm::log(values.len() as f64)));
        let (left, right) = values.split_at(cut.min(values.len()));
        let state = |part: &[f64]| {
            let mut state = LogSumExp::default();
            state.update(part, 2).unwrap();
            state
        };
        let whole = state(&values);
        prop_assert!(close(whole.log_sum_exp(), direct));
        for (one, other) in [(left, right), (right, left)] {
            let mut merged = state(one);
            merged.merge(&state(other)).unwrap();
            prop_assert_eq!(&merged, &whole);
        }
    }

    #[test]
    fn log_sum_exp_moves_with_a_constant(values in prop::collection::vec(-30.0..30.0, 1..40), shift in -1e6..1e6) {
        let shifted: Vec<f64> = values.iter().map(|value| value + shift).collect();
        prop_assert!(close(log_sum_exp(&shifted, 2).unwrap(), log_sum_exp(&values, 2).unwrap() + shift));
    }

    #[test]
    fn ess_equals_its_twin_and_stays_in_bounds(logs in prop::collection::vec(-20.0..20.0, 1..40)) {
        let weights: Vec<f64> = logs.iter().map(|&log| libm::exp(log)).collect();
        let ess = ess(&logs, 2).unwrap();
        prop_assert!(close(ess, naive::ess(&weights)));
        prop_assert!((1.0 - CLOSE..=logs.len() as f64 + CLOSE).contains(&ess));
    }
}
