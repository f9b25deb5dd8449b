//! A message as text: its content, with its reasoning above it and its calls below it.

use std::borrow::Cow;

use serde_json::Value;

use crate::conversation::openai::THOUGHTS;

/// Return the content of one message, with its reasoning above it and its tool calls below it.
pub(super) fn body(message: &Value, call: impl Fn(&Value) -> String) -> String {
    let thought = thoughts(message).map(|thought| format!("<think>\n{thought}\n</think>"));
    let calls = message.get("tool_calls").and_then(Value::as_array).into_iter().flatten().map(call);
    let content = Some(text(message, "content").to_owned()).filter(|content| !content.is_empty());
    thought.into_iter().chain(content).chain(calls).collect::<Vec<_>>().join("\n")
}

/// Return the reasoning of a message; texts under several keys that differ are on lines of their own.
pub(super) fn thoughts(message: &Value) -> Option<String> {
    let mut all: Vec<&str> = Vec::new();
    for thought in THOUGHTS.iter().map(|key| text(message, key)).filter(|thought| !thought.is_empty()) {
        if !all.contains(&thought) {
            all.push(thought);
        }
    }
    (!all.is_empty()).then(|| all.join("\n"))
}

/// Return a call as text: `[tool_call NAME ARGUMENTS]`.
pub(super) fn call_in_brackets(call: &Value) -> String {
    let function = call.get("function").unwrap_or(call);
    format!("[tool_call {} {}]", text(function, "name"), arguments_text(function))
}

pub(super) fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Return the arguments of a function as JSON text.
pub(super) fn arguments_text(function: &Value) -> Cow<'_, str> {
    match function.get("arguments") {
        Some(Value::String(text)) => Cow::Borrowed(text),
        Some(other) => Cow::Owned(other.to_string()),
        None => Cow::Borrowed("{}"),
    }
}

/// Return whether a message is the model's and not to be learned.
pub(super) fn is_unlearned(message: &Value) -> bool {
    let weight = message.get("weight").and_then(Value::as_f64);
    message["role"] == "assistant" && weight == Some(0.0)
}
