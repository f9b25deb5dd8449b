//! The pipeline: what it accounts for, what it does not depend on, and that no stage is skipped.

use Verdict::{ConstantGroup, Kept, MissingGroup, MissingReward};
use karl_core::filter::tally;
use karl_core::reward::AsymmetricScale;
use karl_core::sample::gumbel;
use karl_core::target::boltzmann;
use karl_core::{
    Error, Groups, Keys, Population, Ranking, Rules, Sampler, Scopes, Score, Selection, SelectionSettings,
    Temperature, Verdict, select,
};

pub(crate) const REWARDS: [f64; 8] = [1.0, 0.0, 0.5, 0.5, f64::NAN, 0.9, 0.2, 0.7];
pub(crate) const IDS: [i64; 8] = [1, 1, 2, 2, 1, 3, 3, 3];

pub(crate) fn keys(rows: usize) -> Keys {
    Keys::of_indices(rows)
}

pub(crate) fn settings() -> SelectionSettings {
    SelectionSettings {
        shaping: None,
        score: Score::Raw,
        rules: Rules::default(),
        temperature: Temperature::Ess(0.5),
        sampler: Sampler::Gumbel,
        seed: 7,
        threads: 2,
    }
}

/// What was drawn, all of it, beside the selection and its log weights.
struct Drawn {
    selection: Selection,
    logs: Vec<f64>,
    rows: Vec<u32>,
}

fn of(population: &Population, settings: &SelectionSettings) -> Drawn {
    let selection = select(population, settings).unwrap();
    let weighted = selection.weighted(population).unwrap();
    let logs = (0..weighted.len()).map(|row| weighted.log(row)).collect();
    let rows = selection.ranking(population, settings).unwrap().take(usize::MAX);
    Drawn { selection, logs, rows }
}

fn drawn(rewards: &[f64], groups: &Groups, settings: &SelectionSettings) -> Drawn {
    let keys = keys(rewards.len());
    of(
        &Population {
            keys: &keys,
            rewards,
            groups,
            scopes: Scopes::Whole,
            fingerprints: None,
            digests: None,
        },
        settings,
    )
}

/// All rows in one group.
pub(crate) fn whole(rows: usize) -> Groups<'static> {
    Groups::from_codes(vec![0; rows], usize::from(rows > 0)).unwrap()
}

fn drawn_from_eight(settings: &SelectionSettings) -> Drawn {
    drawn(&REWARDS, &Groups::from_ids(&IDS).unwrap(), settings)
}

#[test]
fn rows_read_are_rows_kept_and_rows_dropped() {
    let rules = Rules { min_reward: Some(0.1), drop_constant_groups: true, ..Rules::default() };
    let Drawn { selection, mut rows, .. } = drawn_from_eight(&SelectionSettings { rules, ..settings() });
    assert_eq!(tally(&selection.verdicts, 1), [4, 1, 0, 0, 0, 1, 2, 0, 0]);
    rows.sort_unstable();
    let kept: Vec<u32> = (0..8).filter(|&row| selection.verdicts[row as usize] == Kept).collect();
    assert_eq!(rows, kept);
}

#[test]
fn the_pipeline_is_its_stages_in_a_row() {
    let settings = SelectionSettings { score: Score::Centre, ..settings() };
    let drawn = drawn_from_eight(&settings);
    let groups = Groups::from_ids(&IDS).unwrap();
    let scores = Score::Centre.apply(&REWARDS, &groups, 2).unwrap();
    let target = boltzmann(&scores, Scopes::Whole, settings.temperature, 2).unwrap();
    let by_hand = gumbel::keys(&target.log_weights, &keys(8), 7).unwrap();
    assert_eq!((drawn.selection.target.log_z().collect(), drawn.logs), (target.log_z, target.log_weights));
    assert_eq!(drawn.rows, Ranking::new(by_hand).unwrap().take(8));
}

