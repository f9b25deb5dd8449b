//! Rendering of examples to lines for trainers, all of one shape: mlx-lm chooses by the first row of a file.

use serde_json::{Map, Value, json};

use crate::conversation::turn::THOUGHTS;
use crate::conversation::{Example, Flaw};

/// Shape of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `messages` and, if known, `tools`.
    Chat,
    /// `prompt` and `completion`, both text.
    PromptCompletion,
    /// `text`.
    Text,
    /// The record's own bytes.
    Raw,
}

impl Shape {
    /// Every shape.
    pub const ALL: [Self; 4] = [Self::Chat, Self::PromptCompletion, Self::Text, Self::Raw];

    /// Return the name used in options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::PromptCompletion => "prompt-completion",
            Self::Text => "text",
            Self::Raw => "raw",
        }
    }

    /// Return the shape of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase().replace('_', "-");
        Self::ALL.into_iter().find(|shape| shape.name() == name)
    }

    /// Return the actual shape of a data set requested in this shape: if no first row has a conversation,
    /// their own shape.
    pub(super) fn settle(self, examples: &[&Example]) -> Self {
        let chat = |example: &&Example| matches!(example, Example::Chat { .. });
        let text = |example: &&Example| matches!(example, Example::Text(_));
        match self {
            Self::Chat if examples.iter().any(chat) => Self::Chat,
            Self::Chat | Self::PromptCompletion if examples.iter().all(text) => Self::Text,
            Self::Chat => Self::PromptCompletion,
            other => other,
        }
    }
}

/// Return the row's fields in a shape.
///
/// # Errors
/// [`Flaw::OtherShape`] if the example does not fit it; [`Flaw::UnlearnedTurn`] if the shape would train on a
/// turn that is not to be learned.
pub(super) fn row(example: Example, shape: Shape) -> Result<Map<String, Value>, Flaw> {
    let value = match (shape, example) {
        (Shape::Chat, Example::Chat { messages, tools }) => return Ok(chat(messages, tools)),
        (Shape::Chat, Example::Completion { prompt, completion }) => json!({"messages": [
            {"role": "user", "content": prompt}, {"role": "assistant", "content": completion}]}),
        (Shape::PromptCompletion, Example::Chat { messages, tools }) => split(&messages, tools.as_ref())?,
        (Shape::PromptCompletion, Example::Completion { prompt, completion }) => {
            json!({"prompt": prompt, "completion": completion})
        }
        (Shape::Text, Example::Chat { messages, .. }) if messages.iter().any(is_unlearned) => {
            return Err(Flaw::UnlearnedTurn);
        }
        (Shape::Text, Example::Chat { messages, tools }) => {
            json!({"text": transcript(&messages, tools.as_ref())})
        }
        (Shape::Text, Example::Completion { prompt, completion }) => json!({"text": prompt + &completion}),
        (Shape::Text, Example::Text(text)) => json!({"text": text}),
        (Shape::Chat | Shape::PromptCompletion, Example::Text(_)) | (Shape::Raw, _) => {
            return Err(Flaw::OtherShape);
        }
    };
    match value {
        Value::Object(row) => Ok(row),
        _ => Err(Flaw::OtherShape),
    }
}

/// Return whether a message is the model's and not to be learned.
fn is_unlearned(message: &Value) -> bool {
    let weight = message.get("weight").and_then(Value::as_f64);
    message["role"] == "assistant" && weight == Some(0.0)
}

/// Return the fields of a chat row. Messages are moved, not copied: they are most of a record.
fn chat(messages: Vec<Value>, tools: Option<Value>) -> Map<String, Value> {
    let messages = ("messages".to_owned(), Value::Array(messages));
    let tools = tools.map(|tools| ("tools".to_owned(), tools));
    std::iter::once(messages).chain(tools).collect()
}

/// Split into prompt and completion, which is the last assistant turn. A lone user message before it is the
/// prompt; several messages, or tools, become a transcript that ends at the assistant's turn.
fn split(messages: &[Value], tools: Option<&Value>) -> Result<Value, Flaw> {
    let (last, before) =
        messages.split_last().map_or((&Value::Null, messages), |(last, before)| (last, before));
    let prompt = match before {
        [only] if only["role"] == "user" && tools.is_none() => body(only),
        _ => transcript(before, tools) + "\n\nassistant: ",
    };
    match body(last) {
        completion if completion.is_empty() => Err(Flaw::NoAssistantTurn),
        completion => Ok(json!({"prompt": prompt, "completion": completion})),
    }
}

/// Render a conversation as plain text, for trainers that do not accept messages: the tools as `tools: JSON`, then each
/// message as `role: content`, and a blank line between them. No chat template is applied: a model's own belongs to its
/// tokenizer, and one applied here would be applied twice by a trainer that applies its own.
fn transcript(messages: &[Value], tools: Option<&Value>) -> String {
    let message = |message: &Value| format!("{}: {}", text(message, "role"), body(message));
    let tools = tools.map(|tools| format!("tools: {tools}"));
    tools.into_iter().chain(messages.iter().map(message)).collect::<Vec<_>>().join("\n\n")
}

/// Return the content of one message, with its reasoning above it and its tool calls below it.
fn body(message: &Value) -> String {
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
