//! Reference parser: `serde_json` over the whole record.
//!
//! It validates every written record and, with `--strict`, every record; the tests compare the fast scan of
//! [`crate::json::project`] with it. It differs from plain `serde_json` in two ways, both because Python's
//! `json.dumps` writes logs: the bare words `NaN`, `Infinity` and `-Infinity` are accepted (and become null),
//! and a number keeps its text (`mark_numbers`), so that nothing is rounded.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

use memchr::{memchr, memchr2, memmem};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::project::{Path, skip_space, skip_string};
use super::scalar::number;
use super::unescape::unescape;
use super::validate::is_valid;

/// Parse the whole record: the last duplicate key wins, nesting of up to 127 levels.
///
/// # Errors
/// Error of `serde_json`, with its position; also for a key that `serde_json` reserves for numbers or raw
/// text and would not read as a key.
pub fn parse(record: &[u8]) -> Result<Value, serde_json::Error> {
    parse_marked(record, false)
}

/// Parse like [`parse`], but keep the words `NaN`, `Infinity` and `-Infinity` as numbers with that text,
/// which are written as they were read.
///
/// # Errors
/// As [`parse`].
pub fn parse_exact(record: &[u8]) -> Result<Value, serde_json::Error> {
    parse_marked(record, true)
}

/// Parse a record with a conversation: as [`parse_exact`] inside the arguments of calls and the parameters of
/// tools, which are content, and as [`parse`] elsewhere, where pandas writes NaN for a missing value.
///
/// # Errors
/// As [`parse`].
pub fn parse_rollout(record: &[u8]) -> Result<Value, serde_json::Error> {
    let mut value = parse_exact(record)?;
    if may_be_non_finite(record) {
        forget_non_finite(&mut value);
    }
    Ok(value)
}

fn parse_marked(record: &[u8], words: bool) -> Result<Value, serde_json::Error> {
    let Some(mut value) = mark_numbers(record, words).and_then(|text| read(&text).ok()) else {
        return read(record);
    };
    unmark(&mut value);
    Ok(value)
}

/// Return whether a text may hold a word for a number that is not finite.
#[must_use]
pub fn may_be_non_finite(record: &[u8]) -> bool {
    [&b"NaN"[..], b"Infinity"].iter().any(|word| memmem::find(record, word).is_some())
}

/// Keys whose values belong to a call or a tool.
const CONTENT: [&str; 6] = ["arguments", "args", "input", "parameters", "input_schema", "inputSchema"];

/// Replace the numbers that are not finite by null, except in the arguments of calls and in tools.
pub fn forget_non_finite(value: &mut Value) {
    match value {
        Value::Number(_) if is_non_finite(value) => *value = Value::Null,
        Value::Array(values) => values.iter_mut().for_each(forget_non_finite),
        Value::Object(fields) => {
            let others = |(key, value): &(&String, &mut Value)| {
                !CONTENT.contains(&key.as_str()) || !matches!(value, Value::Object(_))
            };
            fields.iter_mut().filter(others).for_each(|(_, value)| forget_non_finite(value));
        }
        _ => {}
    }
}

/// Put the numbers that are not finite back where [`forget_non_finite`] left null.
pub fn restore_non_finite(value: &mut Value, exact: &Value) {
    match (value, exact) {
        (value @ Value::Null, exact) if is_non_finite(exact) => *value = exact.clone(),
        (Value::Array(values), Value::Array(exact)) => {
            values.iter_mut().zip(exact).for_each(|(value, exact)| restore_non_finite(value, exact));
        }
        (Value::Object(fields), Value::Object(exact)) => {
            for (key, value) in fields {
                exact.get(key).into_iter().for_each(|exact| restore_non_finite(value, exact));
            }
        }
        _ => {}
    }
}

fn is_non_finite(value: &Value) -> bool {
    value.as_number().is_some_and(|number| non_finite(number.as_str().as_bytes()).is_some())
}

/// Check that [`parse`] accepts the record, at a fraction of its cost: nothing is built.
///
/// # Errors
/// As [`parse`].
pub fn check(record: &[u8]) -> Result<(), serde_json::Error> {
    if is_valid(record) { Ok(()) } else { read::<Checked>(record).map(|_| ()) }
}

/// Return whether a record can be copied unchanged to a file of lines: valid as in [`check`], and on one
/// line.
pub(crate) fn is_row(record: &[u8]) -> bool {
    !is_broken(record) && check(record).is_ok()
}

/// Return whether a record spans more than one line. Python reads a lone carriage return as a line break too.
pub(crate) fn is_broken(record: &[u8]) -> bool {
    memchr2(b'\n', b'\r', record).is_some()
}

/// Maximum number of keys of an object to read.
const KEYS_MAX: usize = 1 << 16;

/// Return the first keys of an object, each once. Values are not built: they may take many times the memory
/// of their text.
pub(crate) fn keys(record: &[u8]) -> Result<Vec<String>, serde_json::Error> {
    read(record).map(|TopLevelKeys(keys)| keys.into_iter().map(|(key, _)| key).collect())
}

