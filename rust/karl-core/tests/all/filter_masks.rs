//! The masks do not depend on the number of threads, and their codes have one name each.
#![allow(clippy::cast_possible_truncation, reason = "the numbers of a test are small")]

use karl_core::filter::tokens::{RatioTokens, low_ratio_negatives, probability_difference};
use karl_core::filter::variance::{TopGroups, top};
use karl_core::filter::{MaskReason, counts, groups, rollouts};
use karl_core::{Groups, Key, Offsets, Purpose, rng};

const ROWS: usize = 40_000; // 5000 rollouts of 8

fn uniforms(seed: u64, count: usize) -> Vec<f64> {
    (0..count).map(|row| rng::uniform(seed, Key::of_index(row), Purpose::Draw)).collect()
}

#[test]
fn masks_are_the_same_for_any_number_of_threads() {
    let rewards: Vec<f64> = uniforms(1, ROWS).iter().map(|u| (u * 3.0).floor()).collect();
    let ids: Vec<i64> = uniforms(2, ROWS).iter().map(|u| (u * 9000.0) as i64 - 5).collect();
    let (ids, right) =
        (Groups::from_ids(&ids).unwrap(), rewards.iter().map(|&r| r > 0.0).collect::<Vec<_>>());
    let offsets: Vec<i64> = (0..=5000).map(|row| row * 8).collect();
    let offsets = Offsets::new("offsets", &offsets, ROWS).unwrap();
    let (new, old) = (uniforms(3, ROWS), uniforms(4, ROWS));
    let tokens = RatioTokens::new(&new, &old, offsets, Some(&right)).unwrap();
    let advantages: Vec<f64> = rewards.iter().take(ROWS / 8).map(|reward| reward - 1.0).collect();
    let numbers: Vec<i64> = rewards.iter().map(|&reward| reward as i64).collect();
    let all = |threads: usize| {
        [
            groups::constant(&rewards, Some(&new), &ids, threads),
            groups::mixed(&right, &ids, threads),
            top(&rewards, &ids, TopGroups::Share(0.6), 1, threads),
            rollouts::overlong(&numbers, 2, None, threads),
            rollouts::stale(&numbers, 2, 1, threads),
            low_ratio_negatives(&tokens, &advantages, 0.0, threads),
            probability_difference(&tokens, &advantages, (0.1, 0.1), threads),
        ]
        .map(Result::unwrap)
    };
    let alone = all(1);
    assert!(alone.iter().all(|reasons| counts(reasons).iter().filter(|&&count| count > 0).count() > 1));
    for threads in [2, 3, 16] {
        assert_eq!(all(threads), alone);
    }
}

#[test]
fn codes_have_one_name_each() {
    for (code, reason) in MaskReason::ALL.into_iter().enumerate() {
        assert_eq!(reason as usize, code);
        assert_eq!(MaskReason::ALL.iter().filter(|other| other.name() == reason.name()).count(), 1);
    }
}

#[test]
fn groups_by_offsets_are_their_rows_in_order() {
    let groups = Groups::from_offsets(&Offsets::new("offsets", &[0, 2, 2, 3], 3).unwrap()).unwrap();
    assert_eq!((groups.len(), groups.rows(), groups.grouped()), (3, 3, 3));
    assert_eq!([0, 1, 2].map(|row| groups.code(row)), [Some(0), Some(0), Some(2)]);
}
