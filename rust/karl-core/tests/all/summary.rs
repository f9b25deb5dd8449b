//! Summaries, composites and the order of writing, by hand.
#![allow(clippy::float_cmp, reason = "where a test says equal, it means every bit")]

use karl_core::numeric::sum::sum;
use karl_core::output_order::write_order;
use karl_core::reward::{composite, composite_shared};
use karl_core::rng::uniform;
use karl_core::{Key, Keys, Purpose, Summary};

fn of(values: &[f64], low: f64, high: f64) -> Summary {
    Summary::of(values.len(), 1, |at| values[at], Some((low, high))).unwrap()
}

#[test]
fn a_summary_has_the_numbers_of_the_present_values() {
    let summary = of(&[1.0, 0.0, f64::NAN, 0.5, 0.5], 0.0, 1.0);
    assert_eq!((summary.count, summary.mean, summary.min, summary.max), (4, 0.5, 0.0, 1.0));
    assert!((summary.std - 0.125f64.sqrt()).abs() < 1e-15);
}

#[test]
fn a_range_that_is_not_given_is_that_of_what_is_there() {
    let values = [f64::NAN, 0.5, -1.0, f64::NAN, 2.0];
    let range = |rows| Summary::of(rows, 1, |at| values[at], None).unwrap().range();
    assert_eq!((range(5), range(1), range(0)), ((-1.0, 2.0), (0.0, 0.0), (0.0, 0.0)));
}

#[test]
fn a_bin_holds_its_lower_edge_and_the_last_bin_both() {
    let edges = of(&[], 0.0, 1.0).histogram.edges;
    assert_eq!((edges.len(), edges[0], edges[20]), (21, 0.0, 1.0));
    let histogram = of(&edges, 0.0, 1.0).histogram;
    let mut wanted = vec![1; 20];
    wanted[19] = 2;
    assert_eq!(histogram.counts, wanted);
}

#[test]
fn values_outside_the_range_are_counted_but_in_no_bin() {
    let summary = of(&[-1.0, 0.5, 2.0], 0.0, 1.0);
    assert_eq!((summary.count, summary.histogram.counts.iter().sum::<u64>()), (3, 1));
}

#[test]
fn a_range_of_one_point_fills_the_last_bin() {
    let counts = of(&[0.7; 3], 0.7, 0.7).histogram.counts;
    assert_eq!((counts[19], counts.iter().sum::<u64>()), (3, 3));
}

#[test]
fn a_summary_of_nothing_says_so() {
    let summary = of(&[f64::NAN], 0.0, 1.0);
    assert_eq!(summary.count, 0);
    assert!([summary.mean, summary.std, summary.min, summary.max].iter().all(|value| value.is_nan()));
}

#[test]
fn a_summary_has_the_same_bits_for_any_number_of_threads() {
    let value = |at: usize| if at.is_multiple_of(7) { f64::NAN } else { (at as f64).sin() * 1e6 };
    let of = |threads| Summary::of(100_000, threads, value, None).unwrap();
    let alone = of(1);
    for threads in [2, 3, 8] {
        assert_eq!(of(threads), alone);
    }
    let values: Vec<f64> = (0..100_000).map(value).filter(|value| !value.is_nan()).collect();
    let mean = sum(values.iter().copied()) / values.len() as f64;
    assert!((alone.mean - mean).abs() <= 1e-15 * mean.abs() && alone.count == values.len() as u64);
    let squares = sum(values.iter().map(|value| (value - mean) * (value - mean)));
    assert!((alone.std - (squares / values.len() as f64).sqrt()).abs() <= 1e-9);
}

#[test]
fn a_sum_beyond_the_largest_reward_is_missing() {
    assert_eq!(composite(&[&[1e100, -1e100]], &[1.0]).unwrap(), [1e100, -1e100]);
    let rewards = composite(&[&[1e99, -1e60, 1e300, 1.0]], &[100.0]).unwrap();
    assert!(rewards[0].is_nan() && rewards[2].is_nan());
    assert_eq!((rewards[1], rewards[3]), (-1e60 * 100.0, 100.0));
    assert!(composite(&[&[1e60]], &[1e300]).unwrap()[0].is_nan());
    assert!(karl_core::reward::composite_of(&[1e60], &[1e60], &[]).is_nan());
}

#[test]
fn a_missing_component_makes_the_reward_missing_even_at_weight_zero() {
    let rewards = composite(&[&[1.0, 1.0], &[f64::NAN, 2.0]], &[1.0, 0.0]).unwrap();
    assert!(rewards[0].is_nan());
    assert_eq!(rewards[1], 1.0);
}

#[test]
fn a_sum_keeps_what_a_plain_sum_loses() {
    let terms = [1.0, 1e100, 1.0, -1e100];
    assert_eq!(sum(terms.into_iter()), 2.0);
    assert_eq!(terms.iter().sum::<f64>(), 0.0);
}

fn keys() -> Keys {
    Keys::of_indices(1_000)
}

#[test]
fn rows_are_written_in_the_order_of_their_second_number() {
    let rows: Vec<u32> = (0..1_000).step_by(3).collect();
    let written = write_order(&rows, &keys(), 7).unwrap();
    let number = |&row: &u32| uniform(7, Key::of_index(row as usize), Purpose::Order);
    assert!(written.is_sorted_by_key(number));
    let mut sorted = written.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, rows, "the same rows");
    let backward: Vec<u32> = rows.iter().rev().copied().collect();
    assert_eq!(write_order(&backward, &keys(), 7).unwrap(), written, "whatever order they come in");
    assert_ne!(write_order(&rows, &keys(), 8).unwrap(), written);
}

#[test]
fn a_shared_weight_goes_to_the_components_that_are_known() {
    const NAN: f64 = f64::NAN;
    let (tests, survived, cost) = ([1.0, 1.0, NAN, NAN], [0.5, NAN, 0.5, NAN], [2.0, 2.0, 2.0, 2.0]);
    let weights = [0.25, 0.75, -0.5];
    let found = composite_shared(&[&tests, &survived, &cost], &weights, &[true, true, false]).unwrap();
    assert_eq!(&found[..3], [0.25 + 0.375 - 1.0, 1.0 - 1.0, 0.5 - 1.0]);
    assert!(found[3].is_nan());
    // A component that is not shared makes the reward missing.
    let found = composite_shared(&[&tests, &survived, &[NAN; 4]], &weights, &[true, true, false]).unwrap();
    assert!(found.iter().all(|reward| reward.is_nan()));
    assert!(composite_shared(&[&tests], &[1.0], &[]).is_err());
}