fn read<T: DeserializeOwned>(record: &[u8]) -> Result<T, serde_json::Error> {
    if reserved(record) {
        return Err(serde::de::Error::custom("a key that serde_json reserves"));
    }
    from_text(record).or_else(|error| match standardize(record) {
        Cow::Borrowed(_) => Err(error),
        Cow::Owned(rewritten) => serde_json::from_slice(&rewritten),
    })
}

/// Parse a text, whose encoding is checked as a whole: checking each string takes longer.
fn from_text<T: DeserializeOwned>(record: &[u8]) -> Result<T, serde_json::Error> {
    match str::from_utf8(record) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(record),
    }
}

/// Any value, parsed in full and discarded. Serde's own `IgnoredAny` checks less: it accepts invalid UTF-8,
/// lone surrogates, and nesting of any depth.
struct Checked;

impl<'de> Deserialize<'de> for Checked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Checked {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Self, A::Error> {
        while values.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    /// Visit an object, or a number: `serde_json` represents numbers with kept digits as objects too.
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        while members.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }
}

struct TopLevelKeys(Map<String, Value>);

impl<'de> Deserialize<'de> for TopLevelKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(TopLevelKeysVisitor)
    }
}

struct TopLevelKeysVisitor;

impl<'de> Visitor<'de> for TopLevelKeysVisitor {
    type Value = TopLevelKeys;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TopLevelKeys, A::Error> {
        let mut keys = Map::new();
        while let Some((key, _)) = map.next_entry::<String, IgnoredAny>()? {
            if keys.len() < KEYS_MAX {
                keys.insert(key, Value::Null);
            }
        }
        Ok(TopLevelKeys(keys))
    }
}

/// Return the position of the first invalid byte of a text; its end if there is none.
#[must_use]
pub fn fault(text: &[u8]) -> u64 {
    let at = parse(text).err().map_or(text.len(), |error| {
        let lines = text.split_inclusive(|&byte| byte == b'\n').take(error.line().saturating_sub(1));
        lines.map(<[u8]>::len).sum::<usize>() + error.column().saturating_sub(1)
    });
    at.min(text.len()) as u64
}

/// Return the value at a path; `None` if a key is absent or a parent is not an object.
#[must_use]
pub fn lookup<'v>(record: &'v Value, path: &Path) -> Option<&'v Value> {
    path.segments().iter().try_fold(record, |value, key| match value {
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        value => value.as_object()?.get(key),
    })
}

/// Take the value at a path out of a record and leave null; `None` as in [`lookup`], and if the value is
/// null.
pub(crate) fn take(record: &mut Value, path: &Path) -> Option<Value> {
    let found = path.segments().iter().try_fold(record, |value, key| match value {
        Value::Array(items) => items.get_mut(key.parse::<usize>().ok()?),
        value => value.as_object_mut()?.get_mut(key),
    })?;
    Some(found.take()).filter(|value| !value.is_null())
}

/// Return whether a key begins like the keys that `serde_json` reserves for numbers and raw text: such a
/// record could be misread, and nest deeper than the limit.
fn reserved(record: &[u8]) -> bool {
    // The dollar of such a key is the first character of a string, as it is or as an escape.
    if ["\"$", "\"\\u0024"].iter().all(|start| memmem::find(record, start.as_bytes()).is_none()) {
        return false;
    }
    let mut at = 0;
    while let Some(found) = record.get(at..).and_then(|rest| memchr(b'"', rest)) {
        let start = at + found;
        at = skip_string(record, start).unwrap_or(record.len());
        let telling = matches!(record.get(start + 1), Some(b'$' | b'\\'));
        if telling
            && record.get(skip_space(record, at)) == Some(&b':')
            && unescape(&record[start..at]).is_some_and(|key| key.starts_with("$serde_json::private::"))
        {
            return true;
        }
    }
    false
}

/// Return the text with Python's words for non-finite numbers, outside strings, replaced by null.
pub(crate) fn standardize(record: &[u8]) -> Cow<'_, [u8]> {
    let mut out = Vec::new();
    let (mut at, mut copied) = (0, 0);
    while let Some(&byte) = record.get(at) {
        match (byte, non_finite(&record[at..])) {
            (b'"', _) => at = skip_string(record, at).unwrap_or(record.len()),
            (_, Some(word)) => {
                out.extend_from_slice(&record[copied..at]);
                out.extend_from_slice(b"null");
                at += word.len();
                copied = at;
            }
            _ => at += 1,
        }
    }
    if copied == 0 {
        return Cow::Borrowed(record);
    }
    out.extend_from_slice(&record[copied..]);
    Cow::Owned(out)
}

/// Mark of such strings. It differs between processes, so no log can hold a string that begins with it.
static MARK: LazyLock<String> = LazyLock::new(|| {
    let mut mark = "number ".to_owned();
    for _ in 0..2 {
        let _ = write!(mark, "{:016x} ", RandomState::new().build_hasher().finish());
    }
    mark
});

