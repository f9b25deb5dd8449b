//! JSON of transcripts: text copied unchanged from a transcript to a trajectory without parsing it into values, parsed
//! values as the text of messages, and the expected types of values.
//!
//! Copying buys, with the rest of `convert`, 385 MB/s on one thread (`benches/record/convert.json`). A tool that writes
//! a number in place of a text costs only that value: the values around it are read, and the place is reported.

use std::borrow::Cow;
use std::ops::Range;

use karl_log::framing::record_texts::each_record;
use karl_log::framing::{Batch, Pieces, StreamError, TextBatch};
use karl_log::input::source::Stream;
use karl_log::json::duplicate_keys::has_duplicate_key;
use karl_log::json::project::{Path, PathTree, Scan, ScanFault};
use karl_log::json::reference_parser;
use karl_log::rejects::FileTally;
use serde_json::{Map, Value};

use super::report::{DAMAGED, LineCounts, NO_TEXT};

/// Separator of joined texts.
const LINE_BREAK: &[u8] = b"\\n";

/// Return the content of a JSON string; empty if it is not a string.
pub(super) fn inside(raw: &[u8]) -> &[u8] {
    raw.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or_default()
}

/// Append the content of a JSON string to another on a new line; an empty one adds nothing.
pub(super) fn join(text: &mut Vec<u8>, more: &[u8]) {
    if !text.is_empty() && !more.is_empty() {
        text.extend_from_slice(LINE_BREAK);
    }
    text.extend_from_slice(more);
}

/// Return a text as the content of a JSON string.
pub(super) fn escaped(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 8);
    escape(text.as_bytes(), &mut out);
    out
}

/// Write a text as the content of a JSON string.
pub(super) fn escape(text: &[u8], out: &mut Vec<u8>) {
    let mut copied = 0;
    for (at, &byte) in text.iter().enumerate() {
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&text[copied..at]);
        copied = at + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(LINE_BREAK),
            b'\t' => out.extend_from_slice(b"\\t"),
            other => out.extend_from_slice(format!("\\u{other:04x}").as_bytes()),
        }
    }
    out.extend_from_slice(&text[copied..]);
}

/// Return a value that the reference parser accepts, with `U+FFFD` for halves of surrogate pairs and for
/// invalid UTF-8: a tool that truncates its output leaves such bytes. None if it is damaged otherwise.
pub(super) fn sound(raw: &[u8]) -> Option<Cow<'_, [u8]>> {
    if reference_parser::check(raw).is_ok() {
        return Some(Cow::Borrowed(raw));
    }
    let mended = whole_pairs(&String::from_utf8_lossy(raw)).into_bytes();
    reference_parser::check(&mended).is_ok().then_some(Cow::Owned(mended))
}

/// Return a whole record like [`sound`]. Repairs and duplicate keys are noted; the last duplicate counts.
pub(super) fn mended<'r>(raw: &'r [u8], counts: &mut LineCounts) -> Option<Cow<'r, [u8]>> {
    let sound = sound(raw);
    if sound.as_deref().is_some_and(has_duplicate_key) {
        counts.note("duplicate_keys");
    }
    if matches!(sound, Some(Cow::Owned(_))) {
        counts.note("mended");
    }
    sound
}

/// Return the text with `\ufffd` for each escape that is half of a pair.
fn whole_pairs(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = match (half(rest), half(rest.get(6..).unwrap_or_default())) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                out.push_str("\\ufffd");
                rest = &rest[6..];
                continue;
            }
            _ => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
        };
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    out + rest
}

/// Return the number of the escape `\uXXXX` at the start of a text.
fn half(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
}

/// Return the text under a key; `None` if it is not a text.
pub(super) fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str)
}

/// Return the text under a key as the content of a JSON string; empty if absent.
pub(super) fn quoted(value: &Value, key: &str) -> Vec<u8> {
    text(value, key).map(escaped).unwrap_or_default()
}

