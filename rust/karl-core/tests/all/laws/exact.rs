//! Sums without order.

use karl_core::logsumexp::log_sum_exp;
use karl_core::numeric::exact::{LogSum, Share};
use karl_core::{Groups, Rows, Scopes, Temperature, boltzmann};
use proptest::prelude::*;

use super::{close, config};

fn log_sum(values: &[f64]) -> LogSum {
    let mut sum = LogSum::default();
    for &value in values {
        sum.push(value);
    }
    sum
}

fn exponent() -> impl Strategy<Value = f64> {
    prop_oneof![-30.0..30.0, -1e4..1e4, Just(f64::NEG_INFINITY), Just(0.0), -1e-300..1e-300]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_log_sum_equals_its_twin_and_has_one_value_for_every_order_and_cut(
        values in prop::collection::vec(exponent(), 1..60),
        cut in 0..60_usize,
    ) {
        let whole = log_sum(&values);
        prop_assert!(close(whole.value(), log_sum_exp(&values, 2).unwrap()));
        let mut backward = values.clone();
        backward.reverse();
        prop_assert_eq!(log_sum(&backward).value().to_bits(), whole.value().to_bits());
        let (left, right) = values.split_at(cut.min(values.len()));
        let mut merged = log_sum(right);
        merged.merge(&log_sum(left));
        prop_assert_eq!(merged.value().to_bits(), whole.value().to_bits());
    }

    #[test]
    fn a_share_loses_less_than_a_rounding_and_counts_as_it_adds(
        terms in prop::collection::vec(prop_oneof![0.0..=1.0, Just(1.0), 0.0..1e-25], 0..60),
        count in 0..100_u32,
    ) {
        let mut sum = Share::default();
        for &term in &terms {
            sum.add(Share::of(term));
        }
        let plain: f64 = terms.iter().sum();
        prop_assert!((sum.value() - plain).abs() <= 1e-14 * plain.max(1e-13));
        let mut added = Share::default();
        (0..count).for_each(|_| added.add(Share::of(0.3)));
        prop_assert_eq!(added, Share::of(0.3).times(count));
    }

    #[test]
    fn many_distinct_scores_and_few_have_the_same_bits(
        seeds in prop::collection::vec(0..40_u32, 1..200),
        b in 0.0..20.0,
    ) {
        // Levels serve a wanted ESS and rows a given temperature: the target at the temperature found is one.
        let scores: Vec<f64> = seeds.iter().map(|&seed| f64::from(seed) / 40.0).collect();
        let found = boltzmann(&scores, Scopes::Whole, Temperature::Ess(0.3), 2).unwrap();
        let given = boltzmann(&scores, Scopes::Whole, Temperature::Inverse(found.inverse_temperature), 1).unwrap();
        prop_assert_eq!((found.log_z, found.reached_ess.to_bits()), (given.log_z, given.reached_ess.to_bits()));
        let table = |rows| karl_core::target::temper(rows, &scores, &[b], 1).unwrap()[0].ess.to_bits();
        let one = Groups::from_codes(vec![0; scores.len()], 1).unwrap();
        prop_assert_eq!(table(Rows::all(&scores, Scopes::Whole)), table(Rows::all(&scores, &one)));
    }
}

#[test]
fn a_log_sum_takes_any_exponent() {
    assert!(log_sum(&[]).value() == f64::NEG_INFINITY);
    assert!(close(log_sum(&[1e6, 1e6]).value(), 1e6 + libm::log(2.0)));
    assert!(close(log_sum(&[-1e300]).value(), -1e15), "beyond 1e15 in size it is that");
    assert!(close(log_sum(&[1e15, 0.0, -1e15]).value(), 1e15));
    // A million terms far below the top, which a float sum at the top would lose one by one.
    let mut values = vec![0.0];
    values.extend(vec![-40.0; 1_000_000]);
    assert!((log_sum(&values).value() - libm::log1p(1e6 * libm::exp(-40.0))).abs() < 2e-14);
}
