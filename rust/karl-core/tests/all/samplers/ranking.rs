//! Draws without replacement: the lazy form against the full one, and their laws.

use karl_core::rng::{gumbel, uniform};
use karl_core::sample::gumbel::{bound, keys};
use karl_core::{Key, Keys, Purpose, Ranking, Sampler};
use proptest::prelude::*;

use super::{assert_follows, assert_rejected, drawn, logs, ordered};
use crate::naive;

/// Enough for several blocks and threads.
const ROWS: usize = 40_000;

/// Log weights from -12 to 0 with runs of ties, and some that are never drawn.
fn many(steps: f64) -> Vec<f64> {
    let log = |row: usize| {
        let u = uniform(3, Key::of_index(row), Purpose::Split);
        if u < 0.1 { f64::NEG_INFINITY } else { -12.0 * (u * steps).floor() / steps }
    };
    (0..ROWS).map(log).collect()
}

#[test]
fn the_bound_is_never_less_than_the_gumbel_number_and_near_it() {
    let step = f64::EPSILON;
    let ends = [0.5 * step, 1.5 * step, 0.5, 1.0 - 0.5 * step, 1.0 - 1.5 * step];
    let many = (0..200_000).map(|row| uniform(1, Key::of_index(row), Purpose::Draw));
    let powers = (1..52).map(|power| 1.0 - 2f64.powi(-power) - 0.5 * step);
    let mut slack = 0.0;
    for u in ends.into_iter().chain(powers).chain(many) {
        assert!(bound(u) >= gumbel(u), "{u}");
        slack += f64::from(u8::from(u > 0.9 && bound(u) - gumbel(u) > 0.7 + 0.06));
    }
    assert!(slack <= 0.0, "near the top the bound is within ln 2 and a little");
}

#[test]
fn a_lazy_ranking_has_the_bits_of_the_full_one_for_any_threads_and_pieces() {
    for steps in [3.0, 1e9] {
        let logs = many(steps);
        let full = keys(&logs, &Keys::of_indices(ROWS), 7).unwrap();
        let whole = Ranking::new(full).unwrap().take(usize::MAX);
        assert!(whole.len() < ROWS && whole.len() > ROWS / 2);
        for threads in [1, 2, 5] {
            for k in [0, 1, 300, 5_000, ROWS] {
                let first = drawn(Sampler::Gumbel, &logs, k, 7, threads);
                assert_eq!(first, whole[..k.min(whole.len())], "{k} rows, {threads} threads");
            }
        }
    }
}

#[test]
fn a_ranking_that_is_asked_for_more_makes_another_pass_and_goes_on() {
    let (logs, keys) = (many(1e9), Keys::of_indices(ROWS));
    let weighted = karl_core::Weighted::by_logs(&logs, &keys).unwrap();
    let whole = weighted.ranking(Sampler::Gumbel, 7, 1).unwrap().take(usize::MAX);
    let mut pieces = weighted.ranking(Sampler::Gumbel, 7, 2).unwrap();
    let mut taken = Vec::new();
    for piece in [10, 1, 5_000, 0, 100, 30_000, 30_000] {
        taken.extend(pieces.take(piece));
        let next = whole.get(taken.len());
        let key =
            |row: &u32| logs[*row as usize] + gumbel(uniform(7, Key::of_index(*row as usize), Purpose::Draw));
        assert_eq!(pieces.threshold(), next.map(key));
    }
    assert_eq!(taken, whole);
}

/// The rows that have a key, by falling key: a stable sort keeps ties in row order.
fn sorted(keys: &[f64]) -> Vec<u32> {
    let mut rows: Vec<u32> =
        (0..).take(keys.len()).filter(|&row: &u32| keys[row as usize].is_finite()).collect();
    rows.sort_by(|&a, &b| keys[b as usize].total_cmp(&keys[a as usize]));
    rows
}

/// The rows that the first bar is guessed from are those of every 256th place.
#[test]
fn a_sample_of_rows_that_is_unlike_the_others_changes_no_draw() {
    for (seen, others) in [(40.0, 0.0), (0.0, 40.0), (f64::NEG_INFINITY, 0.0)] {
        let logs: Vec<f64> = (0..ROWS).map(|row| if row % 256 == 0 { seen } else { others }).collect();
        let full = keys(&logs, &Keys::of_indices(ROWS), 7).unwrap();
        let whole = sorted(&full);
        for k in [1, 100, 157, 158, 2_000] {
            for threads in [1, 3] {
                assert_eq!(
                    drawn(Sampler::Gumbel, &logs, k, 7, threads),
                    whole[..k],
                    "{k} of {seen}, {others}"
                );
            }
        }
    }
}

