//! Outputs for a seed are API. A test that fails here announces a breaking change: say so in the changelog.
//!
//! Ids and uniform numbers were computed with python-xxhash 4 from the formulas in `rng`, not with this crate.

use Purpose::{Draw, Order, Split};
use karl_core::numeric::sum::sum;
use karl_core::output_order::write_order;
use karl_core::rng::xxh3::Hashes;
use karl_core::rng::{gumbel, id128, uniform};
use karl_core::sample::gumbel::keys;
use karl_core::split::{Group, split};
use karl_core::{
    Groups, Key, Keys, Population, Purpose, Rules, Sampler, Scopes, Score, SelectionSettings, Temperature,
    select,
};

const GUMBELS: [u64; 5] = [
    0xc00c_fad2_2446_6598,
    0xbfc7_c29e_1d49_c57a,
    0x3fd7_74f2_9bdd_6b9f,
    0x4002_00c0_95d6_59de,
    0x4042_5e4f_7b27_37fa,
];

const KEYS: [u64; 4] =
    [0xbfb4_fac1_aa54_e9a0, 0xbfed_7086_af22_64c0, 0xc001_f006_bcab_1dbc, 0xfff0_0000_0000_0000];

const RAW: [u32; 10] = [9, 57, 14, 88, 12, 37, 36, 70, 81, 45];
const ZSCORE: [u32; 10] = [9, 57, 14, 88, 12, 37, 36, 63, 81, 70];

/// 3.8251290349089686
const INVERSE_TEMPERATURE: u64 = 0x400e_99dd_405f_5000;
const LOG_WEIGHTS: u64 = 0xc080_1b72_edaf_1c3f;

const WRITTEN: [u32; 10] = [37, 14, 36, 12, 70, 81, 9, 57, 88, 45];
const SPLITS: [usize; 20] = [0, 0, 0, 0, 0, 1, 1, 0, 1, 1, 0, 2, 0, 0, 1, 2, 0, 1, 0, 0];

#[test]
fn ids_are_those_of_xxh3() {
    assert_eq!(id128(b""), 0x99aa_06d3_0147_98d8_6001_c324_468d_497f);
    assert_eq!(id128(b"session-0001"), 0x9c14_b243_d049_a737_9846_71b3_f37d_f87e);
}

#[test]
fn uniforms_are_those_of_xxh3() {
    let session = Key { id: id128(b"session-0001"), ordinal: 3 };
    let pinned = [
        (0, Key::of_index(0), Draw, 0.744_647_975_448_137_8),
        (7, Key::of_index(0), Draw, 0.337_765_677_764_285_1),
        (7, Key::of_index(0), Order, 0.216_977_482_276_078_71),
        (7, Key::of_index(0), Split, 0.727_807_931_871_082_7),
        (7, Key::of_index(1), Draw, 0.218_287_910_639_519_36),
        (7, Key { id: 0, ordinal: 1 }, Draw, 0.142_879_754_408_280_16),
        (u64::MAX, session, Order, 0.321_408_930_314_298_96),
    ];
    for (seed, key, purpose, wanted) in pinned {
        assert_eq!(uniform(seed, key, purpose).to_bits(), f64::to_bits(wanted), "{seed} {key:?} {purpose:?}");
    }
}

/// The crate hashes one text at a time; columns have their own form, which may not differ in any bit.
#[test]
fn uniforms_of_columns_are_those_of_single_keys() {
    let words = (0..40_000_u64).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for (seed, purpose) in [(0, Draw), (7, Order), (u64::MAX, Purpose::Alias), (1 << 63, Purpose::Drop)] {
        let hashes = Hashes::new(seed, purpose);
        for (at, word) in words.clone().enumerate() {
            let id = u128::from(word) << (at % 65) | at as u128;
            let key = Key { id, ordinal: if at % 3 == 0 { 0 } else { word.rotate_left(17) } };
            assert_eq!(hashes.uniform(key).to_bits(), uniform(seed, key, purpose).to_bits(), "{key:?}");
            let index = Key::of_index(at << (at % 40));
            let found = ((hashes.of_index(at << (at % 40)) >> 12) as f64 + 0.5) * f64::EPSILON;
            assert_eq!(found.to_bits(), uniform(seed, index, purpose).to_bits(), "{index:?}");
        }
    }
}

/// To the bit on every target: this is what makes a draw the same on Linux and macOS.
#[test]
fn gumbel_numbers_have_the_bits_of_libm() {
    let bits = [0.25 * f64::EPSILON, 0.3, 0.5, 0.9, 1.0 - f64::EPSILON / 2.0].map(|u| gumbel(u).to_bits());
    assert_eq!(bits, GUMBELS);
}

#[test]
fn keys_have_the_same_bits() {
    let keys = keys(&[0.0, -0.5, -3.0, f64::NEG_INFINITY], &Keys::of_indices(4), 7).unwrap();
    assert_eq!(keys.into_iter().map(f64::to_bits).collect::<Vec<_>>(), KEYS);
}

const ROWS: usize = 100;

fn rows() -> Keys {
    Keys::of_indices(ROWS)
}

/// The first ten rows, the inverse temperature and the log weights.
fn drawn(score: Score, temperature: Temperature) -> (Vec<u32>, f64, Vec<f64>) {
    let rewards: Vec<f64> = (0..ROWS).map(|row| ((row * 37) % 48) as f64 / 48.0).collect();
    let ids: Vec<i64> = (0..10).flat_map(|group| [group; 10]).collect();
    let population = Population {
        keys: &rows(),
        rewards: &rewards,
        groups: &Groups::from_ids(&ids).unwrap(),
        scopes: Scopes::Whole,
        fingerprints: None,
        digests: None,
    };
    let settings = SelectionSettings {
        shaping: None,
        score,
        rules: Rules::default(),
        temperature,
        sampler: Sampler::Gumbel,
        seed: 7,
        threads: 2,
    };
    let selection = select(&population, &settings).unwrap();
    let weighted = selection.weighted(&population).unwrap();
    let logs = (0..ROWS).map(|row| weighted.log(row)).collect();
    let drawn = selection.ranking(&population, &settings).unwrap().take(10);
    (drawn, selection.target.inverse_temperature, logs)
}

#[test]
fn the_draw_of_seed_7_is_this_one() {
    let zscore = Score::ZScore { ddof: 0, eps: 1e-6 };
    for (score, wanted) in [(Score::Raw, RAW), (zscore, ZSCORE)] {
        assert_eq!(drawn(score, Temperature::Ess(0.5)).0, wanted, "{score:?}");
    }
}

#[test]
fn the_temperature_found_has_the_same_bits() {
    let (_, found, logs) = drawn(Score::Raw, Temperature::Ess(0.5));
    assert_eq!(found.to_bits(), INVERSE_TEMPERATURE, "{found} {:x}", found.to_bits());
    let total = sum(logs.into_iter());
    assert_eq!(total.to_bits(), LOG_WEIGHTS, "{total} {:x}", total.to_bits());
}

#[test]
fn the_order_of_writing_and_the_splits_are_these() {
    let written = write_order(&RAW, &rows(), 7).unwrap();
    assert_eq!(written, WRITTEN);
    let groups: Vec<Group> = rows().iter().take(20).zip(1..).map(|(key, rows)| Group { key, rows }).collect();
    let splits = split(&groups, &[0.6, 0.3, 0.1], 7, 4).unwrap();
    assert_eq!(splits, SPLITS);
}
