//! One parsed record to one training example, or to a reason why it is none.
//!
//! The lint is what trainers choke on, each rule seen to break `mlx_lm lora`: a conversation must hold an assistant
//! turn and end with one; a message without content must call a tool; an empty text has nothing to predict, and its
//! loss is 0/0.

use serde_json::{Value, json};

use super::flaw::Flaw;
use super::openai;
use super::system::{around, beside};
use super::tool_plan::plan;
use super::turn::{Turn, says, speaker, turns};
use crate::format::{Field, Fields, Transform};
use crate::json::reference;
use crate::json::reference::{lookup, take};

/// What a trainer learns from.
#[derive(Clone, Debug, PartialEq)]
pub enum Example {
    /// A conversation that ends with the assistant.
    Chat {
        /// The messages, as objects.
        messages: Vec<Value>,
        /// The tools that the model was offered, where the record knows them.
        tools: Option<Value>,
    },
    /// One prompt and its completion.
    Completion {
        /// What was asked.
        prompt: String,
        /// What was answered.
        completion: String,
    },
    /// A text.
    Text(String),
}

/// An example, with what was cut off it.
#[derive(Debug)]
pub struct TrimmedExample {
    /// The example.
    pub example: Example,
    /// Messages after the last assistant turn: nothing learns from them.
    pub trimmed: usize,
}

/// Makes an example of a record, whose values it takes.
///
/// # Errors
/// The [`Flaw`] that the lint found.
pub fn example(mut record: Value, fields: &Fields) -> Result<TrimmedExample, Flaw> {
    if fields.truncated.as_ref().and_then(|path| lookup(&record, path)) == Some(&Value::Bool(true)) {
        return Err(Flaw::Truncated);
    }
    match held(&mut record, fields)? {
        Trajectory::Chat { system, messages, tools } => {
            chat(turns(system, messages, fields.reasoning)?, tools)
        }
        Trajectory::Completion { prompt, completion } => completed(prompt, completion),
        Trajectory::Text(text) => Ok(whole(Example::Text(text))),
    }
}

/// A trajectory as it stands in a record.
pub(crate) enum Trajectory {
    /// A conversation, or a prompt and its completion of which one has messages; `system` is what stands beside it.
    Chat { system: Option<String>, messages: Vec<Value>, tools: Option<Value> },
    /// A prompt and its completion.
    Completion { prompt: String, completion: String },
    /// A text.
    Text(String),
}

/// Takes a trajectory out of a record as it stands there: nothing is trimmed, and messages are not read yet.
pub(crate) fn held(record: &mut Value, fields: &Fields) -> Result<Trajectory, Flaw> {
    let mut get = |field: &Option<Field>| field.as_ref().map_or(Ok(None), |field| find(record, field));
    let (messages, tools) = (get(&fields.messages)?, get(&fields.tools)?);
    let found = (messages, get(&fields.prompt)?, get(&fields.completion)?, get(&fields.text)?);
    let tools =
        tools.or_else(|| record.get_mut("functions").filter(|older| older.is_array()).map(Value::take));
    let messages = match found {
        (Some(Value::Array(messages)), _, Some(completion), _)
            if is_answer(&completion) && is_open(&messages) =>
        {
            joined(messages.into(), completion)
        }
        (Some(Value::Array(messages)), ..) if has_other_answer(record, fields, &messages) => {
            return Err(Flaw::BadMessage);
        }
        (Some(Value::Array(messages)), ..) => messages,
        (Some(_), ..) => return Err(Flaw::BadMessage),
        (_, Some(Value::String(prompt)), Some(Value::String(completion)), _) => {
            if let Some(system) = beside(record, fields.prompt.as_ref(), &[])? {
                let messages = joined(prompt.into(), completion.into());
                return Ok(Trajectory::Chat { system: Some(system), messages, tools });
            }
            return Ok(Trajectory::Completion { prompt, completion });
        }
        (_, Some(prompt), Some(completion), _) => joined(prompt, completion),
        (_, _, _, Some(Value::String(text))) if !text.is_empty() => return Ok(Trajectory::Text(text)),
        _ => return Err(Flaw::NoTrajectory),
    };
    let place = fields.messages.as_ref().or(fields.prompt.as_ref());
    let system = beside(record, place, &messages)?;
    Ok(Trajectory::Chat { system, messages, tools })
}

