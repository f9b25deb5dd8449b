//! Published formulas and rivals' numbers: `tests/golden/*.json`, each with its maker named inside.

mod advantages;
mod draws;
mod streams;
mod targets;

use karl_core::{Groups, Ranking};
use serde_json::Value;

/// Relative, for f64 formulas.
pub(crate) const CLOSE: f64 = 1e-9;

/// Rewards that differ by 1e-7 have deviations known to 9 digits at best: the mean is rounded at 1e-16.
pub(crate) const NEAR_EQUAL: f64 = 1e-7;

pub(crate) fn golden(name: &str) -> Value {
    let path = format!("{}/../../tests/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// All rows in one group.
pub(crate) fn whole(rows: usize) -> Groups<'static> {
    Groups::from_codes(vec![0; rows], usize::from(rows > 0)).unwrap()
}

/// A number; the files spell infinities as strings.
pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| value.as_str().unwrap().parse().unwrap())
}

pub(crate) fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(number).collect()
}

pub(crate) fn rows(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|row| u32::try_from(row.as_u64().unwrap()).unwrap()).collect()
}

pub(crate) fn each<'a>(value: &'a Value, key: &str) -> &'a Vec<Value> {
    value[key].as_array().unwrap()
}

pub(crate) fn assert_close(got: f64, wanted: f64, tolerance: f64, what: &str) {
    let same = got.to_bits() == wanted.to_bits() || (got - wanted).abs() <= tolerance * wanted.abs();
    assert!(same, "{what}: got {got:e}, wanted {wanted:e}");
}

pub(crate) fn assert_all_close(got: &[f64], wanted: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), wanted.len(), "{what}");
    got.iter().zip(wanted).for_each(|(&got, &wanted)| assert_close(got, wanted, tolerance, what));
}

pub(crate) fn order(keys: Vec<f64>) -> Vec<u32> {
    Ranking::new(keys).unwrap().take(usize::MAX)
}
