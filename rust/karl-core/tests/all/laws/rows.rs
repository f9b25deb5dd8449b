//! Which rows belong together, may be drawn, and come first.

use karl_core::filter::{constant_groups, missing_reward, tally};
use karl_core::group::Scope;
use karl_core::sample::cap_per_group;
use karl_core::{Groups, Ranking, Rules, Scopes, Verdict};
use proptest::prelude::*;

use super::{code, config, log};
use crate::naive;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn rows_have_the_groups_of_their_codes((_, codes) in log()) {
        let groups = naive::groups(&codes);
        prop_assert_eq!(groups.grouped(), codes.iter().flatten().count());
        prop_assert!((0..codes.len()).all(|row| groups.code(row) == codes[row].map(usize::from)));
        let scope = |row: usize| codes[row].map_or(Scope::Alone, |code| Scope::Shared(usize::from(code)));
        prop_assert!((0..codes.len()).all(|row| Scopes::OfOrAlone(&groups).of(row) == Some(scope(row))));
    }

    #[test]
    fn ids_are_numbered_by_first_appearance(ids in prop::collection::vec(prop_oneof![-3..3_i64, Just(1_i64 << 60)], 0..20)) {
        let mut order: Vec<i64> = Vec::new();
        for &id in ids.iter().filter(|&&id| id >= 0) {
            if !order.contains(&id) {
                order.push(id);
            }
        }
        let groups = Groups::from_ids(&ids).unwrap();
        prop_assert_eq!(groups.len(), order.len());
        prop_assert!((0..ids.len()).all(|row| groups.code(row).map_or(-1, |code| order[code]) == ids[row].max(-1)));
    }

    #[test]
    fn the_verdicts_equal_the_twin(
        (rewards, codes) in log(),
        prints in prop::collection::vec(0..4_u128, 40),
        minimum in prop::option::of(-2.0..2.0),
        (drop_constant_groups, dedup) in (any::<bool>(), any::<bool>()),
    ) {
        let rules = Rules { min_reward: minimum, drop_constant_groups, dedup, ..Rules::default() };
        let prints = &prints[..rewards.len()];
        let mut verdicts = vec![Verdict::Kept; rewards.len()];
        missing_reward(&mut verdicts, &rewards, 1).unwrap();
        rules.mark(&mut verdicts, &rewards, &naive::groups(&codes), Some(prints), 2).unwrap();
        prop_assert_eq!(tally(&verdicts, 2).iter().sum::<usize>(), rewards.len());
        prop_assert_eq!(verdicts, naive::verdicts(&rules, &rewards, &codes, prints));
    }

    #[test]
    fn constant_groups_are_those_with_score_zero((rewards, codes) in log()) {
        let groups = naive::groups(&codes);
        let count = constant_groups(&rewards, &groups, 2).unwrap();
        let present = |group: usize| -> Vec<f64> {
            let rows = (0..rewards.len()).filter(|&row| groups.code(row) == Some(group));
            rows.map(|row| rewards[row]).filter(|reward| !reward.is_nan()).collect()
        };
        let judged: Vec<Vec<f64>> = (0..groups.len()).map(present).filter(|rewards| rewards.len() > 1).collect();
        let constant = judged.iter().filter(|rewards| naive::variance(rewards, 0) <= 0.0).count();
        prop_assert_eq!((count.groups, count.constant()), (judged.len(), constant));
    }

    #[test]
    fn a_ranking_taken_in_any_pieces_is_the_sorted_order(
        keys in prop::collection::vec(prop_oneof![-2.0..2.0, Just(0.5), Just(0.0), Just(-0.0), Just(f64::NEG_INFINITY)], 0..60),
        pieces in prop::collection::vec(0..9_usize, 0..20),
    ) {
        let expected = naive::ranking(&keys);
        let mut ranking = Ranking::new(keys.clone()).unwrap();
        let mut taken = Vec::new();
        for piece in pieces {
            taken.extend(ranking.take(piece));
            let next = expected.get(taken.len()).map(|&row| keys[row as usize]);
            prop_assert_eq!(ranking.threshold(), next);
        }
        taken.extend(ranking.take(usize::MAX));
        prop_assert_eq!(taken, expected);
    }

    #[test]
    fn a_cap_equals_passing_over_full_groups(
        rows in prop::collection::vec((prop_oneof![-2.0..2.0, Just(0.5)], code()), 0..40),
        most in 0..4_usize,
    ) {
        let (mut keys, codes): (Vec<f64>, Vec<Option<u8>>) = rows.into_iter().unzip();
        let expected = naive::capped(&keys, &codes, most);
        let capped = cap_per_group(&mut keys, &naive::groups(&codes), most).unwrap();
        prop_assert_eq!(capped, keys.len() - expected.len());
        prop_assert_eq!(Ranking::new(keys).unwrap().take(usize::MAX), expected);
    }
}