#[test]
fn keys_of_records_and_digests_are_drawn_as_one_by_one() {
    let logs = many(1e9);
    let ids: Vec<u128> = (0..ROWS as u128).map(|row| ((row / 3) << 70) | (row / 3)).collect();
    let digests: Vec<u64> = (0..ROWS as u64).map(|row| row.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let ascending = Keys::sorted(ids);
    let given = Keys::given(ascending.iter().collect());
    let full = keys(&logs, &given, 7).unwrap();
    for keys in [&ascending, &given] {
        let weighted = karl_core::Weighted::by_logs(&logs, keys).unwrap();
        assert_eq!(weighted.ranking(Sampler::Gumbel, 7, 2).unwrap().take(500), sorted(&full)[..500]);
        let told = weighted.by_digest(&digests).unwrap().ranking(Sampler::Reservoir, 7, 2).unwrap().take(500);
        let number = |row: usize| {
            let key = Key { ordinal: digests[row], ..given.get(row) };
            if logs[row].is_finite() { -uniform(7, key, Purpose::Draw) } else { f64::NEG_INFINITY }
        };
        assert_eq!(told, sorted(&(0..ROWS).map(number).collect::<Vec<_>>())[..500]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_order_equals_its_twin(
        weights in prop::collection::vec(prop_oneof![0.0..9.0, Just(0.0), Just(1.0)], 0..40),
        seed in any::<u64>(),
    ) {
        let logs = logs(&weights);
        let uniform = |row: usize| uniform(seed, Key::of_index(row), Purpose::Draw);
        let race = |row: usize| logs[row] + gumbel(uniform(row));
        let alike = |row: usize| if weights[row] > 0.0 { -uniform(row) } else { f64::NEG_INFINITY };
        let in_order = |row: usize| if weights[row] > 0.0 { 0.0 } else { f64::NEG_INFINITY };
        let twins: [(Sampler, &dyn Fn(usize) -> f64); 4] = [
            (Sampler::Gumbel, &race),
            (Sampler::WeightedReservoir, &race),
            (Sampler::Reservoir, &alike),
            (Sampler::All, &in_order),
        ];
        for (sampler, key) in twins {
            let keys: Vec<f64> = (0..weights.len()).map(key).collect();
            prop_assert_eq!(drawn(sampler, &logs, usize::MAX, seed, 2), naive::ranking(&keys), "{:?}", sampler);
        }
    }
}

const SEEDS: u64 = 60_000;

#[test]
fn a_weighted_reservoir_is_plackett_luce_and_a_reservoir_is_not() {
    let weights = [1.0, 2.0, 3.0, 4.0];
    let (counts, law) = ordered(
        &weights,
        2,
        (0..SEEDS).map(|seed| drawn(Sampler::WeightedReservoir, &logs(&weights), 2, seed, 1)),
    );
    assert_follows(&counts, &law, "weighted reservoir");
    let (alike, law) =
        ordered(&weights, 2, (0..SEEDS).map(|seed| drawn(Sampler::Reservoir, &logs(&weights), 2, seed, 1)));
    assert_rejected(&alike, &law, "a reservoir that should look at weights");
    assert_follows(&alike, &[1.0 / 12.0; 12], "reservoir");
    assert_rejected(&counts, &[1.0 / 12.0; 12], "a weighted reservoir that should not");
}

#[test]
fn samplers_with_replacement_have_no_order_and_the_others_no_copies() {
    let (logs, keys) = ([0.0], Keys::of_indices(1));
    let weighted = karl_core::Weighted::by_logs(&logs, &keys).unwrap();
    for sampler in Sampler::ALL {
        assert_eq!(weighted.ranking(sampler, 7, 1).is_err(), sampler.replaces());
        assert_eq!(karl_core::Copies::new(weighted, sampler, 1, 7, 1).is_ok(), sampler.replaces());
        assert_eq!(Sampler::by_name(sampler.name()), Some(sampler));
    }
}

/// A change here is a breaking change: say so in the changelog.
#[test]
fn the_rows_of_seed_7_are_these() {
    let logs: Vec<f64> = (0..100).map(|row| f64::from(row * 37 % 48) / 12.0).collect();
    assert_eq!(drawn(Sampler::Gumbel, &logs, 6, 7, 1), drawn(Sampler::WeightedReservoir, &logs, 6, 7, 1));
    assert_eq!(drawn(Sampler::WeightedReservoir, &logs, 6, 7, 1), WEIGHTED);
    assert_eq!(drawn(Sampler::Reservoir, &logs, 6, 7, 1), ALIKE);
}

const WEIGHTED: [u32; 6] = [9, 57, 14, 88, 12, 36];
const ALIKE: [u32; 6] = [22, 73, 91, 82, 85, 69];
