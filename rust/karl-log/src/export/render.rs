//! Rendering of examples to lines for trainers, all of one shape: mlx-lm chooses by the first row of a file.

use serde_json::{Map, Value, json};

use crate::conversation::Example;
use crate::conversation::Flaw;
use crate::conversation::transcript::{body, transcript};

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
