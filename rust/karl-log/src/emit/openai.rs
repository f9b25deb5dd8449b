//! Tool calls and tools in the form that chat templates know.

use serde_json::{Map, Value, json};

use crate::trusted;

/// A call as `{"id", "type": "function", "function": {"name", "arguments"}}`, made of a flat one, or of the JSON text
/// of either; none where it is no call.
pub(super) fn call(call: Value) -> Option<Value> {
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
