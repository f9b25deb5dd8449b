//! Splits of groups: their quotas, what is given up for them, and how few groups change sides when a log grows.
#![allow(clippy::print_stdout, reason = "the page on the draw shows these numbers")]

mod logs_that_grow {
    use karl_core::Key;
    use karl_core::split::Group;

    /// Groups of a log by number, each of so many rows.
    pub(crate) fn groups(numbers: std::ops::Range<usize>, rows: impl Fn(usize) -> u64) -> Vec<Group> {
        numbers.map(|number| Group { key: Key::of_index(number), rows: rows(number) }).collect()
    }

    /// From 1 to 16 rows a group.
    pub(crate) fn uneven(number: usize) -> u64 {
        1 + (number as u64 * 7) % 16
    }
}
use karl_core::split::{Group, split};
use logs_that_grow::{groups, uneven};

const USUAL: [f64; 3] = [0.9, 0.1, 0.0];

const FEWEST: u64 = 4;

/// The rows of each split.
fn rows(groups: &[Group], fractions: [f64; 3], seed: u64) -> [u64; 3] {
    let mut rows = [0; 3];
    for (group, split) in groups.iter().zip(split(groups, &fractions, seed, FEWEST).unwrap()) {
        rows[split] += group.rows;
    }
    rows
}

#[test]
fn every_split_is_near_its_quota() {
    for seed in 0..50 {
        for fractions in [USUAL, [0.8, 0.1, 0.1], [0.5, 0.3, 0.2], [0.1, 0.8, 0.1]] {
            let many = groups(0..400, uneven);
            let all: u64 = many.iter().map(|group| group.rows).sum();
            for (got, share) in rows(&many, fractions, seed).into_iter().zip(fractions) {
                // No further than half of the largest group, for each split that is not train.
                assert!((got as f64 - share * all as f64).abs() <= 16.0, "{seed} {fractions:?} {got}");
            }
        }
    }
}

#[test]
fn forty_eight_rows_have_a_valid_split_for_every_seed() {
    for seed in 0..1000 {
        for size in 1..=12 {
            let few = groups(0..48 / size, |_| size as u64);
            let [train, valid, test] = rows(&few, USUAL, seed);
            let near = (4 + size as u64).max(12);
            assert!((4..=near).contains(&valid) && train >= valid && test == 0, "{seed} {size}: {valid}");
        }
    }
}

#[test]
fn a_group_that_is_larger_than_its_quota_starves_no_split_and_takes_no_other() {
    let sizes = [900, 30, 30, 20, 20];
    for seed in 0..100 {
        let [train, valid, _] = rows(&groups(0..5, |number| sizes[number]), USUAL, seed);
        assert_eq!((train, valid), (900, 100), "{seed}");
    }
    // Two groups, either of which is more than the quota: the smaller one, for train keeps the larger.
    assert_eq!(rows(&groups(0..2, |number| [60, 40][number]), USUAL, 3), [60, 40, 0]);
}

#[test]
fn one_group_is_of_train_and_train_always_keeps_one() {
    assert_eq!(rows(&groups(0..1, |_| 1000), USUAL, 3), [1000, 0, 0]);
    assert_eq!(rows(&[], USUAL, 3), [0; 3]);
    for seed in 0..100 {
        for fractions in [[1e-9, 1.0 - 1e-9, 0.0], [1e-9, 0.5, 0.5 - 1e-9]] {
            let all = rows(&groups(0..9, uneven), fractions, seed);
            assert!(all[0] > 0, "{seed} {all:?}");
        }
    }
}

#[test]
fn a_split_of_fraction_zero_gets_nothing_and_the_last_of_the_others_the_rest() {
    for (fractions, wanted) in [
        ([1.0, 0.0, 0.0], [100, 0, 0]),
        ([0.0, 1.0, 0.0], [0, 100, 0]),
        ([0.0, 0.0, 1.0], [0, 0, 100]),
        ([0.0, 0.3, 0.7], [0, 30, 70]),
        ([0.3, 0.7, 0.0], [30, 70, 0]),
        ([0.6, 0.3, 0.1], [60, 30, 10]),
    ] {
        assert_eq!(rows(&groups(0..100, |_| 1), fractions, 5), wanted);
    }
}

#[test]
fn the_order_of_groups_says_nothing_and_the_seed_does() {
    let mut some = groups(0..60, uneven);
    let sides = |groups: &[Group], seed| {
        let splits = split(groups, &[0.6, 0.2, 0.2], seed, FEWEST).unwrap();
        let mut sides: Vec<_> = groups.iter().map(|group| group.key).zip(splits).collect();
        sides.sort_unstable();
        sides
    };
    let wanted = sides(&some, 1);
    some.reverse();
    assert_eq!(sides(&some, 1), wanted);
    assert_ne!(sides(&some, 2), wanted);
}

/// What of `count` groups changes sides when a tenth more comes, on average of a hundred seeds.
fn switched(count: usize, size: impl Fn(usize) -> u64 + Copy) -> f64 {
    let (before, after) = (groups(0..count, size), groups(0..count + count / 10, size));
    let changed = |seed| {
        let [before, after] = [&before, &after].map(|groups| split(groups, &USUAL, seed, FEWEST).unwrap());
        before.iter().zip(&after).filter(|(before, after)| before != after).count()
    };
    (0..100).map(changed).sum::<usize>() as f64 / 100.0
}

#[test]
fn few_groups_change_sides_when_a_log_grows_by_a_tenth() {
    for count in [100, 1000, 10_000] {
        for (name, switched) in [
            ("one row", switched(count, |_| 1)),
            ("eight rows", switched(count, |_| 8)),
            ("1 to 16 rows", switched(count, uneven)),
        ] {
            println!(
                "{count} groups of {name}: {switched} change sides, {:.2} %",
                100.0 * switched / count as f64
            );
            // By chance: the quota's place among uniforms moves by about sqrt(count * 0.1 * 0.1).
            assert!(switched <= 2.0 + 0.12 * (count as f64).sqrt(), "{count} groups of {name}: {switched}");
        }
    }
}