/// Keys of the last answer beside a conversation that ends before it, where `completion` does not name them.
const ANSWER: [&str; 4] = ["response", "generation", "chosen", "preferred_output"];

/// Whether a conversation ends before an answer that stands beside it, or in the record around it.
fn has_other_answer(record: &Value, fields: &Fields, messages: &[Value]) -> bool {
    let objects = around(fields.messages.as_ref()).into_iter();
    let mut objects =
        objects.filter_map(|path| path.iter().try_fold(record, |value, key| value.as_object()?.get(key)));
    is_open(messages) && objects.any(|object| ANSWER.iter().any(|key| object.get(key).is_some_and(is_answer)))
}

/// Takes out of a record what the first choice that holds something makes, or else the last.
fn find(record: &mut Value, field: &Field) -> Result<Option<Value>, Flaw> {
    let mut found = None;
    for choice in field.choices() {
        found = take(record, &choice.path).map(|value| make(value, choice.made)).transpose()?.flatten();
        if found.as_ref().is_some_and(|value| value != "" && *value != json!([])) {
            break;
        }
    }
    Ok(found)
}

/// What is made of a value.
fn make(value: Value, made: Transform) -> Result<Option<Value>, Flaw> {
    let value = match (made, value) {
        (Transform::Json, Value::String(text)) => {
            reference::parse(text.as_bytes()).map_err(|_| Flaw::Unparsable)?
        }
        (Transform::Plan, calls) => Value::String(plan(&calls).ok_or(Flaw::BadMessage)?),
        (_, value) => value,
    };
    Ok(Some(value).filter(|value| !value.is_null()))
}

fn whole(example: Example) -> TrimmedExample {
    TrimmedExample { example, trimmed: 0 }
}

fn completed(prompt: String, completion: String) -> Result<TrimmedExample, Flaw> {
    if completion.is_empty() {
        return Err(Flaw::NoAssistantTurn);
    }
    Ok(whole(Example::Completion { prompt, completion }))
}

/// Whether a value may be an answer: a text, messages or an object of them.
fn is_answer(value: &Value) -> bool {
    (value.is_string() || value.is_array() || value.is_object()) && says(value)
}

/// Whether a conversation ends before the model's answer.
fn is_open(messages: &[Value]) -> bool {
    messages.last().is_some_and(|last| speaker(last) != Some("assistant"))
}

/// The messages of a prompt and then those of its completion.
fn joined(prompt: Value, completion: Value) -> Vec<Value> {
    let mut messages = messages_of(prompt, "user");
    messages.extend(messages_of(completion, "assistant"));
    messages
}

/// A list of messages as it is; anything else as the content of one message.
fn messages_of(value: Value, role: &str) -> Vec<Value> {
    match value {
        Value::Array(messages) => messages,
        content => vec![json!({"role": role, "content": content})],
    }
}

/// Ends a conversation with the last turn that is learned.
fn chat(mut turns: Vec<Turn>, tools: Option<Value>) -> Result<TrimmedExample, Flaw> {
    let is_assistant = |turn: &Turn| turn.role == "assistant";
    let none = || if turns.iter().any(is_assistant) { Flaw::NoLearnedTurn } else { Flaw::NoAssistantTurn };
    let last = turns.iter().rposition(|turn| turn.learned).ok_or_else(none)?;
    let trimmed = turns.len() - (last + 1);
    turns.truncate(last + 1);
    let messages = turns.into_iter().map(|turn| turn.message.map(Value::Object)).collect::<Result<_, _>>()?;
    Ok(TrimmedExample { example: Example::Chat { messages, tools: tools.and_then(offered) }, trimmed })
}

/// The tools that the model was offered, if there are any; a list, or the JSON text of one.
pub(crate) fn offered(tools: Value) -> Option<Value> {
    match tools {
        Value::Array(tools) if !tools.is_empty() => Some(tools.into_iter().map(openai::tool).collect()),
        Value::String(text) => {
            reference::parse(text.as_bytes()).ok().filter(Value::is_array).and_then(offered)
        }
        _ => None,
    }
}
