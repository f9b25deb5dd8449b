//! The pipeline: what it accounts for, what it does not depend on, and that no stage is skipped.
#![allow(clippy::unwrap_used, reason = "a helper that fails, fails its test")]

use karl_core::filter::tally;
use karl_core::sample::gumbel;
use karl_core::target::boltzmann;
use karl_core::{
    Error, Groups, Keys, Population, Ranking, Rules, Sampler, Score, Selection, Settings, Temperature,
    Verdict, select,
};

use Verdict::{Kept, MissingGroup, MissingReward};

const REWARDS: [f64; 8] = [1.0, 0.0, 0.5, 0.5, f64::NAN, 0.9, 0.2, 0.7];
const IDS: [i64; 8] = [1, 1, 2, 2, 1, 3, 3, 3];

fn keys(rows: usize) -> Keys {
    Keys::of_indices(rows)
}

fn settings() -> Settings {
    Settings {
        score: Score::Raw,
        rules: Rules::default(),
        temperature: Temperature::Ess(0.5),
        sampler: Sampler::Gumbel,
        seed: 7,
    }
}

fn drawn(rewards: &[f64], groups: &Groups, settings: &Settings) -> Selection {
    let (keys, scopes) = (keys(rewards.len()), Groups::whole(rewards.len()).unwrap());
    let population = Population { keys: &keys, rewards, groups, scopes: &scopes, fingerprints: None };
    select(&population, settings).unwrap()
}

fn drawn_from_eight(settings: &Settings) -> Selection {
    drawn(&REWARDS, &Groups::from_ids(&IDS).unwrap(), settings)
}

#[test]
fn rows_read_are_rows_kept_and_rows_dropped() {
    let rules = Rules { min_reward: Some(0.1), drop_constant_groups: true, dedup: false };
    let mut selection = drawn_from_eight(&Settings { rules, ..settings() });
    assert_eq!(tally(&selection.verdicts), [4, 1, 0, 0, 0, 1, 2]);
    let mut rows = selection.ranking.take(usize::MAX);
    rows.sort_unstable();
    let kept: Vec<u32> = (0..8).filter(|&row| selection.verdicts[row as usize] == Kept).collect();
    assert_eq!(rows, kept);
}

#[test]
fn the_pipeline_is_its_stages_in_a_row() {
    let settings = Settings { score: Score::Centre, ..settings() };
    let mut selection = drawn_from_eight(&settings);
    let groups = Groups::from_ids(&IDS).unwrap();
    let scores = Score::Centre.apply(&REWARDS, &groups).unwrap();
    let target = boltzmann(&scores, &Groups::whole(8).unwrap(), settings.temperature).unwrap();
    let by_hand = gumbel::keys(&target.log_weights, &keys(8), 7).unwrap();
    assert_eq!(selection.target, target);
    assert_eq!(selection.ranking.take(8), Ranking::new(by_hand).unwrap().take(8));
}

#[test]
fn scores_see_every_reward_and_the_target_only_kept_rows() {
    let rules = Rules { min_reward: Some(0.6), ..Rules::default() };
    let selection = drawn_from_eight(&Settings { rules, score: Score::Centre, ..settings() });
    // Group 1 is rewards 1 and 0: the mean is 1/2 although the 0 is dropped.
    assert!((selection.scores[0] - 0.5).abs() < 1e-12);
    assert!(selection.target.log_weights[1] == f64::NEG_INFINITY);
    assert!((selection.scores[1] + 0.5).abs() < 1e-12, "a dropped row keeps its score");
}

#[test]
fn kept_scores_are_those_of_the_target() {
    let rules = Rules { min_reward: Some(0.6), ..Rules::default() };
    let selection = drawn_from_eight(&Settings { rules, ..settings() });
    let again =
        boltzmann(&selection.kept_scores(), &Groups::whole(8).unwrap(), settings().temperature).unwrap();
    assert_eq!(again, selection.target);
    let kept = selection.kept_scores().iter().filter(|score| !score.is_nan()).count();
    assert_eq!(kept, 3);
}

