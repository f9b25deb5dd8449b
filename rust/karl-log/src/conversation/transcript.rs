//! Conversation as plain text, for trainers that do not accept messages.
//!
//! No chat template is applied: a model's own template belongs to its tokenizer, and one applied here would
//! be applied twice by a trainer that applies its own.

use serde_json::Value;

use super::turn::THOUGHTS;

/// Return the tools as `tools: JSON`, then each message as `role: content`, and a blank line between them.
pub(crate) fn transcript(messages: &[Value], tools: Option<&Value>) -> String {
    let message = |message: &Value| format!("{}: {}", text(message, "role"), body(message));
    let tools = tools.map(|tools| format!("tools: {tools}"));
    tools.into_iter().chain(messages.iter().map(message)).collect::<Vec<_>>().join("\n\n")
}

/// Return the content of one message, with its reasoning above it and its tool calls below it.
pub(crate) fn body(message: &Value) -> String {
    let thought = thoughts(message).map(|thought| format!("<think>\n{thought}\n</think>"));
    let calls = message.get("tool_calls").and_then(Value::as_array).into_iter().flatten().map(call);
    let content = Some(text(message, "content").to_owned()).filter(|content| !content.is_empty());
    thought.into_iter().chain(content).chain(calls).collect::<Vec<_>>().join("\n")
}

/// Return the reasoning of a message; texts under several keys that differ are on lines of their own.
fn thoughts(message: &Value) -> Option<String> {
    let mut all: Vec<&str> = Vec::new();
    for thought in THOUGHTS.iter().map(|key| text(message, key)).filter(|thought| !thought.is_empty()) {
        if !all.contains(&thought) {
            all.push(thought);
        }
    }
    (!all.is_empty()).then(|| all.join("\n"))
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
