//! Tool calls and tools in the form that chat templates know.

use serde_json::{Map, Value, json};

use crate::trusted;

/// A call as `{"id", "type": "function", "function": {"name", "arguments"}}`, made of a flat one, or of the JSON text
/// of either; none where it is no call.
pub(crate) fn call(call: Value) -> Option<Value> {
    let call = match call {
        Value::String(text) => trusted::parse(text.as_bytes()).ok()?,
        call => call,
    };
    let Value::Object(mut fields) = call else { return None };
    if fields.contains_key("function") || !fields.get("name").is_some_and(Value::is_string) {
        return Some(Value::Object(fields));
    }
    let name = fields.shift_remove("name");
    let arguments = fields.shift_remove("arguments").unwrap_or_else(|| json!("{}"));
    let mut made = Map::new();
    made.extend(fields.shift_remove("id").map(|id| ("id".to_owned(), id)));
    made.insert("type".to_owned(), json!("function"));
    made.insert("function".to_owned(), json!({"name": name, "arguments": arguments}));
    fields.shift_remove("type");
    made.extend(fields);
    Some(Value::Object(made))
}

/// A tool as `{"type": "function", "function": {"name", "parameters", ...}}`; what is no flat one stays as it is.
pub(super) fn tool(tool: Value) -> Value {
    let flat = tool.get("function").is_none() && tool.get("name").is_some_and(Value::is_string);
    if flat && tool.get("parameters").is_some() {
        json!({"type": "function", "function": tool})
    } else {
        tool
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_calls_and_texts_of_calls_take_the_form_of_chat_templates() {
        let wanted = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
        let flat = json!({"name": "f", "arguments": "{}", "id": "c"});
        for form in [flat.clone(), wanted.clone(), json!(flat.to_string()), json!(wanted.to_string())] {
            assert_eq!(call(form).unwrap().to_string(), wanted.to_string());
        }
    }

    #[test]
    fn nothing_of_a_call_is_lost() {
        let made = call(json!({"name": "f", "arguments": {"a": 1}, "index": 3})).unwrap();
        assert_eq!(
            made,
            json!({"type": "function", "function": {"name": "f", "arguments": {"a": 1}}, "index": 3})
        );
        let bare = call(json!({"name": "f"})).unwrap();
        assert_eq!(bare, json!({"type": "function", "function": {"name": "f", "arguments": "{}"}}));
    }

    #[test]
    fn what_is_no_call_is_none() {
        for text in ["", "look", "{", "[1]", "\"f\"", "5", "null"] {
            assert_eq!(call(json!(text)), None, "{text}");
        }
        assert_eq!(call(json!(5)), None);
        assert_eq!(call(json!({"name": 5})), Some(json!({"name": 5})));
    }

    #[test]
    fn flat_tools_take_the_form_too() {
        let flat = json!({"name": "f", "description": "d", "parameters": {}});
        let wanted = json!({"type": "function", "function": flat});
        assert_eq!(tool(flat), wanted);
        for other in [wanted, json!({"name": "f"}), json!("f"), json!({"input_schema": {}})] {
            assert_eq!(tool(other.clone()), other);
        }
    }
}