#[test]
fn a_ranking_that_is_given_comes_in_its_order_and_a_row_once() {
    let mut ranking = Ranking::given(&[4, 0, 4, 2, 0], 5).unwrap();
    assert_eq!((ranking.remaining(), ranking.take(2), ranking.take(9)), (3, vec![4, 0], vec![2]));
}

#[test]
fn a_draw_does_not_depend_on_the_order_of_rows() {
    let rewards: Vec<f64> = (0..500).map(|row| f64::from(row * 37 % 48) / 48.0).collect();
    let backward: Vec<f64> = rewards.iter().rev().copied().collect();
    let turned = Keys::given(keys(500).iter().rev().collect());
    let whole = Groups::whole(500).unwrap();
    let population =
        Population { keys: &turned, rewards: &backward, groups: &whole, scopes: &whole, fingerprints: None };
    let mut other = select(&population, &settings()).unwrap();
    let mut one = drawn(&rewards, &whole, &settings());
    let mirrored: Vec<u32> = other.ranking.take(50).into_iter().map(|row| 499 - row).collect();
    assert_eq!(one.ranking.take(50), mirrored);
}

#[test]
fn one_seed_is_one_draw_and_another_seed_is_another() {
    let rewards: Vec<f64> = (0..100).map(f64::from).collect();
    let whole = Groups::whole(100).unwrap();
    let of = |seed| drawn(&rewards, &whole, &Settings { seed, ..settings() });
    assert_eq!(of(7), of(7));
    assert_ne!(of(7).ranking.take(20), of(8).ranking.take(20));
}

#[test]
fn without_replacement_no_row_comes_twice_and_every_kept_row_comes() {
    let mut rows = drawn_from_eight(&settings()).ranking.take(usize::MAX);
    rows.sort_unstable();
    assert_eq!(rows, [0, 1, 2, 3, 5, 6, 7]);
}

#[test]
fn all_gives_kept_rows_in_row_order() {
    let mut all = drawn_from_eight(&Settings { sampler: Sampler::All, ..settings() });
    assert_eq!(all.ranking.take(usize::MAX), [0, 1, 2, 3, 5, 6, 7]);
}

#[test]
fn a_group_score_needs_groups_and_drops_rows_without_one() {
    let groups = Groups::from_codes(vec![0, 0, Groups::NONE], 1).unwrap();
    let selection = drawn(&[1.0, 0.0, 0.5], &groups, &Settings { score: Score::Centre, ..settings() });
    assert_eq!(selection.verdicts, [Kept, Kept, MissingGroup]);
    let raw = drawn(&[1.0, 0.0, f64::NAN], &groups, &settings());
    assert_eq!(raw.verdicts, [Kept, Kept, MissingReward]);

    let (none, keys) = (Groups::from_codes(vec![Groups::NONE; 2], 0).unwrap(), keys(2));
    let whole = Groups::whole(2).unwrap();
    let population =
        Population { keys: &keys, rewards: &[1.0, 0.0], groups: &none, scopes: &whole, fingerprints: None };
    let refused = select(&population, &Settings { score: Score::LeaveOneOut, ..settings() });
    assert_eq!(refused, Err(Error::NeedsGroups { what: "leave-one-out" }));
    assert!(select(&population, &settings()).is_ok());
}

#[test]
fn a_row_without_a_scope_is_dropped_by_name() {
    let (keys, groups) = (keys(3), Groups::whole(3).unwrap());
    let scopes = Groups::from_codes(vec![0, Groups::NONE, 0], 1).unwrap();
    let population = Population {
        keys: &keys,
        rewards: &[1.0, 0.0, 0.5],
        groups: &groups,
        scopes: &scopes,
        fingerprints: None,
    };
    assert_eq!(select(&population, &settings()).unwrap().verdicts, [Kept, MissingGroup, Kept]);
}

#[test]
fn an_empty_log_gives_an_empty_draw() {
    for score in [Score::Raw, Score::Centre] {
        let mut selection = drawn(&[], &Groups::whole(0).unwrap(), &Settings { score, ..settings() });
        assert!(selection.ranking.take(5).is_empty() && selection.verdicts.is_empty());
    }
}
