//! One pass: the rows that are held, and what is told of the others.

use karl_core::filter::Verdict;
use karl_core::reward::AsymmetricScale;
use karl_core::rng::{gumbel, uniform};
use karl_core::sketch::Moments;
use karl_core::stream::{RewardStream, StreamSettings};
use karl_core::{Groups, Key, Keys, Population, Purpose, Rules, Sampler, Scopes, Score, Temperature, select};
use proptest::prelude::*;

use super::{assert_follows, assert_rejected, ordered};

fn settings(room: usize, seed: u64) -> StreamSettings {
    let (weights, min_reward, inverse_temperature) = (vec![1.0], Some(-0.5), 3.0);
    StreamSettings { weights, shared: Vec::new(), min_reward, shaping: None, inverse_temperature, seed, room }
}

/// The records of so many rows by (id, digest), each id three times at most.
fn records(rows: usize) -> Vec<Key> {
    let record = |row: usize| Key { id: (row / 3) as u128, ordinal: (row * 7919 % 1009) as u64 };
    let mut records: Vec<Key> = (0..rows).map(record).collect();
    records.sort_unstable();
    records
}

/// Quarters, some of them missing and some below the minimum.
fn rewards(rows: usize) -> Vec<f64> {
    (0..rows).map(|row| if row % 11 == 5 { f64::NAN } else { (row * 37 % 9) as f64 / 4.0 - 1.0 }).collect()
}

proptest! {
    #[test]
    fn a_stream_in_any_order_is_the_log(
        rows in 0..300_usize, room in 1..80_usize, seed: u64, turn in 0..300_usize, shaped: bool,
    ) {
        let shaping = shaped.then(|| AsymmetricScale::new(1.5, 0.25, 0.0).unwrap());
        let (records, rewards) = (records(rows), rewards(rows));
        let (ids, digests) = records.iter().map(|key| (key.id, key.ordinal)).unzip::<_, _, Vec<_>, Vec<_>>();
        let (keys, groups) = (Keys::sorted(ids), Groups::from_codes(vec![Groups::NONE; rows], 0).unwrap());
        let population = Population {
            keys: &keys,
            rewards: &rewards,
            groups: &groups,
            scopes: Scopes::Whole,
            fingerprints: None,
            digests: Some(&digests),
        };
        let whole = karl_core::SelectionSettings {
            shaping,
            score: Score::Raw,
            rules: Rules { min_reward: Some(-0.5), ..Rules::default() },
            temperature: Temperature::Inverse(3.0),
            sampler: Sampler::WeightedReservoir,
            seed,
            threads: 2,
        };
        let selection = select(&population, &whole).unwrap();
        let mut ranking = selection.ranking(&population, &whole).unwrap();
        let wanted = ranking.take(room);

        let mut stream = RewardStream::new(StreamSettings { shaping, ..settings(room, seed) }).unwrap();
        for at in 0..rows {
            let row = (at + turn) % rows;
            stream.push(records[row], &[rewards[row]], || row).unwrap();
        }
        let (facts, held) = stream.finish().unwrap();
        let held: Vec<u32> = held.map(|row| u32::try_from(row).unwrap()).collect();
        prop_assert_eq!(held, wanted);
        prop_assert_eq!(&facts.target, &selection.target, "to the last bit");
        let log_z = selection.target.log_z().next().unwrap();
        prop_assert_eq!(facts.threshold, ranking.threshold().map(|threshold| threshold - log_z));
        for verdict in [Verdict::Kept, Verdict::MissingReward, Verdict::BelowMinimum] {
            let count = selection.verdicts.iter().filter(|&&one| one == verdict).count() as u64;
            prop_assert_eq!(facts.count(verdict), count);
        }
        let expected = selection.target.expected(&selection.rows(&population), &rewards, 1);
        let apart = (facts.expected_reward - expected).abs();
        prop_assert!(apart < 1e-14 || expected.is_nan() && facts.expected_reward.is_nan(), "{apart}");
        // The sums that a log takes are of other code than those of a stream.
        let wanted = select(&population, &karl_core::SelectionSettings { sampler: Sampler::Gumbel, ..whole }).unwrap().target;
        for (found, wanted) in [
            (facts.target.reached_ess, wanted.reached_ess),
            (facts.target.reached_share, wanted.reached_share),
            (facts.target.top_share, wanted.top_share),
        ] {
            prop_assert!((found - wanted).abs() <= 1e-12 * wanted, "{found} {wanted}");
        }
    }

    #[test]
    fn moments_are_exact_in_any_order(mut values in prop::collection::vec(-1e3..1e3_f64, 1..60), far in -1e9..1e9_f64) {
        for value in &mut values {
            *value += far;
        }
        let of = |values: &mut dyn Iterator<Item = f64>| {
            let mut moments = Moments::default();
            values.for_each(|value| moments.push(value));
            (moments.count, moments.mean().to_bits(), moments.std().to_bits(), moments.min, moments.max)
        };
        let forward = of(&mut values.iter().copied());
        prop_assert_eq!(forward, of(&mut values.iter().rev().copied()));
        let (mean, variance) = crate::naive::mean_and_variance(&values, 0).unwrap();
        let (got_mean, got_std) = (f64::from_bits(forward.1), f64::from_bits(forward.2));
        // The twin rounds its mean, and each deviation from it.
        let step = (far.abs() + 1e3) * f64::EPSILON;
        prop_assert!((got_mean - mean).abs() <= step, "{got_mean} {mean}");
        prop_assert!((got_std - variance.sqrt()).abs() <= 2.0 * step, "{got_std} {}", variance.sqrt());
    }
}

