//! The kernels beside the chain: their laws, and their pinned rows.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    reason = "a weight below 2^62, to the bit"
)]

use karl_core::rng::{id128, uniform};
use karl_core::sample::a_expj::{by_logs, weighted_reservoir};
use karl_core::sample::algorithm_l::{Jumps, reservoir, stream};
use karl_core::sample::{Alias, priority, var_opt};
use karl_core::sketch::{Law, Moments, TopK, VarOptSketch};
use karl_core::{Key, Keys, Purpose};

use super::{assert_follows, assert_rejected, logs, ordered};

const SEEDS: u64 = 40_000;

#[test]
fn algorithm_l_takes_every_set_alike() {
    // Sets of 2 of 6, by their two numbers.
    let pairs: Vec<[u64; 2]> = (0..6).flat_map(|a| (a + 1..6).map(move |b| [a, b])).collect();
    let mut counts = vec![0.0; pairs.len()];
    for seed in 0..SEEDS {
        let mut drawn = reservoir(0..6_u64, 2, stream(seed));
        drawn.sort_unstable();
        counts[pairs.iter().position(|pair| *pair == drawn[..]).unwrap()] += 1.0;
    }
    assert_follows(&counts, &[1.0 / 15.0; 15], "Algorithm L");
    let front: Vec<f64> = pairs.iter().map(|pair| if pair[0] == 0 { 0.08 } else { 0.06 }).collect();
    assert_rejected(&counts, &front, "one that favours the front");
}

#[test]
fn exponential_jumps_are_plackett_luce() {
    let weights = [1.0, 2.0, 3.0, 4.0, 0.5];
    let draws = |seed| by_logs(&logs(&weights), 2, seed).unwrap();
    let (counts, law) = ordered(&weights, 2, (0..SEEDS).map(draws));
    assert_follows(&counts, &law, "A-ExpJ");
    let squared: Vec<f64> = weights.iter().map(|weight| weight * weight).collect();
    let (_, wrong) = ordered(&squared, 2, std::iter::empty());
    assert_rejected(&counts, &wrong, "squared weights");
}

#[test]
fn a_reservoir_larger_than_its_stream_holds_all_of_it() {
    assert_eq!(reservoir(0..4, 9, stream(1)), [0, 1, 2, 3]);
    assert!(reservoir(0..4, 0, stream(1)).is_empty());
    let mut all = by_logs(&[0.0, f64::NEG_INFINITY, -3.0], 9, 1).unwrap();
    all.sort_unstable();
    assert_eq!(all, [0, 2], "and nothing without weight");
    assert!(weighted_reservoir([('a', 1.0)], 0, stream(1)).is_empty());
    assert!(by_logs(&[f64::NAN], 1, 1).is_err());
}

#[test]
fn a_long_stream_costs_few_numbers() {
    let mut used = 0;
    let mut numbers = stream(5);
    reservoir(0..1_000_000, 10, || {
        used += 1;
        numbers()
    });
    // About 3 k ln(n / k) = 345.
    assert!(used < 1_000, "{used}");
    assert!(Jumps::new(1, stream(1)).take(100).all(|jump| jump.slot == 0));
}

/// A change here is a breaking change: say so in the changelog.
#[test]
fn the_rows_of_seed_7_are_these() {
    assert_eq!(reservoir(0..1_000, 5, stream(7)), UNIFORM);
    let logs: Vec<f64> = (0..100).map(|row| f64::from(row * 37 % 48) / 12.0).collect();
    assert_eq!(by_logs(&logs, 5, 7).unwrap(), WEIGHTED);
}

/// A change here is a breaking change: say so in the changelog.
#[test]
fn the_rows_and_bytes_of_seed_7_are_these() {
    let logs: Vec<f64> = (0..100).map(|row| f64::from(row * 37 % 48) / 12.0).collect();
    let weights: Vec<f64> = logs.iter().map(|log| log + 0.5).collect();
    let keys = Keys::of_indices(100);
    let rows = [
        Alias::new(&logs).unwrap().draw(5, 7),
        priority::draw(&weights, 5, &keys, 7, 1).unwrap().rows,
        var_opt::draw(&weights, 5, &keys, 7).unwrap().rows,
    ];
    assert_eq!(rows, ROWS);
    let mut top = TopK::new(Law::Gumbel, 5, 7);
    top.update(&keys, Some(&logs)).unwrap();
    let mut sample = VarOptSketch::new(5, 7).unwrap();
    sample.update(&keys, &weights).unwrap();
    let mut moments = Moments::default();
    moments.update(&weights).unwrap();
    let hashes = [top.to_bytes(), sample.to_bytes(), moments.to_bytes()].map(|bytes| id128(&bytes));
    assert_eq!(hashes, BYTES, "{hashes:x?}");
}

/// By an alias table, by priority and by a variance-optimal sample.
const ROWS: [[u32; 5]; 3] = [[88, 33, 93, 58, 97], [22, 83, 73, 85, 98], [11, 21, 33, 57, 79]];
const BYTES: [u128; 3] = [
    0x4632_46a8_f8ad_69a6_3a13_cfce_61e3_7bf5,
    0xf75d_047a_86d5_2275_a1eb_3743_d0cb_13f9,
    0xeaea_bd3a_fe30_1982_fbc1_c97e_4f36_f80b,
];

/// Integers, so that the parts of a row add up to its weight however far weights are apart.
#[test]
fn an_alias_table_is_its_weights_without_rounding() {
    let logs: Vec<f64> = (0..1000).map(|row| -f64::from(row * 7919 % 1000) / 30.0).collect();
    let found = Alias::new(&logs).unwrap().probabilities();
    let whole: Vec<u128> = logs.iter().map(|&log| (libm::exp(log) * 2f64.powi(62)) as u128).collect();
    let total: u128 = whole.iter().sum();
    assert!(found.iter().zip(&whole).all(|(&found, &whole)| found == whole as f64 / total as f64));
}

/// Weights by which each cell holds one row whole: that row is told by the first uniform of a draw alone.
#[test]
fn the_cells_of_an_alias_table_are_filled_by_the_last_row_not_below_the_mean() {
    let (none, half) = (f64::NEG_INFINITY, -std::f64::consts::LN_2);
    for (logs, cells) in
        [(vec![none, none, 0.0, 0.0], vec![3, 3, 2, 2]), (vec![none, 0.0, half], vec![2, 1, 1])]
    {
        for (at, row) in Alias::new(&logs).unwrap().draw(200, 7).into_iter().enumerate() {
            let u = uniform(7, Key { id: at as u128, ordinal: 0 }, Purpose::Alias);
            assert_eq!(row, cells[(u * cells.len() as f64) as usize], "draw {at} of {logs:?}");
        }
    }
}

/// With uniforms of 1/2 a jump from a key of ln(1/2) is over a weight of 1: the item that makes it up is taken.
#[test]
fn a_jump_ends_at_the_item_whose_weight_makes_it_up() {
    assert_eq!(weighted_reservoir([('a', 1.0), ('b', 1.0)], 1, || 0.5), ['b']);
}

const UNIFORM: [u64; 5] = [44, 155, 154, 254, 652];
const WEIGHTED: [u32; 5] = [36, 22, 19, 58, 80];
