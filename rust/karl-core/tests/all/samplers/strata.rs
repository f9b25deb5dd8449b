//! A budget dealt over strata.

use karl_core::sample::strata::{Allocation, budgets};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_budget_is_dealt_whole_and_no_stratum_gets_more_than_it_has(
        rows in prop::collection::vec(prop_oneof![0..6_u64, 0..10_000_u64], 0..30),
        count in 0..20_000_u64,
    ) {
        for deal in Allocation::ALL {
            let budgets = budgets(&rows, count, deal);
            prop_assert_eq!(budgets.iter().sum::<u64>(), count.min(rows.iter().sum()));
            prop_assert!(budgets.iter().zip(&rows).all(|(budget, rows)| budget <= rows));
        }
    }

    #[test]
    fn a_larger_stratum_never_gets_less(rows in prop::collection::vec(0..500_u64, 1..20), count in 0..3_000_u64) {
        let mut rows = rows;
        rows.sort_unstable_by(|a, b| b.cmp(a));
        for deal in Allocation::ALL {
            prop_assert!(budgets(&rows, count, deal).is_sorted_by(|a, b| a >= b), "{:?}", deal);
        }
    }

    #[test]
    fn equal_strata_with_room_differ_by_one_at_most(strata in 1..30_usize, count in 0..3_000_u64) {
        for deal in Allocation::ALL {
            let budgets = budgets(&vec![3_000; strata], count, deal);
            prop_assert!(budgets.iter().max().unwrap() - budgets.iter().min().unwrap() <= 1);
        }
    }
}

#[test]
fn the_deals_differ() {
    let rows = [900, 90, 10];
    assert_eq!(budgets(&rows, 100, Allocation::Equal), [45, 45, 10]);
    assert_eq!(budgets(&rows, 100, Allocation::Proportional), [90, 9, 1]);
    assert_eq!(budgets(&rows, 100, Allocation::Sqrt), [70, 22, 8]);
    for deal in Allocation::ALL {
        assert_eq!(Allocation::by_name(deal.name()), Some(deal));
    }
}

#[test]
fn remainders_go_to_the_largest_and_ties_to_the_first() {
    assert_eq!(budgets(&[10, 10, 10], 4, Allocation::Equal), [2, 1, 1]);
    assert_eq!(budgets(&[5, 3, 2], 5, Allocation::Proportional), [3, 1, 1]);
    assert_eq!(budgets(&[6, 2], 2, Allocation::Proportional), [2, 0]);
}