/// Return the elements under a key; none if it is not an array.
pub(super) fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Return the arguments of a call as JSON text: the text itself, or that of any other value; an empty object
/// if absent.
pub(super) fn arguments(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Kinds of parts with a text.
const TEXTS: [&str; 6] = ["text", "input_text", "output_text", "summary_text", "reasoning_text", ""];

/// Return the text of a message: a text, or its text parts on lines of their own; other parts are counted by
/// kind and left out. None if the parts contain no text.
pub(super) fn words(content: Option<&Value>, counts: &mut LineCounts) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    let mut lost = false;
    match content {
        Some(Value::String(text)) => all = escaped(text),
        Some(Value::Array(parts)) => {
            for part in parts {
                let kind = text(part, "type").unwrap_or_default();
                if let Some(words) = text(part, "text").filter(|_| TEXTS.contains(&kind)) {
                    join(&mut all, &escaped(words));
                } else {
                    counts.leave_out(NO_TEXT, kind.as_bytes());
                    lost = true;
                }
            }
        }
        _ => {}
    }
    (!lost || !all.is_empty()).then_some(all)
}

/// Return the non-empty fields of a value under the same names.
pub(super) fn pick(value: &Value, keys: &[&str]) -> Map<String, Value> {
    let field = |key: &&str| {
        let value = value.get(*key).filter(|value| !value.is_null())?;
        Some(((*key).to_owned(), value.clone()))
    };
    keys.iter().filter_map(field).collect()
}

/// Return the origin of a trajectory: its format, its file, and further facts.
pub(super) fn source(format: &str, file: &str, more: Map<String, Value>) -> Map<String, Value> {
    let mut source = Map::new();
    source.insert("format".to_owned(), format.into());
    source.insert("files".to_owned(), vec![Value::from(file)].into());
    source.extend(more);
    source
}

/// Types of JSON values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonType {
    Nothing,
    Flag,
    Number,
    Text,
    List,
    Object,
}

/// Allowed types of a value; an absent one is always allowed.
pub(super) type JsonTypes = &'static [JsonType];

pub(super) const FLAG: JsonTypes = &[JsonType::Flag];
pub(super) const NUMBER: JsonTypes = &[JsonType::Number];
pub(super) const TEXT: JsonTypes = &[JsonType::Text];
pub(super) const LIST: JsonTypes = &[JsonType::List];
pub(super) const OBJECT: JsonTypes = &[JsonType::Object];
/// Text, or parts with an optional text each.
pub(super) const WORDS: JsonTypes = &[JsonType::Text, JsonType::List];

impl JsonType {
    const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Flag => "true or false",
            Self::Number => "a number",
            Self::Text => "a text",
            Self::List => "a list",
            Self::Object => "an object",
        }
    }

    fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Nothing,
            Value::Bool(_) => Self::Flag,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::Text,
            Value::Array(_) => Self::List,
            Value::Object(_) => Self::Object,
        }
    }

    /// Return the type of a raw value.
    fn of_raw(raw: &[u8]) -> Self {
        match raw.first() {
            None | Some(b'n' | b'N') => Self::Nothing,
            Some(b't' | b'f') => Self::Flag,
            Some(b'"') => Self::Text,
            Some(b'[') => Self::List,
            Some(b'{') => Self::Object,
            Some(_) => Self::Number,
        }
    }
}

/// Count a value that is present with an unexpected type.
pub(super) fn expect(raw: Option<&[u8]>, wanted: JsonTypes, field: &str, counts: &mut LineCounts) {
    if let Some(raw) = raw {
        judge(JsonType::of_raw(raw), wanted, field, counts);
    }
}

/// Count a missing required value; return the reason to leave out its line.
pub(super) fn absent(wanted: JsonTypes, field: &str, counts: &mut LineCounts) -> &'static str {
    counts.mistyped(field.to_owned(), JsonType::Nothing.name(), named(wanted));
    DAMAGED
}

