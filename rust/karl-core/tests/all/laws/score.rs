//! Every score against its twin, and what it does not change under.

use karl_core::advantage::{centre, leave_one_out, zscore};
use karl_core::numeric::sum::sum;
use karl_core::reward::composite;
use karl_core::{Groups, Score};
use proptest::prelude::*;

use super::{CLOSE, SCORES, all_close, bits, config, log, reward};
use crate::naive;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_score_equals_its_twin((rewards, codes) in log()) {
        let groups = naive::groups(&codes);
        for score in SCORES {
            let fast = score.apply(&rewards, &groups, 2).unwrap();
            prop_assert!(all_close(&fast, &naive::score(score, &rewards, &codes)), "{score:?} {fast:?}");
        }
    }

    #[test]
    fn group_scores_add_up_to_zero_in_each_group((rewards, codes) in log()) {
        let groups = naive::groups(&codes);
        for score in &SCORES[1..] {
            let advantages = score.apply(&rewards, &groups, 2).unwrap();
            for group in 0..groups.len() {
                let members = (0..rewards.len()).filter(|&row| groups.code(row) == Some(group));
                let total = sum(members.map(|row| advantages[row]).filter(|a| !a.is_nan()));
                prop_assert!(total.abs() < CLOSE, "{score:?} {total}");
            }
        }
    }

    #[test]
    fn a_constant_added_changes_no_group_score((rewards, codes) in log(), shift in -64..64_i32) {
        let groups = naive::groups(&codes);
        let shifted: Vec<f64> = rewards.iter().map(|reward| reward + f64::from(shift)).collect();
        for score in &SCORES[1..] {
            let (plain, moved) = (score.apply(&rewards, &groups, 2).unwrap(), score.apply(&shifted, &groups, 2).unwrap());
            prop_assert!(all_close(&plain, &moved), "{score:?}");
        }
    }

    #[test]
    fn a_scale_scales_centre_and_leave_one_out_and_leaves_zscore((rewards, codes) in log(), scale in 0.1..9.0) {
        let groups = naive::groups(&codes);
        let scaled: Vec<f64> = rewards.iter().map(|reward| scale * reward).collect();
        let times = |values: Vec<f64>| values.iter().map(|value| scale * value).collect::<Vec<f64>>();
        prop_assert!(all_close(&times(centre(&rewards, &groups, 2).unwrap()), &centre(&scaled, &groups, 2).unwrap()));
        let others = leave_one_out(&rewards, &groups, 2).unwrap();
        prop_assert!(all_close(&times(others), &leave_one_out(&scaled, &groups, 2).unwrap()));
        for ddof in [0, 1] {
            let plain = zscore(&rewards, &groups, ddof, 0.0, 2).unwrap();
            prop_assert!(all_close(&plain, &zscore(&scaled, &groups, ddof, 0.0, 2).unwrap()));
        }
    }

    #[test]
    fn renamed_groups_have_the_same_scores_to_the_bit((rewards, codes) in log()) {
        let names: Vec<i64> = codes.iter().map(|code| code.map_or(-1, |code| 1_000 - 7 * i64::from(code))).collect();
        for score in SCORES {
            let a = score.apply(&rewards, &naive::groups(&codes), 2).unwrap();
            let b = score.apply(&rewards, &Groups::from_ids(&names).unwrap(), 2).unwrap();
            prop_assert_eq!(bits(&a), bits(&b));
        }
    }

    #[test]
    fn a_group_does_not_see_the_others((rewards, codes) in log(), chosen in 0..5_u8, other in -9.0..9.0) {
        let groups = naive::groups(&codes);
        let changed: Vec<f64> = rewards
            .iter()
            .zip(&codes)
            .map(|(&reward, &code)| if code == Some(chosen) { reward } else { other })
            .collect();
        for score in SCORES {
            let (a, b) = (score.apply(&rewards, &groups, 2).unwrap(), score.apply(&changed, &groups, 2).unwrap());
            for row in (0..codes.len()).filter(|&row| codes[row] == Some(chosen)) {
                prop_assert_eq!(a[row].to_bits(), b[row].to_bits());
            }
        }
    }

    #[test]
    fn equal_rewards_score_exactly_zero(reward in -1e9..1e9, count in 1..20_usize, ddof in 0..3_u8) {
        let (rewards, groups) = (vec![reward; count], naive::groups(&vec![Some(0); count]));
        for score in [Score::Centre, Score::ZScore { ddof, eps: 0.0 }, Score::LeaveOneOut] {
            prop_assert!(score.apply(&rewards, &groups, 2).unwrap().iter().all(|a| a.abs() <= 0.0));
        }
    }

    #[test]
    fn a_missing_reward_is_as_if_absent((rewards, codes) in log()) {
        let present: Vec<usize> = (0..rewards.len()).filter(|&row| !rewards[row].is_nan()).collect();
        let fewer: Vec<f64> = present.iter().map(|&row| rewards[row]).collect();
        let fewer_codes: Vec<Option<u8>> = present.iter().map(|&row| codes[row]).collect();
        for score in SCORES {
            let all = score.apply(&rewards, &naive::groups(&codes), 2).unwrap();
            let some = score.apply(&fewer, &naive::groups(&fewer_codes), 2).unwrap();
            let seen: Vec<f64> = present.iter().map(|&row| all[row]).collect();
            prop_assert!(all_close(&seen, &some));
        }
    }

    #[test]
    fn leave_one_out_is_centre_times_n_over_n_less_one(rewards in prop::collection::vec(-9.0..9.0, 2..20)) {
        let groups = naive::groups(&vec![Some(0); rewards.len()]);
        let (centred, n) = (centre(&rewards, &groups, 2).unwrap(), rewards.len() as f64);
        let expected: Vec<f64> = centred.iter().map(|a| n / (n - 1.0) * a).collect();
        prop_assert_eq!(bits(&leave_one_out(&rewards, &groups, 2).unwrap()), bits(&expected));
    }

    #[test]
    fn a_composite_is_the_weighted_sum(rows in prop::collection::vec((reward(), reward()), 0..20), a in -2.0..2.0, b in -2.0..2.0) {
        let (left, right): (Vec<f64>, Vec<f64>) = rows.iter().copied().unzip();
        let expected: Vec<f64> = rows.iter().map(|(x, y)| a * x + b * y).collect();
        prop_assert!(all_close(&composite(&[&left, &right], &[a, b]).unwrap(), &expected));
    }
}