#[test]
fn scores_see_the_shaped_reward_and_rules_the_reward_as_it_is() {
    let scale = AsymmetricScale::new(2.0, 0.5, 0.5).unwrap();
    let shaped = scale.apply(&REWARDS).unwrap();
    let rules = Rules { min_reward: Some(0.1), drop_constant_groups: true, ..Rules::default() };
    for score in [Score::Raw, Score::Centre, Score::LeaveOneOut, Score::ZScore { ddof: 0, eps: 1e-6 }] {
        let plain = SelectionSettings { rules, score, ..settings() };
        let Drawn { selection, logs, .. } =
            drawn_from_eight(&SelectionSettings { shaping: Some(scale), ..plain });
        let of_shaped = score.apply(&shaped, &Groups::from_ids(&IDS).unwrap(), 1).unwrap();
        let bits = |scores: &[f64]| scores.iter().map(|score| score.to_bits()).collect::<Vec<u64>>();
        assert_eq!(bits(selection.scores(&REWARDS)), bits(&of_shaped), "{score:?}");
        let unshaped = drawn_from_eight(&plain);
        assert_eq!(selection.verdicts, unshaped.selection.verdicts);
        assert_eq!(selection.constant, unshaped.selection.constant);
        assert_ne!(logs, unshaped.logs, "{score:?}");
    }
}

#[test]
fn a_group_is_constant_by_its_rewards_whatever_shaping_makes_of_them() {
    // A scale this small makes one number of two; one this large keeps what is equal equal.
    let flat = AsymmetricScale::new(1e-320, 1e-320, 0.0).unwrap();
    let steep = AsymmetricScale::new(1e300, 1e300, 0.0).unwrap();
    let rewards = [1e-10, 2e-10, 0.1, 0.1];
    let groups = Groups::from_ids(&[1, 1, 2, 2]).unwrap();
    let rules = Rules { drop_constant_groups: true, ..Rules::default() };
    assert_eq!(flat.apply(&rewards[..2]).unwrap(), [0.0, 0.0]);
    for shaping in [Some(flat), Some(steep), None] {
        let temperature = Temperature::Inverse(0.0);
        let settings = SelectionSettings { rules, shaping, temperature, score: Score::Centre, ..settings() };
        let Drawn { selection, .. } = drawn(&rewards, &groups, &settings);
        assert_eq!(selection.verdicts, [Kept, Kept, ConstantGroup, ConstantGroup]);
        assert_eq!((selection.constant.groups, selection.constant.all_max), (2, 1));
    }
}

#[test]
fn a_shaped_reward_beyond_f64_is_an_error_of_its_row() {
    let shaping = AsymmetricScale::new(1e308, 1.0, 0.0).ok();
    let (keys, groups) = (keys(2), whole(2));
    let (rewards, scopes) = (&[0.5, 1e10], Scopes::Whole);
    let population =
        Population { keys: &keys, rewards, groups: &groups, scopes, fingerprints: None, digests: None };
    let refused = select(&population, &SelectionSettings { shaping, ..settings() });
    let value = f64::INFINITY;
    assert_eq!(refused.unwrap_err(), Error::NotFinite { what: "shaped reward", index: 1, value });
}

#[test]
fn scores_see_every_reward_and_the_target_only_kept_rows() {
    let rules = Rules { min_reward: Some(0.6), ..Rules::default() };
    let Drawn { selection, logs, .. } =
        drawn_from_eight(&SelectionSettings { rules, score: Score::Centre, ..settings() });
    let scores = selection.scores(&REWARDS);
    // Group 1 is rewards 1 and 0: the mean is 1/2 although the 0 is dropped.
    assert!((scores[0] - 0.5).abs() < 1e-12);
    assert!(logs[1] == f64::NEG_INFINITY);
    assert!((scores[1] + 0.5).abs() < 1e-12, "a dropped row keeps its score");
}

#[test]
fn the_target_sees_the_scores_of_kept_rows() {
    let rules = Rules { min_reward: Some(0.6), ..Rules::default() };
    let Drawn { selection, logs, .. } = drawn_from_eight(&SelectionSettings { rules, ..settings() });
    let kept = |row: usize| selection.verdicts[row] == Kept;
    let scores: Vec<f64> = (0..8).map(|row| if kept(row) { REWARDS[row] } else { f64::NAN }).collect();
    let again = boltzmann(&scores, Scopes::Whole, settings().temperature, 2).unwrap();
    assert_eq!((logs, tally(&selection.verdicts, 1)[0]), (again.log_weights, 3));
}

