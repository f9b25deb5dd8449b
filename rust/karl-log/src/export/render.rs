//! Rendering of examples to lines for trainers, all of one shape: mlx-lm chooses by the first row of a file.

use serde_json::{Map, Value, json};

use super::forms::{FormRow, RowParts, form_row};
use super::message_text::{body, call_in_brackets, is_unlearned, text};
use super::shape::Shape;
use crate::conversation::{Example, Flaw};

/// Return the row's fields in a shape.
///
/// # Errors
/// [`Flaw::OtherShape`] if the example does not fit it; [`Flaw::UnlearnedTurn`] if the shape would train on a
/// turn that is not to be learned; those of `form_row`.
pub(super) fn row(parts: RowParts, shape: Shape) -> Result<FormRow, Flaw> {
    let value = match (shape, parts.example) {
        (Shape::Chat, Example::Chat { messages, tools }) => return Ok(plain(chat(messages, tools))),
        (Shape::Chat, Example::Completion { prompt, completion }) => json!({"messages": [
            {"role": "user", "content": prompt}, {"role": "assistant", "content": completion}]}),
        (Shape::PromptCompletionText, Example::Chat { messages, tools }) => split(&messages, tools.as_ref())?,
        (Shape::PromptCompletionText, Example::Completion { prompt, completion }) => {
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
        (Shape::Chat | Shape::PromptCompletionText, Example::Text(_)) => return Err(Flaw::OtherShape),
        (_, example) => return form_row(RowParts { example, ..parts }, shape),
    };
    match value {
        Value::Object(row) => Ok(plain(row)),
        _ => Err(Flaw::OtherShape),
    }
}

fn plain(fields: Map<String, Value>) -> FormRow {
    FormRow { fields, reasoning_left_out: 0 }
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
        [only] if only["role"] == "user" && tools.is_none() => body(only, call_in_brackets),
        _ => transcript(before, tools) + "\n\nassistant: ",
    };
    match body(last, call_in_brackets) {
        completion if completion.is_empty() => Err(Flaw::NoAssistantTurn),
        completion => Ok(json!({"prompt": prompt, "completion": completion})),
    }
}

/// Render a conversation as plain text, for trainers that do not accept messages: the tools as `tools: JSON`, then each
/// message as `role: content`, and a blank line between them. No chat template is applied: a model's own belongs to its
/// tokenizer, and one applied here would be applied twice by a trainer that applies its own.
fn transcript(messages: &[Value], tools: Option<&Value>) -> String {
    let message = |message: &Value| format!("{}: {}", text(message, "role"), body(message, call_in_brackets));
    let tools = tools.map(|tools| format!("tools: {tools}"));
    tools.into_iter().chain(messages.iter().map(message)).collect::<Vec<_>>().join("\n\n")
}
