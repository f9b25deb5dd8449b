//! What holds for every input: each function against its slow twin, and the invariances it promises.

mod exact;
mod numeric;
mod rows;
mod score;
mod target;

use karl_core::Score;
use proptest::prelude::*;

/// Relative to the size of what was added up: rounding of the plain sums in the twins, with room to spare.
pub(crate) const CLOSE: f64 = 1e-9;

pub(crate) const SCORES: [Score; 5] = [
    Score::Raw,
    Score::Centre,
    Score::ZScore { ddof: 0, eps: 1e-6 },
    Score::ZScore { ddof: 1, eps: 1e-4 },
    Score::LeaveOneOut,
];

pub(crate) fn close(a: f64, b: f64) -> bool {
    (a.is_nan() && b.is_nan())
        || a.to_bits() == b.to_bits()
        || (a - b).abs() <= CLOSE * (1.0 + a.abs().max(b.abs()))
}

pub(crate) fn all_close(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(&a, &b)| close(a, b))
}

pub(crate) fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// A reward as logs have them: a few values that repeat, some in between, some missing.
pub(crate) fn reward() -> impl Strategy<Value = f64> {
    // Multiples of 1/64 far apart from each other, so that a group is either constant or well conditioned.
    prop_oneof![
        4 => prop::sample::select(vec![0.0, 0.25, 0.5, 1.0, -0.0, -1.0]),
        4 => (-640..640_i32).prop_map(|k| f64::from(k) / 64.0),
        1 => Just(f64::NAN),
    ]
}

pub(crate) fn code() -> impl Strategy<Value = Option<u8>> {
    prop_oneof![6 => (0..5_u8).prop_map(Some), 1 => Just(None)]
}

/// Rewards and codes of the same rows.
pub(crate) fn log() -> impl Strategy<Value = (Vec<f64>, Vec<Option<u8>>)> {
    prop::collection::vec((reward(), code()), 0..40).prop_map(|rows| rows.into_iter().unzip())
}

pub(crate) fn config() -> ProptestConfig {
    // A failing input is printed; there is no file of them to keep.
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}
