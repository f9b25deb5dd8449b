//! Meaning of a wanted value: a name, a reward, or the order of a record.

use std::borrow::Cow;

pub use karl_core::reward::LARGEST;

use super::unescape::unescape;
use crate::time::moment;

/// Name of a record or of its group.
#[derive(Debug, PartialEq, Eq)]
pub enum Name<'a> {
    /// Absent or null.
    Missing,
    /// String, or the text of a number or boolean as written.
    Text(Cow<'a, str>),
    /// Array, object, or invalid JSON.
    Bad,
}

/// Parse an id, group or category.
#[must_use]
pub fn name(raw: Option<&[u8]>) -> Name<'_> {
    let Some(raw) = raw else { return Name::Missing };
    match raw {
        [b'"', ..] => unescape(raw).map_or(Name::Bad, Name::Text),
        b"null" => Name::Missing,
        b"true" => Name::Text(Cow::Borrowed("true")),
        b"false" => Name::Text(Cow::Borrowed("false")),
        _ => number(raw).map_or(Name::Bad, |text| Name::Text(Cow::Borrowed(text))),
    }
}

/// Separator of parts.
pub(crate) const BETWEEN: &str = "/";

/// Return a part of a joined name. A `/` in it is escaped as `\/`, and the backslashes before a `/` or at its
/// end are doubled, so that different lists of parts never give one name; every other part is unchanged.
pub(crate) fn escape_part(name: Cow<'_, str>) -> Cow<'_, str> {
    if !name.contains(BETWEEN) && !name.ends_with('\\') {
        return name;
    }
    let mut written = String::with_capacity(name.len() + 2);
    let mut run = 0;
    for letter in name.chars() {
        if letter == '/' {
            written.extend(std::iter::repeat_n('\\', run + 1));
        }
        run = if letter == '\\' { run + 1 } else { 0 };
        written.push(letter);
    }
    written.extend(std::iter::repeat_n('\\', run));
    Cow::Owned(written)
}

/// Join the parts to a name; a single part is the name itself, and no parts give `None`.
#[must_use]
pub fn join_parts(parts: Vec<String>) -> Option<String> {
    if parts.len() > 1 {
        return Some(
            parts.into_iter().map(|name| escape_part(name.into())).collect::<Vec<_>>().join(BETWEEN),
        );
    }
    parts.into_iter().next()
}

/// Reward of a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RewardValue {
    /// Absent, null or NaN.
    Missing,
    /// Finite number; `true` is 1 and `false` 0.
    Value(f64),
    /// `Infinity`, `-Infinity`, or a number with a magnitude above 1e100.
    Infinite,
    /// Not a number; a number in quotes is a string.
    NotANumber,
}

/// Parse a reward, exact to the last bit of f64.
#[must_use]
pub fn reward(raw: Option<&[u8]>) -> RewardValue {
    let Some(raw) = raw else { return RewardValue::Missing };
    match raw {
        [b'-' | b'0'..=b'9', ..] if raw != b"-Infinity" => {
            match short(raw).or_else(|| number(raw)?.parse::<f64>().ok()) {
                None => RewardValue::NotANumber,
                // Adding 0.0 turns -0.0 into 0.0, so that equal rewards have equal bits.
                Some(value) if value.abs() <= LARGEST => RewardValue::Value(value + 0.0),
                Some(_) => RewardValue::Infinite,
            }
        }
        b"null" | b"NaN" => RewardValue::Missing,
        b"true" => RewardValue::Value(1.0),
        b"false" => RewardValue::Value(0.0),
        b"Infinity" | b"-Infinity" => RewardValue::Infinite,
        _ => RewardValue::NotANumber,
    }
}

/// Parse a grade of Inspect: correct, partly, incorrect and no answer as 1, 0.5, 0 and 0; anything else is a reward.
pub(crate) fn grade(raw: Option<&[u8]>) -> RewardValue {
    match raw {
        Some(b"\"C\"") => RewardValue::Value(1.0),
        Some(b"\"P\"") => RewardValue::Value(0.5),
        Some(b"\"I\"" | b"\"N\"") => RewardValue::Value(0.0),
        raw => reward(raw),
    }
}

