//! Names that spell one numeric value differently: `1`, `1.0` and `1e0` are three names.

use std::collections::{BTreeMap, BTreeSet};

use crate::json::scalar::number;

/// Maximum number of names with a point or an exponent to examine.
const MOST: usize = 100_000;

/// Numeric values that names spell in several ways.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MixedSpellings {
    /// Number of such values.
    pub numbers: usize,
    /// Spellings of the first of them.
    pub first: Vec<String>,
}

/// Return the numeric values that some names spell in several ways; `None` if there are none.
///
/// Integers have one plain spelling, so only names with a point, an exponent or `-0` are stored. Cost: two
/// passes over the names that begin like a number.
pub(super) fn mixed<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Option<MixedSpellings> {
    let mut spelled: BTreeMap<(bool, String, i64), BTreeSet<&str>> = BTreeMap::new();
    for name in names.clone().filter(|name| !is_plain(name)).take(MOST) {
        if let Some(number) = value(name) {
            spelled.entry(number).or_default().insert(name);
        }
    }
    if spelled.is_empty() {
        return None;
    }
    for name in names.filter(|name| is_plain(name)) {
        if let Some(spellings) = value(name).and_then(|number| spelled.get_mut(&number)) {
            spellings.insert(name);
        }
    }
    spelled.retain(|_, spellings| spellings.len() > 1);
    let first = spelled.values().next()?.iter().map(|&name| name.to_owned()).collect();
    Some(MixedSpellings { numbers: spelled.len(), first })
}

/// Return whether a name is not a number, or has no other plain spelling.
fn is_plain(name: &str) -> bool {
    let begins = name.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    !begins || (name != "-0" && !name.contains(['.', 'e', 'E']))
}

/// Return a number as its sign, its digits and the power of ten of the last; `None` for a text that is not a
/// number, or for a power out of the range of i64.
fn value(name: &str) -> Option<(bool, String, i64)> {
    let text = number(name.as_bytes())?;
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let negative = mantissa.starts_with('-');
    let (whole, fraction) = mantissa.trim_start_matches('-').split_once('.').unwrap_or((mantissa, ""));
    let whole = whole.trim_start_matches('-');
    let digits = format!("{whole}{fraction}");
    let short = digits.trim_end_matches('0');
    let significant = short.trim_start_matches('0');
    if significant.is_empty() {
        return Some((false, String::new(), 0));
    }
    let exponent: i64 = exponent.trim_start_matches('+').parse().ok()?;
    let dropped = i64::try_from(digits.len() - short.len()).ok()?;
    let power = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?.checked_add(dropped)?;
    Some((negative, significant.to_owned(), power))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Option<MixedSpellings> {
        mixed(names.iter().copied())
    }

    #[test]
    fn spellings_of_one_number_are_told() {
        for same in [
            ["1", "1.0"],
            ["1e5", "100000"],
            ["0", "-0"],
            ["1E5", "1e+5"],
            ["-2.50", "-25e-1"],
            ["0.0", "0e9"],
        ] {
            let found = of(&["a", same[0], "7", same[1], ""]).unwrap();
            let mut wanted = same.to_vec();
            wanted.sort_unstable();
            assert_eq!((found.numbers, found.first), (1, wanted.iter().map(ToString::to_string).collect()));
        }
        assert_eq!(of(&["1", "1.0", "1e0", "3.5", "35e-1"]).unwrap().numbers, 2);
    }

    #[test]
    fn other_names_are_not() {
        for names in [
            &["1", "2", "-1"][..],
            &["1.5", "1", "15"],
            &["01", "1"],
            &["1.", "1"],
            &["a1.0", "1"],
            &["1e9999999999999999999", "1"],
        ] {
            assert_eq!(of(names), None, "{names:?}");
        }
    }
}