#[test]
fn digests_are_the_ordinals_of_a_weighted_reservoir_and_of_no_other() {
    let (ids, digests) = (vec![5, 5, 5, 8], [40, 41, 41, 7]);
    let keys = Keys::sorted(ids.clone());
    let groups = Groups::from_codes(vec![Groups::NONE; 4], 0).unwrap();
    let rewards = [0.0; 4];
    let population = Population {
        keys: &keys,
        rewards: &rewards,
        groups: &groups,
        scopes: Scopes::Whole,
        fingerprints: None,
        digests: Some(&digests),
    };
    for sampler in Sampler::ALL.into_iter().filter(|sampler| !sampler.replaces()) {
        let settings = karl_core::SelectionSettings {
            shaping: None,
            score: Score::Raw,
            rules: Rules::default(),
            temperature: Temperature::Inverse(1.0),
            sampler,
            seed: 3,
            threads: 1,
        };
        let selection = select(&population, &settings).unwrap();
        let mut ranking = selection.ranking(&population, &settings).unwrap();
        let first = ranking.reach(1)[0];
        let key = |ordinal: u64| Key { id: ids[first.row as usize], ordinal };
        let own = uniform(3, key(keys.get(first.row as usize).ordinal), Purpose::Draw);
        let wanted = match sampler {
            Sampler::WeightedReservoir => gumbel(uniform(3, key(digests[first.row as usize]), Purpose::Draw)),
            Sampler::Gumbel => gumbel(own) - libm::log(4.0),
            Sampler::Reservoir => -own,
            _ => 0.0,
        };
        assert!((first.key - wanted).abs() < 1e-15, "{sampler:?}");
        let together = ranking.take(4).windows(2).any(|pair| pair == [1, 2]);
        assert!(together || sampler != Sampler::WeightedReservoir, "equal records share one number");
    }
}

#[test]
fn a_stream_is_plackett_luce_whatever_its_order() {
    let weights = [1.0, 2.0, 3.0, 4.0_f64];
    let draw = |seed: u64, best_last: bool| {
        let mut stream = RewardStream::new(StreamSettings {
            weights: vec![1.0],
            shared: Vec::new(),
            min_reward: None,
            shaping: None,
            inverse_temperature: 1.0,
            seed,
            room: 2,
        })
        .unwrap();
        for at in 0..4 {
            let row = if best_last { at } else { 3 - at };
            stream.push(Key::of_index(row), &[libm::log(weights[row])], || row).unwrap();
        }
        stream.finish().unwrap().1.map(|row| u32::try_from(row).unwrap()).collect::<Vec<u32>>()
    };
    for best_last in [false, true] {
        let (counts, law) = ordered(&weights, 2, (0..60_000).map(|seed| draw(seed, best_last)));
        assert_follows(&counts, &law, "stream");
        assert_rejected(&counts, &[1.0 / 12.0; 12], "a stream that should look at weights");
    }
}

#[test]
fn a_stream_refuses_what_cannot_be_weighed() {
    let push = |weights: Vec<f64>, inverse_temperature: f64, components: &[f64]| {
        let (min_reward, shaping) = (None, AsymmetricScale::new(2.0, 2.0, 0.0).ok());
        RewardStream::new(StreamSettings {
            weights,
            shared: Vec::new(),
            min_reward,
            shaping,
            inverse_temperature,
            seed: 0,
            room: 1,
        })?
        .push(Key::of_index(0), components, || ())
    };
    assert!(push(vec![1.0, 2.0], 1e3, &[1e100, 0.5]).is_ok());
    assert!(push(vec![1e300], 1.0, &[1e100]).is_ok(), "a reward beyond 1e100 is missing");
    assert!(push(vec![1.0], 1e300, &[1e100]).is_err(), "a weight beyond f64");
    assert!(push(vec![1.0], 1.0, &[f64::INFINITY]).is_err(), "an infinite component");
    assert!(push(vec![f64::NAN], 1.0, &[0.0]).is_err());
    assert!(push(vec![1.0], -1.0, &[0.0]).is_err());
}
