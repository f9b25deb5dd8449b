//! What sort of value a format has where, to tell of one that is another.
//!
//! A tool that writes a number where a text is wanted costs that value alone: what stands around it is read, and the
//! place is told.

use serde_json::Value;

use super::report::{DAMAGED, Made};

/// The sorts of values that JSON has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonType {
    Nothing,
    Flag,
    Number,
    Text,
    List,
    Object,
}

/// What may stand somewhere; nothing may, anywhere.
pub(super) type JsonTypes = &'static [JsonType];

pub(super) const FLAG: JsonTypes = &[JsonType::Flag];
pub(super) const NUMBER: JsonTypes = &[JsonType::Number];
pub(super) const TEXT: JsonTypes = &[JsonType::Text];
pub(super) const LIST: JsonTypes = &[JsonType::List];
pub(super) const OBJECT: JsonTypes = &[JsonType::Object];
/// A text, or parts of which each may have one.
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

    /// Of a value as it stands in the text.
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

/// Counts a value that is there, and is of another sort than wanted.
pub(super) fn expect(raw: Option<&[u8]>, wanted: JsonTypes, field: &str, made: &mut Made) {
    if let Some(raw) = raw {
        judge(JsonType::of_raw(raw), wanted, field, made);
    }
}

/// Counts a value that is not there and has to be; the reason why its line is left out.
pub(super) fn absent(wanted: JsonTypes, field: &str, made: &mut Made) -> &'static str {
    made.mistyped(field.to_owned(), JsonType::Nothing.name(), named(wanted));
    DAMAGED
}

/// Counts a value that is no JSON inside, where the quick look at its line did not look; the reason why the line is left
/// out.
pub(super) fn damaged(wanted: JsonTypes, field: &str, made: &mut Made) -> &'static str {
    made.mistyped(field.to_owned(), "no JSON", named(wanted));
    DAMAGED
}

/// Counts each value of another sort than wanted, where a list of paths says what is. In a path a dot stands before a key,
/// and `[]` for every element of a list.
pub(super) fn check(value: &Value, wanted: &[(&str, JsonTypes)], made: &mut Made) {
    check_at(String::new(), value, wanted, made);
}

/// As [`check`], of a value that stands at `place` in its record.
pub(super) fn check_at(mut place: String, value: &Value, wanted: &[(&str, JsonTypes)], made: &mut Made) {
    for (path, wanted) in wanted {
        follow(value, path, wanted, &mut place, made);
    }
}

/// Counts a value that is there, and is of another sort than wanted; whether it is.
pub(super) fn is_mistyped(value: Option<&Value>, wanted: JsonTypes, field: &str, made: &mut Made) -> bool {
    value.is_some_and(|value| judge(JsonType::of(value), wanted, field, made))
}

/// Goes on along a path from a value that stands at `place`.
fn follow(value: &Value, path: &str, wanted: JsonTypes, place: &mut String, made: &mut Made) {
    let before = place.len();
    if path.is_empty() {
        judge(JsonType::of(value), wanted, place, made);
        return;
    }
    if let Some(rest) = path.strip_prefix("[]") {
        for (at, element) in value.as_array().into_iter().flatten().enumerate() {
            place.extend(["[", &at.to_string(), "]"]);
            follow(element, rest, wanted, place, made);
            place.truncate(before);
        }
        return;
    }
    let path = path.strip_prefix('.').unwrap_or(path);
    let (key, rest) = path.split_at(path.find(['.', '[']).unwrap_or(path.len()));
    if let Some(inner) = value.get(key) {
        place.push_str(if before == 0 { "" } else { "." });
        place.push_str(key);
        follow(inner, rest, wanted, place, made);
        place.truncate(before);
    }
}

fn judge(came: JsonType, wanted: JsonTypes, field: &str, made: &mut Made) -> bool {
    let wrong = came != JsonType::Nothing && !wanted.contains(&came);
    if wrong {
        made.mistyped(field.to_owned(), came.name(), named(wanted));
    }
    wrong
}

fn named(wanted: JsonTypes) -> String {
    wanted.iter().map(|sort| sort.name()).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
        let mut made = Made::default();
        check(&value, &wanted, &mut made);
        made.locate("f", 7);
        let told: Vec<_> =
            made.mistyped.iter().map(|odd| (&odd.field[..], odd.came, &odd.wanted[..])).collect();
        assert_eq!(
            told,
            [
                ("a", "a number", "a text"),
                ("steps[1].say", "a number", "a text or a list"),
                ("steps[2]", "a number", "an object"),
                ("steps[3].of[0].id", "an object", "a text"),
            ]
        );
        assert!(made.mistyped.iter().all(|odd| odd.offset == 7) && made.notes["wrong_type"] == 4);
    }

    #[test]
    fn texts_and_values_have_the_same_sorts() {
        for text in ["null", "true", "false", "-1.5", "\"a\"", "[1]", "{\"a\":1}"] {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(JsonType::of_raw(text.as_bytes()), JsonType::of(&value), "{text}");
        }
    }
}