/// Count a value with invalid JSON inside, which the quick check of its line skipped; return the reason to
/// leave out the line.
pub(super) fn damaged(wanted: JsonTypes, field: &str, counts: &mut LineCounts) -> &'static str {
    counts.mistyped(field.to_owned(), "no JSON", named(wanted));
    DAMAGED
}

/// Count each value of an unexpected type, given paths with the expected types. In a path a dot precedes a
/// key, and `[]` is every element of a list.
pub(super) fn check(value: &Value, wanted: &[(&str, JsonTypes)], counts: &mut LineCounts) {
    check_at(String::new(), value, wanted, counts);
}

/// Check a value at `place` in its record, as [`check`] does.
pub(super) fn check_at(
    mut place: String,
    value: &Value,
    wanted: &[(&str, JsonTypes)],
    counts: &mut LineCounts,
) {
    for (path, wanted) in wanted {
        follow(value, path, wanted, &mut place, counts);
    }
}

/// Count a value that is present with an unexpected type; return whether it is.
pub(super) fn is_mistyped(
    value: Option<&Value>,
    wanted: JsonTypes,
    field: &str,
    counts: &mut LineCounts,
) -> bool {
    value.is_some_and(|value| judge(JsonType::of(value), wanted, field, counts))
}

/// Follow a path from a value at `place`.
fn follow(value: &Value, path: &str, wanted: JsonTypes, place: &mut String, counts: &mut LineCounts) {
    let before = place.len();
    if path.is_empty() {
        judge(JsonType::of(value), wanted, place, counts);
        return;
    }
    if let Some(rest) = path.strip_prefix("[]") {
        for (at, element) in value.as_array().into_iter().flatten().enumerate() {
            place.extend(["[", &at.to_string(), "]"]);
            follow(element, rest, wanted, place, counts);
            place.truncate(before);
        }
        return;
    }
    let path = path.strip_prefix('.').unwrap_or(path);
    let (key, rest) = path.split_at(path.find(['.', '[']).unwrap_or(path.len()));
    if let Some(inner) = value.get(key) {
        place.push_str(if before == 0 { "" } else { "." });
        place.push_str(key);
        follow(inner, rest, wanted, place, counts);
        place.truncate(before);
    }
}

fn judge(came: JsonType, wanted: JsonTypes, field: &str, counts: &mut LineCounts) -> bool {
    let wrong = came != JsonType::Nothing && !wanted.contains(&came);
    if wrong {
        counts.mistyped(field.to_owned(), came.name(), named(wanted));
    }
    wrong
}

fn named(wanted: JsonTypes) -> String {
    wanted.iter().map(|sort| sort.name()).collect::<Vec<_>>().join(" or ")
}

/// Pass each record of a stream with its place to `take`, which returns its end.
///
/// # Errors
/// Errors of the reader, and those of `advance`, which counts bytes.
pub(super) fn each(
    mut pieces: Pieces<Stream<'_>>,
    tally: &mut FileTally,
    advance: impl Fn(u64) -> karl_log::error::Result<()>,
    mut take: impl FnMut(&[u8], u64) -> std::result::Result<usize, ScanFault>,
) -> std::result::Result<(), StreamError> {
    while let Some(Batch { texts, passed }) = pieces.next_alone().map_err(StreamError::Read)? {
        if matches!(texts, TextBatch::Beyond) {
            return Err(StreamError::Beyond);
        }
        tally.lines += passed;
        let length = texts.num_bytes() as u64;
        let open = texts.one(tally).and_then(|text| {
            each_record(text, tally, |bytes, offset, tally| {
                let end = take(bytes, offset)?;
                tally.rows += 1;
                Ok(end)
            })
        });
        pieces.open(open);
        advance(length).map_err(StreamError::Other)?;
    }
    advance(0).map_err(StreamError::Other)
}

