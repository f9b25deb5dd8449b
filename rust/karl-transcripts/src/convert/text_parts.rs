//! Conversion of parsed values to the JSON text of messages.

use serde_json::{Map, Value};

use super::json::{escaped, join};
use super::report::{Made, NO_TEXT};

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
pub(super) fn words(content: Option<&Value>, made: &mut Made) -> Option<Vec<u8>> {
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
                    made.leave_out(NO_TEXT, kind.as_bytes());
                    lost = true;
                }
            }
        }
        _ => {}
    }
    (!lost || !all.is_empty()).then_some(all)
}

/// Return the non-empty fields of a value under the same names.
pub(super) fn kept(value: &Value, keys: &[&str]) -> Map<String, Value> {
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
