//! Each rule by hand, and the order they count in.

use Verdict::{BelowMinimum, Duplicate, GroupOfOne, Kept, MissingGroup, MissingReward};
use karl_core::filter::{
    ConstantCount, below_minimum, constant_groups, missing_group, missing_reward, tally,
};
use karl_core::{Groups, Rules, Verdict};

const NAN: f64 = f64::NAN;

fn marked(rules: Rules, rewards: &[f64], ids: &[i64], prints: &[u128]) -> Vec<Verdict> {
    let mut verdicts = vec![Kept; rewards.len()];
    missing_reward(&mut verdicts, rewards, 1).unwrap();
    rules.mark(&mut verdicts, rewards, &Groups::from_ids(ids).unwrap(), Some(prints), 2).unwrap();
    verdicts
}

#[test]
fn a_row_counts_under_the_first_rule_that_drops_it() {
    // Row 1 is a duplicate, below the minimum and in a constant group; row 2 the last two; row 3 has a group of its own.
    let rules = Rules { min_reward: Some(0.5), drop_constant_groups: true, dedup: true };
    let verdicts = marked(rules, &[0.1, 0.1, 0.1, 0.9, NAN], &[1, 1, 1, 2, 1], &[5, 5, 6, 5, 5]);
    assert_eq!(verdicts, [BelowMinimum, Duplicate, BelowMinimum, GroupOfOne, MissingReward]);
    assert_eq!(tally(&verdicts, 1), [0, 1, 0, 0, 1, 2, 0, 1]);
}

#[test]
fn rows_beyond_the_first_blocks_are_judged_alike_by_any_number_of_threads() {
    let rewards: Vec<f64> =
        (0..50_000_u32).map(|row| if row % 7 == 0 { NAN } else { f64::from(row % 5) }).collect();
    let wanted: Vec<Verdict> = rewards
        .iter()
        .map(|&reward| {
            if reward.is_nan() {
                MissingReward
            } else if reward < 2.0 {
                BelowMinimum
            } else {
                Kept
            }
        })
        .collect();
    for threads in [1, 3] {
        let mut verdicts = vec![Kept; rewards.len()];
        missing_reward(&mut verdicts, &rewards, threads).unwrap();
        below_minimum(&mut verdicts, &rewards, 2.0, threads).unwrap();
        assert!(verdicts == wanted, "{threads}");
    }
}

#[test]
fn no_rules_drop_nothing() {
    let verdicts = marked(Rules::default(), &[0.5, 0.5], &[1, 1], &[1, 1]);
    assert_eq!(verdicts, [Kept, Kept]);
}

#[test]
fn the_minimum_itself_is_kept() {
    let rules = Rules { min_reward: Some(0.5), ..Rules::default() };
    assert_eq!(marked(rules, &[0.5, 0.499], &[1, 2], &[1, 2]), [Kept, BelowMinimum]);
}

#[test]
fn duplicates_are_told_apart_by_group_and_the_first_kept_row_stays() {
    let rules = Rules { dedup: true, ..Rules::default() };
    let verdicts = marked(rules, &[NAN, 0.0, 1.0, 2.0], &[1, 1, 2, 1], &[7, 7, 7, 7]);
    assert_eq!(verdicts, [MissingReward, Kept, Kept, Duplicate]);
}

#[test]
fn rows_without_a_group_are_duplicates_among_themselves() {
    let groups = Groups::from_codes(vec![Groups::NONE, 0, Groups::NONE], 1).unwrap();
    let mut verdicts = vec![Kept; 3];
    Rules { dedup: true, ..Rules::default() }
        .mark(&mut verdicts, &[0.0; 3], &groups, Some(&[7; 3]), 2)
        .unwrap();
    assert_eq!(verdicts, [Kept, Kept, Duplicate]);
}

#[test]
fn a_group_is_judged_on_the_log_as_read() {
    // The filter leaves one reward of group 1, but as read the group was mixed.
    let rules = Rules { min_reward: Some(0.5), drop_constant_groups: true, ..Rules::default() };
    assert_eq!(marked(rules, &[1.0, 0.0], &[1, 1], &[1, 2]), [Kept, BelowMinimum]);
}

#[test]
fn a_group_of_one_is_told_as_one_and_a_missing_reward_makes_no_difference() {
    let rules = Rules { drop_constant_groups: true, ..Rules::default() };
    let verdicts = marked(rules, &[0.3, 0.5, NAN, 1.0, 0.0], &[1, 2, 2, 3, 3], &[0; 5]);
    assert_eq!(verdicts, [GroupOfOne, GroupOfOne, MissingReward, Kept, Kept]);
}

#[test]
fn rows_without_a_group_are_missing_one_only_where_it_is_asked_for() {
    let groups = Groups::from_codes(vec![0, Groups::NONE], 1).unwrap();
    let mut verdicts = vec![Kept; 2];
    Rules { drop_constant_groups: true, ..Rules::default() }
        .mark(&mut verdicts, &[1.0; 2], &groups, None, 2)
        .unwrap();
    assert_eq!(verdicts, [GroupOfOne, Kept]);
    missing_group(&mut verdicts, &groups, 1).unwrap();
    assert_eq!(verdicts, [GroupOfOne, MissingGroup]);
}

#[test]
fn constant_groups_are_counted_where_they_sit() {
    let rewards = [1.0, 1.0, 0.0, 0.0, 0.5, 0.5, 0.0, 1.0, 1.0, NAN, 1.0, NAN, 1.0];
    let groups = Groups::from_ids(&[1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 6]).unwrap();
    let wanted = ConstantCount { groups: 5, all_max: 2, all_min: 1, other: 1 };
    assert_eq!(constant_groups(&rewards, &groups, 2).unwrap(), wanted);
    assert_eq!(wanted.constant(), 4);
}

#[test]
fn in_a_log_of_one_reward_top_is_bottom() {
    let count = constant_groups(&[0.5; 4], &Groups::from_ids(&[1, 1, 2, 2]).unwrap(), 2).unwrap();
    assert_eq!(count, ConstantCount { groups: 2, all_max: 0, all_min: 0, other: 2 });
}

#[test]
fn verdicts_have_the_names_of_the_manifest() {
    let names = Verdict::ALL.map(Verdict::name);
    let wanted = [
        "kept",
        "missing_reward",
        "missing_group",
        "missing_log_weight",
        "duplicate",
        "below_minimum",
        "constant_group",
        "group_of_one",
    ];
    assert_eq!(names, wanted);
    assert!(Verdict::ALL.iter().enumerate().all(|(index, &verdict)| verdict as usize == index));
}
