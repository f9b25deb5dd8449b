//! Results of tools that the model's provider runs: blocks of the model's own message.

use karl_log::json::project::elements;
use karl_log::json::reference_parser;
use serde_json::{Map, Value};

use crate::convert::json::{escape, inside, join};
use crate::convert::report::{Made, NO_TEXT};

/// End of the kinds of such blocks: `web_search_tool_result`, `mcp_tool_result`.
const KIND: &[u8] = b"_tool_result";

/// Start of keys with content that only the provider can read.
const ENCRYPTED: &str = "encrypted_";

/// Return whether a block of the model's message is the result of a tool.
pub(super) fn is_result(kind: &[u8]) -> bool {
    kind.ends_with(KIND)
}

/// Return the text of a result as the content of a JSON string: its text blocks, and everything else as JSON.
pub(super) fn text(content: &[u8], made: &mut Made) -> Vec<u8> {
    if content.first() != Some(&b'[') {
        return part(content, made);
    }
    let mut text = Vec::new();
    elements(content).for_each(|element| join(&mut text, &part(element, made)));
    text
}

/// Return whether a tool succeeded, as its result says.
pub(super) fn success(content: &[u8], is_error: Option<&[u8]>) -> Option<bool> {
    match is_error {
        Some(b"true") => return Some(false),
        Some(b"false") => return Some(true),
        _ => {}
    }
    match reference_parser::parse(content).ok()? {
        Value::Object(result) if kind_of(&result).ends_with("_error") => Some(false),
        Value::Object(result) => Some(result.get("return_code").is_none_or(|code| code == 0)),
        Value::Array(_) => Some(true),
        _ => None,
    }
}

fn kind_of(object: &Map<String, Value>) -> &str {
    object.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn part(raw: &[u8], made: &mut Made) -> Vec<u8> {
    if raw.first() == Some(&b'"') {
        return inside(raw).to_vec();
    }
    let Ok(mut value) = reference_parser::parse(raw) else { return Vec::new() };
    let mut out = Vec::new();
    match &value {
        Value::Null => return out,
        Value::Object(block) if kind_of(block) == "text" && block.contains_key("text") => {
            escape(block["text"].as_str().unwrap_or_default().as_bytes(), &mut out);
            return out;
        }
        _ => {}
    }
    remove_unreadable(&mut value, made);
    escape(value.to_string().as_bytes(), &mut out);
    out
}

/// Remove what is not text: encrypted content, and bytes of files in base64.
fn remove_unreadable(value: &mut Value, made: &mut Made) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(|value| remove_unreadable(value, made)),
        Value::Object(object) => {
            object.retain(|key, _| !key.starts_with(ENCRYPTED));
            if kind_of(object) == "base64" && object.remove("data").is_some() {
                made.leave_out(NO_TEXT, b"base64");
            }
            object.values_mut().for_each(|value| remove_unreadable(value, made));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(content: &str) -> String {
        String::from_utf8(text(content.as_bytes(), &mut Made::default())).unwrap()
    }

    #[test]
    fn what_only_the_provider_can_read_is_left_out() {
        let results =
            r#"[{"type": "web_search_result", "title": "K", "url": "u", "encrypted_content": "x"}]"#;
        assert_eq!(texts(results), r#"{\"type\":\"web_search_result\",\"title\":\"K\",\"url\":\"u\"}"#);
        assert_eq!(texts(r#"[{"type": "text", "text": "a\nb"}, {"type": "text", "text": "c"}]"#), r"a\nb\nc");
        assert_eq!(
            (texts(r#""a\n""#), texts("null"), texts("[]")),
            (r"a\n".into(), String::new(), String::new())
        );
        let file = r#"{"source": {"type": "base64", "data": "AAAA"}}"#;
        assert_eq!(texts(file), r#"{\"source\":{\"type\":\"base64\"}}"#);
    }

    #[test]
    fn a_result_says_whether_the_tool_succeeded() {
        for (content, is_error, wanted) in [
            (
                r#"{"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}"#,
                None,
                Some(false),
            ),
            (r#"{"type": "code_execution_result", "return_code": 1}"#, None, Some(false)),
            (r#"{"type": "code_execution_result", "return_code": 0}"#, None, Some(true)),
            ("[]", None, Some(true)),
            ("[]", Some(&b"true"[..]), Some(false)),
            (r#""text""#, None, None),
        ] {
            assert_eq!(success(content.as_bytes(), is_error), wanted, "{content}");
        }
    }
}