/// Raw values of some keys.
type KeyValues<'r, const N: usize> = [Option<&'r [u8]>; N];

/// Keys of objects, looked up together.
pub(super) struct ObjectKeys {
    scan: Scan,
    values: Vec<Option<Range<usize>>>,
}

impl ObjectKeys {
    pub(super) fn new(paths: &[&str]) -> Self {
        let paths: Vec<Path> = paths.iter().filter_map(|path| Path::parse(path).ok()).collect();
        let values = vec![None; paths.len()];
        Self { scan: Scan::new(PathTree::new(&paths)), values }
    }

    /// Return the values of the keys in their given order, and the end of the object.
    pub(super) fn first<'r, const N: usize>(
        &mut self,
        bytes: &'r [u8],
    ) -> std::result::Result<(KeyValues<'r, N>, usize), ScanFault> {
        let end = self.scan.object(bytes, &mut self.values)?.end;
        let mut found = [None; N];
        for (slot, range) in found.iter_mut().zip(&self.values) {
            *slot = range.clone().and_then(|range| bytes.get(range));
        }
        Ok((found, end))
    }

    /// Return the same for a text that is one object; None if it is not.
    pub(super) fn of<'r, const N: usize>(&mut self, object: &'r [u8]) -> Option<KeyValues<'r, N>> {
        self.first(object).ok().map(|(found, _)| found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_text_in_a_string_reads_back() {
        let text = "a\"b\\c\nd\te\u{1}\u{7f}ü\u{2028}";
        let quoted = [b"\"", &escaped(text)[..], b"\""].concat();
        assert_eq!(serde_json::from_slice::<String>(&quoted).unwrap(), text);
    }

    #[test]
    fn halves_of_pairs_are_replaced_and_whole_pairs_stay() {
        for (raw, wanted) in [
            (r#""\ud83d\ude00""#, Some(r#""\ud83d\ude00""#)),
            (r#""a\ud83d""#, Some(r#""a\ufffd""#)),
            (r#""\ude00\ud83d\ude00\\ud83d\\""#, Some(r#""\ufffd\ud83d\ude00\\ud83d\\""#)),
            (r#""\ud83dü""#, Some(r#""\ufffdü""#)),
            (r#""\ud8"#, None),
            (r#"{"a":1"#, None),
        ] {
            assert_eq!(sound(raw.as_bytes()).as_deref(), wanted.map(str::as_bytes), "{raw}");
        }
        assert_eq!(sound(b"\"a\xff\"").unwrap(), "\"a\u{fffd}\"".as_bytes());
    }

    #[test]
    fn each_value_of_another_sort_is_told_with_its_path() {
        let value =
            json!({"a": 1, "steps": [{"say": "x"}, {"say": 3}, 4, {"say": null, "of": [{"id": {}}]}]});
        let wanted = [
            ("a", TEXT),
            ("steps", LIST),
            ("steps[]", OBJECT),
            ("steps[].say", WORDS),
            ("steps[].of[].id", TEXT),
        ];
        let mut counts = LineCounts::default();
        check(&value, &wanted, &mut counts);
        counts.locate("f", 7);
        let told: Vec<_> =
            counts.mistyped.iter().map(|odd| (&odd.field[..], odd.came, &odd.wanted[..])).collect();
        assert_eq!(
            told,
            [
                ("a", "a number", "a text"),
                ("steps[1].say", "a number", "a text or a list"),
                ("steps[2]", "a number", "an object"),
                ("steps[3].of[0].id", "an object", "a text"),
            ]
        );
        assert!(counts.mistyped.iter().all(|odd| odd.offset == 7) && counts.notes["wrong_type"] == 4);
    }

    #[test]
    fn texts_and_values_have_the_same_sorts() {
        for text in ["null", "true", "false", "-1.5", "\"a\"", "[1]", "{\"a\":1}"] {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(JsonType::of_raw(text.as_bytes()), JsonType::of(&value), "{text}");
        }
    }
}
