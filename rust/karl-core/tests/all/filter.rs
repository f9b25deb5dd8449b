//! Each rule by hand, and the order they count in.

use karl_core::filter::variance::{self, TopGroups};
use karl_core::filter::{
    ConstantCount, MaskReason, below_minimum, constant_groups, missing_group, missing_reward, tally,
};
use karl_core::rng::uniform;
use karl_core::{Error, Groups, Key, Purpose, Rules, Verdict};

use Verdict::{BelowMinimum, Duplicate, GroupOfOne, Kept, MissingGroup, MissingReward};

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
    let rules = Rules { min_reward: Some(0.5), drop_constant_groups: true, dedup: true, ..Rules::default() };
    let verdicts = marked(rules, &[0.1, 0.1, 0.1, 0.9, NAN], &[1, 1, 1, 2, 1], &[5, 5, 6, 5, 5]);
    assert_eq!(verdicts, [BelowMinimum, Duplicate, BelowMinimum, GroupOfOne, MissingReward]);
    assert_eq!(tally(&verdicts, 1), [0, 1, 0, 0, 1, 2, 0, 1, 0]);
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
        "low_variance",
    ];
    assert_eq!(names, wanted);
    assert!(Verdict::ALL.iter().enumerate().all(|(index, &verdict)| verdict as usize == index));
}

#[test]
fn the_rule_of_variance_keeps_the_groups_of_the_filter_and_drops_those_without_any() {
    let rows = 4_000_usize;
    let number = |row| uniform(11, Key::of_index(row), Purpose::Draw);
    let ids: Vec<i64> = (0..4_000).map(|row| row % 501 - 1).collect();
    let reward = |row| match row % 13 {
        0 => NAN,
        _ if row % 501 < 100 => 0.5,
        _ => (number(row) * 4.0).floor(),
    };
    let rewards: Vec<f64> = (0..rows).map(reward).collect();
    let groups = Groups::from_ids(&ids).unwrap();
    for share in [1.0, 0.9, 0.3, 1e-9] {
        let rules = Rules { variance_top_p: Some(share), ..Rules::default() };
        let found = marked(rules, &rewards, &ids, &[]);
        let filter = variance::top(&rewards, &groups, TopGroups::Share(share), 0, 2).unwrap();
        for ((row, verdict), reason) in found.iter().enumerate().zip(filter) {
            let wanted: &[Verdict] = match reason {
                MaskReason::Kept => &[Kept],
                MaskReason::LowVariance => &[Verdict::LowVariance],
                MaskReason::ConstantGroup => &[Verdict::ConstantGroup, GroupOfOne],
                MaskReason::MissingReward => &[MissingReward],
                _ if rewards[row].is_nan() => &[MissingReward],
                _ => &[Kept], // without a group
            };
            assert!(wanted.contains(verdict), "{share} {row} {verdict:?} {reason:?}");
        }
        assert_eq!(found.contains(&Verdict::LowVariance), share < 1.0);
        assert!(found.contains(&Verdict::ConstantGroup) && found.contains(&Kept));
    }
}

#[test]
fn a_share_of_variance_outside_of_0_to_1_is_refused() {
    let groups = Groups::from_ids(&[1, 1]).unwrap();
    let rules = Rules { variance_top_p: Some(1.5), ..Rules::default() };
    let error = rules.mark(&mut [Kept; 2], &[0.0, 1.0], &groups, None, 1).unwrap_err();
    assert!(matches!(error, Error::Range { what: "p", .. }), "{error}");
}
