//! Expected types of values in a format, and reports of mistyped ones.
//!
//! A tool that writes a number in place of a text costs only that value: the values around it are read, and
//! the place is reported.

use serde_json::Value;

use super::report::{DAMAGED, Made};

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
pub(super) fn expect(raw: Option<&[u8]>, wanted: JsonTypes, field: &str, made: &mut Made) {
    if let Some(raw) = raw {
        judge(JsonType::of_raw(raw), wanted, field, made);
    }
}

/// Count a missing required value; return the reason to leave out its line.
pub(super) fn absent(wanted: JsonTypes, field: &str, made: &mut Made) -> &'static str {
    made.mistyped(field.to_owned(), JsonType::Nothing.name(), named(wanted));
    DAMAGED
}

/// Count a value with invalid JSON inside, which the quick check of its line skipped; return the reason to
/// leave out the line.
pub(super) fn damaged(wanted: JsonTypes, field: &str, made: &mut Made) -> &'static str {
    made.mistyped(field.to_owned(), "no JSON", named(wanted));
    DAMAGED
}

/// Count each value of an unexpected type, given paths with the expected types. In a path a dot precedes a
/// key, and `[]` is every element of a list.
pub(super) fn check(value: &Value, wanted: &[(&str, JsonTypes)], made: &mut Made) {
    check_at(String::new(), value, wanted, made);
}

/// Check a value at `place` in its record, as [`check`] does.
pub(super) fn check_at(mut place: String, value: &Value, wanted: &[(&str, JsonTypes)], made: &mut Made) {
    for (path, wanted) in wanted {
        follow(value, path, wanted, &mut place, made);
    }
}

/// Count a value that is present with an unexpected type; return whether it is.
pub(super) fn is_mistyped(value: Option<&Value>, wanted: JsonTypes, field: &str, made: &mut Made) -> bool {
    value.is_some_and(|value| judge(JsonType::of(value), wanted, field, made))
}

/// Follow a path from a value at `place`.
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
