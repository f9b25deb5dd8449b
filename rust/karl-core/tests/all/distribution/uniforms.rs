//! The uniform numbers under every draw, and the statistics themselves.

use karl_core::rng::uniform;
use karl_core::{Key, Purpose};

use super::{assert_follows, assert_rejected};
use crate::statistics::{pairs, uniformity, upper_gamma};

const NUMBERS: usize = 100_000;

/// Streams a correct hash leaves independent: by record, by seed, by ordinal, by far ids, by purpose.
fn streams() -> [(&'static str, Vec<f64>); 5] {
    let number = |seed, id: u128, ordinal, purpose| uniform(seed, Key { id, ordinal }, purpose);
    let each = |of: &dyn Fn(usize) -> f64| (0..NUMBERS).map(of).collect();
    [
        ("record", each(&|i| number(7, i as u128, 0, Purpose::Draw))),
        ("seed", each(&|i| number(i as u64, 1, 0, Purpose::Draw))),
        ("ordinal", each(&|i| number(7, 1, i as u64, Purpose::Draw))),
        ("top bits of the id", each(&|i| number(7, (i as u128) << 100, 0, Purpose::Order))),
        ("purpose", each(&|i| number(7, i as u128 / 2, 0, [Purpose::Draw, Purpose::Order][i % 2]))),
    ]
}

#[test]
fn uniforms_are_uniform_and_follow_nothing() {
    for (name, numbers) in streams() {
        assert!(numbers.iter().all(|&u| u > 0.0 && u < 1.0));
        assert_follows(uniformity(numbers.iter().copied(), 256), name);
        assert_follows(pairs(numbers.windows(2).step_by(2).map(|pair| (pair[0], pair[1])), 16), name);
        let low_bits = numbers.iter().map(|u| (u * 2f64.powi(40)).fract());
        assert_follows(uniformity(low_bits, 256), name);
    }
}

#[test]
fn numbers_that_follow_each_other_are_rejected() {
    let numbers: Vec<f64> = (0..NUMBERS).map(|i| (i as f64 * 0.618_033_988_749_895).fract()).collect();
    assert_follows(uniformity(numbers.iter().copied(), 256), "a lattice is uniform one by one");
    assert_rejected(pairs(numbers.windows(2).step_by(2).map(|pair| (pair[0], pair[1])), 16), "a lattice");
    assert_rejected(uniformity(numbers.iter().map(|u| u * u), 256), "squares");
}

#[test]
fn the_tail_of_chi_square_is_exact() {
    // Closed forms: two degrees of freedom give exp(-x / 2); the others are printed in every table.
    let cases = [
        (2.0, 5.991_464_547_107_98, 0.05),
        (1.0, 3.841_458_820_694_124, 0.05),
        (10.0, 18.307_038_053_275_146, 0.05),
    ];
    for (free, statistic, tail) in cases {
        assert!((upper_gamma(free / 2.0, statistic / 2.0) - tail).abs() < 1e-12, "{free}");
    }
    for statistic in [0.01f64, 0.5, 2.0, 30.0, 600.0] {
        let exact = libm::exp(-statistic / 2.0);
        assert!((upper_gamma(1.0, statistic / 2.0) - exact).abs() <= 1e-12 * exact, "{statistic}");
    }
}