/// Return the record with each number that `serde_json` would respell (it writes `1E5` and `1e5` as `1e+5`) replaced
/// by a marked string, which becomes a number again in the value ([`unmark`]), and with `words` also Python's words for numbers that are not finite. `None` if there is no such number, or if one
/// is a key: the parser then rejects the unchanged record.
fn mark_numbers(record: &[u8], words: bool) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let (mut at, mut copied) = (0, 0);
    while let Some(&byte) = record.get(at) {
        match byte {
            b'"' => at = skip_string(record, at).unwrap_or(record.len()),
            b'-' | b'0'..=b'9' | b'N' | b'I' => {
                let word = non_finite(&record[at..]);
                let token = word.unwrap_or_else(|| token(&record[at..]));
                if is_respelled(token) || (words && word.is_some()) {
                    if record[at + token.len()..].trim_ascii_start().first() == Some(&b':') {
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
fn unmark(value: &mut Value) {
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

/// Return whether a token is a number with an unsigned exponent or a capital `E`.
fn is_respelled(token: &[u8]) -> bool {
    let exponent = token.iter().position(|byte| matches!(byte, b'e' | b'E'));
    let other = |at: usize| token[at] == b'E' || !matches!(token.get(at + 1), Some(b'+' | b'-'));
    exponent.is_some_and(other) && number(token).is_some()
}

/// Return Python's word for a number that is not finite at the start of a text.
fn non_finite(bytes: &[u8]) -> Option<&'static [u8]> {
    [&b"NaN"[..], b"Infinity", b"-Infinity"].into_iter().find(|word| bytes.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::reference_parser::parse;

    #[test]
    fn python_numbers_become_null_outside_strings_only() {
        let value = parse(br#"{"a": NaN, "b": [-Infinity, Infinity], "c": "NaN \" Infinity"}"#).unwrap();
        assert_eq!(value.to_string(), r#"{"a":null,"b":[null,null],"c":"NaN \" Infinity"}"#);
    }

    #[test]
    fn python_numbers_stay_where_they_are_content() {
        let text = r#"{"a":NaN,"b":[-Infinity,Infinity],"c":"NaN","d":-1}"#;
        assert_eq!(parse_exact(text.as_bytes()).unwrap().to_string(), text);
        let call = r#"{"content":NaN,"function":{"arguments":{"x":NaN,"y":[-Infinity]}},"input":NaN}"#;
        let kept = r#"{"content":null,"function":{"arguments":{"x":NaN,"y":[-Infinity]}},"input":null}"#;
        let mut value = parse_rollout(call.as_bytes()).unwrap();
        assert_eq!(value.to_string(), kept);
        restore_non_finite(&mut value, &parse_exact(call.as_bytes()).unwrap());
        assert_eq!(value.to_string(), call);
        for text in [&b"{\"a\": NaNa}"[..], b"{NaN: 1}", b"{\"a\": -Inf}", b"[Na]"] {
            assert!(parse_exact(text).is_err(), "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn numbers_keep_their_digits() {
        let text = r#"{"a":123456789012345678901234567890,"b":1.0,"c":1e+400,"d":-0.0}"#;
        assert_eq!(parse(text.as_bytes()).unwrap().to_string(), text);
    }

    #[test]
    fn what_is_not_json_stays_an_error() {
        for text in [&b"{\"a\": NaNa}"[..], b"{\"a\": nan}", b"{\"a\": \"\\ud800\"}", b"{\"a\": [1}", b"{} x"]
        {
            assert!(parse(text).is_err() && check(text).is_err(), "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn what_is_checked_is_what_would_be_parsed() {
        let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let texts = [
            "1",
            "-1",
            "1.5",
            "123456789012345678901234567890",
            "true",
            "null",
            "-1.5E+7",
            "1e400",
            "01",
            "1.",
            "\"\\ud83d\\ude00\"",
            "\"\\ude00\"",
            "\"a\nb\"",
            "NaN",
            "{\"a\":1,\"a\":2}",
        ];
        let texts = texts.map(str::to_owned).into_iter().chain([nested(127), nested(128), nested(100_000)]);
        for text in texts.map(String::into_bytes).chain([b"\"\xff\"".to_vec(), b"{\"\xff\":1}".to_vec()]) {
            let row = [b"{\"x\":", &text[..], b"}"].concat();
            assert_eq!(check(&row).is_ok(), parse(&row).is_ok(), "{}", String::from_utf8_lossy(&row));
        }
    }

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
            assert_eq!(mark_numbers(record.as_bytes(), true), None, "{record}");
        }
        assert!(parse(br#"{"a":1E5,"b":1E}"#).is_err() && parse(br#"{"a":1E5"#).is_err());
    }

    #[test]
    fn a_text_that_looks_marked_stays_a_text() {
        let text = r#"{"a":"number 1E5","b":2E5}"#;
        assert_eq!(parse(text.as_bytes()).unwrap().to_string(), text);
    }
}
