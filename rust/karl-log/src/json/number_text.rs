//! Numbers that keep their text on the way through `serde_json`, which writes `1E5` and `1e5` as `1e+5`.
//!
//! The parser sees such a number as a string behind a mark; in the value it becomes a number again.

use std::fmt::Write;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

use serde_json::{Number, Value};

use super::project::skip_string;
use super::scalar::number;

/// Mark of such strings. It differs between processes, so no log can hold a string that begins with it.
static MARK: LazyLock<String> = LazyLock::new(|| {
    let mut mark = "number ".to_owned();
    for _ in 0..2 {
        let _ = write!(mark, "{:016x} ", RandomState::new().build_hasher().finish());
    }
    mark
});

/// Return the record with each number that `serde_json` would respell replaced by a marked string, and with
/// `words` also Python's words for numbers that are not finite. `None` if there is no such number, or if one
/// is a key: the parser then rejects the unchanged record.
pub(crate) fn marked(record: &[u8], words: bool) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let (mut at, mut copied) = (0, 0);
    while let Some(&byte) = record.get(at) {
        match byte {
            b'"' => at = skip_string(record, at).unwrap_or(record.len()),
            b'-' | b'0'..=b'9' | b'N' | b'I' => {
                let word = non_finite(&record[at..]);
                let token = word.unwrap_or_else(|| token(&record[at..]));
                if is_respelled(token) || (words && word.is_some()) {
                    if is_key(&record[at + token.len()..]) {
                        return None;
                    }
                    out.extend_from_slice(&record[copied..at]);
                    out.push(b'"');
                    out.extend_from_slice(MARK.as_bytes());
                    out.extend_from_slice(token);
                    out.push(b'"');
                    copied = at + token.len();
                }
                at += token.len().max(1);
            }
            _ => at += 1,
        }
    }
    if copied == 0 {
        return None;
    }
    out.extend_from_slice(&record[copied..]);
    Some(out)
}

/// Turn marked strings back into numbers.
pub(crate) fn unmark(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(number) = text.strip_prefix(MARK.as_str()) {
                *value = Value::Number(Number::from_string_unchecked(number.to_owned()));
            }
        }
        Value::Array(values) => values.iter_mut().for_each(unmark),
        Value::Object(fields) => fields.values_mut().for_each(unmark),
        _ => {}
    }
}

/// Return the leading bytes that may be part of a number.
fn token(bytes: &[u8]) -> &[u8] {
    let ends = |byte: &u8| !matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
    &bytes[..bytes.iter().position(ends).unwrap_or(bytes.len())]
}

/// Return whether the text after a token makes the token a key.
fn is_key(rest: &[u8]) -> bool {
    rest.trim_ascii_start().first() == Some(&b':')
}

/// Return whether a token is a number with an unsigned exponent or a capital `E`.
fn is_respelled(token: &[u8]) -> bool {
    let exponent = token.iter().position(|byte| matches!(byte, b'e' | b'E'));
    let other = |at: usize| token[at] == b'E' || !matches!(token.get(at + 1), Some(b'+' | b'-'));
    exponent.is_some_and(other) && number(token).is_some()
}

/// Return Python's word for a number that is not finite at the start of a text.
pub(super) fn non_finite(bytes: &[u8]) -> Option<&'static [u8]> {
    [&b"NaN"[..], b"Infinity", b"-Infinity"].into_iter().find(|word| bytes.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::reference_parser::parse;

    #[test]
    fn every_number_keeps_its_text() {
        let text = r#"{"a":1E5,"b":[1e5,-1.50E+07,1e-3,1E-3,0e0],"c":{"d":12345678901234567890123,"e":1e+400},"f":-0.0}"#;
        assert_eq!(parse(text.as_bytes()).unwrap().to_string(), text);
    }

    #[test]
    fn texts_and_what_is_no_number_are_left() {
        for record in [
            r"{1E5:1}",
            r#"{"a":"1E5 \" 2E5","1e5":"","b":true,"c":1e+5}"#,
            r#"{"a":1E}"#,
            r#"{"a":01e5}"#,
            "{",
        ] {
            assert_eq!(marked(record.as_bytes(), true), None, "{record}");
        }
        assert!(parse(br#"{"a":1E5,"b":1E}"#).is_err() && parse(br#"{"a":1E5"#).is_err());
    }

    #[test]
    fn a_text_that_looks_marked_stays_a_text() {
        let text = r#"{"a":"number 1E5","b":2E5}"#;
        assert_eq!(parse(text.as_bytes()).unwrap().to_string(), text);
    }
}