/// Parse the commonest numbers: no exponent, and at most fifteen digits. The integer and the power of ten are
/// exact, so their quotient is the correctly rounded number (Clinger 1990, doi:10.1145/93548.93557).
fn short(raw: &[u8]) -> Option<f64> {
    const TENS: [f64; 16] =
        [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    let digits = raw.strip_prefix(b"-").unwrap_or(raw);
    let (mut number, mut point) = (0, None);
    for (at, &byte) in digits.iter().take(17).enumerate() {
        match byte {
            b'0'..=b'9' => number = 10 * number + u64::from(byte - b'0'),
            b'.' if point.is_none() => point = Some(at),
            _ => return None,
        }
    }
    let whole = point.unwrap_or(digits.len());
    let fraction = point.map_or(0, |point| digits.len() - point - 1);
    let leading_zero = whole > 1 && digits.starts_with(b"0");
    if whole == 0 || (point.is_some() && fraction == 0) || leading_zero || whole + fraction > 15 {
        return None;
    }
    let number = number as f64 / TENS.get(fraction)?;
    Some(if raw.len() > digits.len() { -number } else { number })
}

/// Return the text of a JSON number; `None` for any other value.
pub(crate) fn number(raw: &[u8]) -> Option<&str> {
    after_number(raw)?.is_empty().then(|| std::str::from_utf8(raw).ok())?
}

/// Return whether a text begins with a number or a word that ends there.
pub(crate) fn is_scalar(text: &[u8]) -> bool {
    let rest = match text {
        [b't', ..] => text.strip_prefix(b"true"),
        [b'f', ..] => text.strip_prefix(b"false"),
        [b'n', ..] => text.strip_prefix(b"null"),
        _ => after_number(text),
    };
    rest.is_some_and(|rest| matches!(rest, [] | [b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r', ..]))
}

/// Return the text after a number: `-? (0 | [1-9] [0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?`.
fn after_number(text: &[u8]) -> Option<&[u8]> {
    let whole = text.strip_prefix(b"-").unwrap_or(text);
    let mut rest = match whole {
        [b'0', rest @ ..] => rest,
        _ => digits(whole)?,
    };
    if let [b'.', fraction @ ..] = rest {
        rest = digits(fraction)?;
    }
    if let [b'e' | b'E', b'+' | b'-', power @ ..] | [b'e' | b'E', power @ ..] = rest {
        rest = digits(power)?;
    }
    Some(rest)
}

/// Return the text after one or more digits.
fn digits(text: &[u8]) -> Option<&[u8]> {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (count > 0).then(|| &text[count..])
}

/// Value that orders records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Order {
    /// Number of any unit.
    Number(f64),
    /// Seconds since 1970 of an RFC 3339 time. Times of this century that are a microsecond apart differ.
    Time(f64),
}

impl Order {
    /// Return the number that is compared.
    pub(crate) const fn value(self) -> f64 {
        match self {
            Self::Number(value) | Self::Time(value) => value,
        }
    }

    /// Return whether it is a time.
    pub(crate) const fn is_time(self) -> bool {
        matches!(self, Self::Time(_))
    }
}

/// Parse an order; None if it is missing or anything but a finite number or an RFC 3339 time.
pub(crate) fn order(raw: Option<&[u8]>) -> Option<Order> {
    let raw = raw?;
    if raw.starts_with(b"\"") {
        let (seconds, nanoseconds) = moment(unescape(raw)?.as_bytes())?;
        return Some(Order::Time(seconds as f64 + f64::from(nanoseconds) * 1e-9));
    }
    // Adding 0.0 turns -0.0 into 0.0, which keeps the order.
    let value = number(raw)?.parse::<f64>().ok()? + 0.0;
    value.is_finite().then_some(Order::Number(value))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn rewards_by_case() {
        let cases: [(&str, RewardValue); 16] = [
            ("0.1", RewardValue::Value(0.1)),
            ("-0.0", RewardValue::Value(0.0)),
            ("9007199254740993", RewardValue::Value(9_007_199_254_740_992.0)),
            ("2.2250738585072011e-308", RewardValue::Value(2.225_073_858_507_201e-308)),
            ("true", RewardValue::Value(1.0)),
            ("false", RewardValue::Value(0.0)),
            ("null", RewardValue::Missing),
            ("NaN", RewardValue::Missing),
            ("Infinity", RewardValue::Infinite),
            ("-Infinity", RewardValue::Infinite),
            ("1e400", RewardValue::Infinite),
            ("\"0.5\"", RewardValue::NotANumber),
            ("[1]", RewardValue::NotANumber),
            ("01", RewardValue::NotANumber),
            ("+1", RewardValue::NotANumber),
            ("nan", RewardValue::NotANumber),
        ];
        for (text, wanted) in cases {
            assert_eq!(reward(Some(text.as_bytes())), wanted, "{text}");
        }
        assert_eq!(reward(None), RewardValue::Missing);
        assert!(matches!(reward(Some(b"-0.0")), RewardValue::Value(zero) if zero.is_sign_positive()));
    }

    #[test]
    fn names_by_case() {
        let text = |text: &'static str| Name::Text(Cow::Borrowed(text));
        assert_eq!(name(Some(br#""t\u0061sk\n""#)), text("task\n"));
        assert_eq!(name(Some(b"7")), text("7"));
        assert_eq!(name(Some(b"true")), text("true"));
        assert_eq!(name(Some(b"null")), Name::Missing);
        assert_eq!(name(None), Name::Missing);
        for bad in [&b"\"\\ud800\""[..], b"\"\xff\"", b"{}", b"[]", b"abc", b"\"a\x01b\""] {
            assert_eq!(name(Some(bad)), Name::Bad, "{}", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn an_order_is_a_finite_number_or_a_time() {
        assert_eq!(order(Some(b"-0.0")).map(|order| order.value().to_bits()), Some(0));
        assert_eq!(order(Some(b"17e2")), Some(Order::Number(1700.0)));
        assert_eq!(order(Some(br#""1970-01-02T00:00:00.25\u005a""#)), Some(Order::Time(86_400.25)));
        for bad in ["null", "true", "NaN", "Infinity", "1e999", "\"17\"", "\"2026-01-06\"", "[1]", "{}", ""] {
            assert_eq!(order(Some(bad.as_bytes())), None, "{bad}");
        }
        assert_eq!(order(None), None);
    }

    #[test]
    fn parts_without_the_sign_between_them_stay_as_they_are() {
        for name in ["", "a", "a b", r"a\b", r"\a", "\u{2215}"] {
            assert!(matches!(escape_part(name.into()), Cow::Borrowed(same) if same == name));
        }
        let written = ["a/b", r"a\/b", r"a\"].map(|name| escape_part(name.into()).into_owned());
        assert_eq!(written, [r"a\/b", r"a\\\/b", r"a\\"]);
    }

    #[test]
    fn no_two_lists_of_parts_are_joined_to_one_name() {
        let letters = ["", "x", "/", "\\"];
        let mut names: Vec<String> = vec![String::new()];
        for _ in 0..3 {
            names = names.iter().flat_map(|name| letters.map(|letter| format!("{name}{letter}"))).collect();
        }
        names.sort();
        names.dedup();
        let mut joined: HashMap<String, (String, String)> = HashMap::new();
        for a in &names {
            for b in &names {
                let text = format!("{}{BETWEEN}{}", escape_part(a.into()), escape_part(b.into()));
                let first = joined.entry(text).or_insert_with(|| (a.clone(), b.clone()));
                assert_eq!((&first.0, &first.1), (a, b));
            }
        }
    }
}