#[test]
fn a_ranking_that_is_given_comes_in_its_order_and_a_row_once() {
    let mut ranking = Ranking::given(&[4, 0, 4, 2, 0], 5).unwrap();
    assert_eq!((ranking.take(2), ranking.take(9)), (vec![4, 0], vec![2]));
}

#[test]
fn a_draw_does_not_depend_on_the_order_of_rows() {
    let rewards: Vec<f64> = (0..500).map(|row| f64::from(row * 37 % 48) / 48.0).collect();
    let backward: Vec<f64> = rewards.iter().rev().copied().collect();
    let turned = Keys::given(keys(500).iter().rev().collect());
    let whole = whole(500);
    let population = Population {
        keys: &turned,
        rewards: &backward,
        groups: &whole,
        scopes: Scopes::Whole,
        fingerprints: None,
        digests: None,
    };
    let mirrored: Vec<u32> = of(&population, &settings()).rows.into_iter().map(|row| 499 - row).collect();
    assert_eq!(drawn(&rewards, &whole, &settings()).rows, mirrored);
}

#[test]
fn one_seed_is_one_draw_and_another_seed_is_another() {
    let rewards: Vec<f64> = (0..100).map(f64::from).collect();
    let of =
        |seed, threads| drawn(&rewards, &whole(100), &SelectionSettings { seed, threads, ..settings() }).rows;
    assert_eq!(of(7, 1), of(7, 2));
    assert_ne!(of(7, 1)[..20], of(8, 1)[..20]);
}

#[test]
fn without_replacement_no_row_comes_twice_and_every_kept_row_comes() {
    let mut rows = drawn_from_eight(&settings()).rows;
    rows.sort_unstable();
    assert_eq!(rows, [0, 1, 2, 3, 5, 6, 7]);
}

#[test]
fn all_gives_kept_rows_in_row_order() {
    let all = drawn_from_eight(&SelectionSettings { sampler: Sampler::All, ..settings() });
    assert_eq!(all.rows, [0, 1, 2, 3, 5, 6, 7]);
}

#[test]
fn a_group_score_needs_groups_and_drops_rows_without_one() {
    let groups = Groups::from_codes(vec![0, 0, Groups::NONE], 1).unwrap();
    let Drawn { selection, .. } =
        drawn(&[1.0, 0.0, 0.5], &groups, &SelectionSettings { score: Score::Centre, ..settings() });
    assert_eq!(selection.verdicts, [Kept, Kept, MissingGroup]);
    let raw = drawn(&[1.0, 0.0, f64::NAN], &groups, &settings());
    assert_eq!(raw.selection.verdicts, [Kept, Kept, MissingReward]);

    let (none, keys) = (Groups::from_codes(vec![Groups::NONE; 2], 0).unwrap(), keys(2));
    let population = Population {
        keys: &keys,
        rewards: &[1.0, 0.0],
        groups: &none,
        scopes: Scopes::Whole,
        fingerprints: None,
        digests: None,
    };
    let refused = select(&population, &SelectionSettings { score: Score::LeaveOneOut, ..settings() });
    assert_eq!(refused, Err(Error::NeedsGroups { what: "leave-one-out" }));
    assert!(select(&population, &settings()).is_ok());
}

#[test]
fn a_row_without_a_scope_is_dropped_by_name() {
    let (keys, groups) = (keys(3), whole(3));
    let scopes = Groups::from_codes(vec![0, Groups::NONE, 0], 1).unwrap();
    let population = Population {
        keys: &keys,
        rewards: &[1.0, 0.0, 0.5],
        groups: &groups,
        scopes: Scopes::Of(&scopes),
        fingerprints: None,
        digests: None,
    };
    assert_eq!(select(&population, &settings()).unwrap().verdicts, [Kept, MissingGroup, Kept]);
}

#[test]
fn an_empty_log_gives_an_empty_draw() {
    for score in [Score::Raw, Score::Centre] {
        let drawn = drawn(&[], &whole(0), &SelectionSettings { score, ..settings() });
        assert!(drawn.rows.is_empty() && drawn.selection.verdicts.is_empty());
    }
}
