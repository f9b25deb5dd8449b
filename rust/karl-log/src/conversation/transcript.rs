//! Conversation as plain text, for trainers that do not accept messages.
//!
//! No chat template is applied: a model's own template belongs to its tokenizer, and one applied here would
//! be applied twice by a trainer that applies its own.

use serde_json::Value;

/// Return each message as `role: content`, with its tool calls below it, and a blank line between messages.
pub(crate) fn transcript(messages: &[Value]) -> String {
    let message = |message: &Value| format!("{}: {}", text(message, "role"), body(message));
    messages.iter().map(message).collect::<Vec<_>>().join("\n\n")
}

/// Return the content of one message and its tool calls.
pub(crate) fn body(message: &Value) -> String {
    let calls = message.get("tool_calls").and_then(Value::as_array).into_iter().flatten().map(call);
    let content = Some(text(message, "content").to_owned()).filter(|content| !content.is_empty());
    content.into_iter().chain(calls).collect::<Vec<_>>().join("\n")
}

fn call(call: &Value) -> String {
    let function = call.get("function").unwrap_or(call);
    let arguments = match function.get("arguments") {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    format!("[tool_call {} {arguments}]", text(function, "name"))
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
