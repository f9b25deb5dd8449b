//! Conversion of one parsed record to one training example, or to a reason for rejection.
//!
//! The lint covers records that make trainers fail, each rule observed to break `mlx_lm lora`: a conversation
//! must have an assistant turn and end with one; a message without content must call a tool; an empty text
//! has nothing to predict, and its loss is 0/0.

use serde_json::{Value, json};

use super::flaw::Flaw;
use super::media::media_of;
use super::openai;
use super::results::put_to_calls;
use super::system::{around, beside};
use super::tool_plan::plan;
use super::turn::{Turn, says, speaker, text_of, turns};
use crate::format::{Field, Fields, Transform};
use crate::json::reference_parser;
use crate::json::reference_parser::{lookup, take};

/// Training example.
#[derive(Clone, Debug, PartialEq)]
pub enum Example {
    /// Conversation that ends with the assistant.
    Chat {
        /// Messages, as objects.
        messages: Vec<Value>,
        /// Tools offered to the model, if the record has them.
        tools: Option<Value>,
    },
    /// One prompt and its completion.
    Completion {
        /// Prompt.
        prompt: String,
        /// Completion.
        completion: String,
    },
    /// Text.
    Text(String),
}

/// Example, with the count of removed messages.
#[derive(Debug)]
pub struct TrimmedExample {
    /// Example.
    pub example: Example,
    /// Messages after the last assistant turn, which are not trained on.
    pub trimmed: usize,
}

/// Make an example of a record, moving its values.
///
/// # Errors
/// The [`Flaw`] found by the lint.
pub fn example(mut record: Value, fields: &Fields) -> Result<TrimmedExample, Flaw> {
    if fields.truncated.as_ref().and_then(|path| lookup(&record, path)) == Some(&Value::Bool(true)) {
        return Err(Flaw::Truncated);
    }
    match held(&mut record, fields)? {
        RecordedTrajectory::Chat { system, messages, tools } => {
            chat(turns(system, messages, fields.reasoning)?, tools)
        }
        RecordedTrajectory::Completion { prompt, completion } => completed(prompt, completion),
        RecordedTrajectory::Text(text) => Ok(whole(Example::Text(text))),
    }
}

/// Trajectory as it is in a record.
pub enum RecordedTrajectory {
    /// Conversation, or a prompt and its completion of which one has messages.
    Chat {
        /// Text beside the conversation.
        system: Option<String>,
        /// Messages, as they are in the record.
        messages: Vec<Value>,
        /// Tools, as they are in the record.
        tools: Option<Value>,
    },
    /// Prompt and its completion.
    Completion {
        /// Prompt.
        prompt: String,
        /// Completion.
        completion: String,
    },
    /// Text.
    Text(String),
}

/// Take a trajectory out of a record unchanged: nothing is trimmed, and messages are not parsed yet.
///
/// # Errors
/// A field of the wrong kind, or none that holds a trajectory.
pub fn held(record: &mut Value, fields: &Fields) -> Result<RecordedTrajectory, Flaw> {
    let mut get = |field: &Option<Field>| field.as_ref().map_or(Ok(None), |field| find(record, field));
    let (messages, tools) = (get(&fields.messages)?, get(&fields.tools)?);
    let found = (messages, get(&fields.prompt)?, get(&fields.completion)?, get(&fields.text)?);
    let tools = tools.filter(says).or_else(|| other_tools(record));
    if let Some(kind) = media_beside(record, fields, [&found.0, &found.1, &found.3]) {
        return Err(Flaw::Media(kind));
    }
    let messages = match found {
        (Some(Value::Array(messages)), _, Some(completion), _)
            if is_answer(&completion) && is_open(&messages) =>
        {
            joined(messages.into(), completion)
        }
        (Some(Value::Array(messages)), ..) if has_other_answer(record, fields, &messages) => {
            return Err(Flaw::BadMessage);
        }
        (Some(Value::Array(messages)), Some(prompt), ..)
            if is_bare_answer(&messages) && is_answer(&prompt) =>
        {
            joined(prompt, messages.into())
        }
        (Some(Value::Array(messages)), ..) => messages,
        (Some(_), ..) => return Err(Flaw::BadMessage),
        (_, Some(Value::String(prompt)), Some(Value::String(completion)), _) => {
            let system = beside(record, fields.prompt.as_ref(), &[])?;
            if system.is_some() || tools.as_ref().is_some_and(says) {
                let messages = joined(prompt.into(), completion.into());
                return Ok(RecordedTrajectory::Chat { system, messages, tools });
            }
            return Ok(RecordedTrajectory::Completion { prompt, completion });
        }
        (_, Some(prompt), Some(completion), _) => joined(prompt, completion),
        (_, _, _, Some(Value::String(text))) if !text.is_empty() => {
            return Ok(RecordedTrajectory::Text(text));
        }
        _ => return Err(Flaw::NoTrajectory),
    };
    let place = fields.messages.as_ref().or(fields.prompt.as_ref());
    let system = beside(record, place, &messages)?;
    Ok(RecordedTrajectory::Chat { system, messages, tools })
}

/// Keys of the last answer beside a conversation that ends before it, if `completion` does not name them.
const ANSWER: [&str; 10] = [
    "response",
    "generation",
    "generations",
    "chosen",
    "preferred_output",
    "choices",
    "candidates",
    "output",
    "outputs",
    "completions",
];

/// Return whether a conversation ends before an answer beside it, or in the record around it.
fn has_other_answer(record: &Value, fields: &Fields, messages: &[Value]) -> bool {
    let objects = around(fields.messages.as_ref()).into_iter();
    let mut objects =
        objects.filter_map(|path| path.iter().try_fold(record, |value, key| value.as_object()?.get(key)));
    is_open(messages) && objects.any(|object| ANSWER.iter().any(|key| object.get(key).is_some_and(is_answer)))
}

/// Return what kind of media belongs to a conversation, in its record or the object around it.
fn media_beside(record: &Value, fields: &Fields, parts: [&Option<Value>; 3]) -> Option<&'static str> {
    let field = [&fields.messages, &fields.prompt, &fields.text];
    let place =
        field.into_iter().zip(parts).find(|(_, part)| part.is_some()).and_then(|(field, _)| field.as_ref());
    let objects = around(place).into_iter();
    let mut objects =
        objects.filter_map(|path| path.iter().try_fold(record, |value, key| value.as_object()?.get(key)));
    objects.find_map(|object| object.as_object().and_then(media_of))
}

/// Keys of tools beside a conversation, other than `tools`: of `OpenAI`'s older format and of data sets.
const TOOLS: [&str; 3] = ["functions", "available_tools", "tool_definitions"];

/// Take the tools of a record that are not in the field for them. Those in its metadata are taken only if they
/// are definitions: there may be names of used tools or their counts.
fn other_tools(record: &mut Value) -> Option<Value> {
    if let Some(key) = TOOLS.iter().find(|key| record.get(**key).is_some_and(says)) {
        return record.get_mut(*key).map(Value::take);
    }
    record.pointer_mut("/metadata/tools").filter(|tools| are_definitions(tools)).map(Value::take)
}

/// Return whether a list, or its JSON text, has a definition of a tool in it.
fn are_definitions(tools: &Value) -> bool {
    let parsed = tools.as_str().and_then(|text| reference_parser::parse(text.as_bytes()).ok());
    let tools = parsed.as_ref().unwrap_or(tools).as_array();
    tools.into_iter().flatten().any(|tool| openai::DEFINITION.iter().any(|key| tool.get(key).is_some()))
}

/// Take the converted value of the first non-empty choice out of a record, or else of the last.
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

/// Convert a value.
fn make(value: Value, made: Transform) -> Result<Option<Value>, Flaw> {
    let value = match (made, value) {
        (Transform::Json, Value::String(text)) => {
            reference_parser::parse_rollout(text.as_bytes()).map_err(|_| Flaw::Unparsable)?
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
    if completion.trim().is_empty() {
        return Err(Flaw::NoAssistantTurn);
    }
    Ok(whole(Example::Completion { prompt, completion }))
}

/// Return whether a value may be an answer: a text, messages or an object of them.
fn is_answer(value: &Value) -> bool {
    (value.is_string() || value.is_array() || value.is_object()) && says(value)
}

/// Return whether a conversation ends before the model's answer.
fn is_open(messages: &[Value]) -> bool {
    messages.last().is_some_and(|last| speaker(last) != Some("assistant"))
}

/// Return whether messages are an answer without its question: nobody but the model says anything.
fn is_bare_answer(messages: &[Value]) -> bool {
    !messages.is_empty() && messages.iter().all(|message| speaker(message) == Some("assistant"))
}

/// Return the messages of a prompt followed by those of its completion; of a completion that repeats the
/// prompt, its own.
fn joined(prompt: Value, completion: Value) -> Vec<Value> {
    let mut messages = messages_of(prompt, "user");
    let answer = messages_of(completion, "assistant");
    let repeats = answer.len() > messages.len()
        && messages.iter().zip(&answer).all(|(one, other)| says_same(one, other));
    if repeats && !messages.is_empty() {
        return answer;
    }
    messages.extend(answer);
    messages
}

/// Return whether two messages have one speaker and one text.
fn says_same(one: &Value, other: &Value) -> bool {
    let text = |message: &Value| message.get("content").or_else(|| message.get("value")).and_then(text_of);
    speaker(one).is_some_and(|role| speaker(other) == Some(role))
        && text(one).is_some_and(|said| text(other) == Some(said))
}

/// Return a list of messages unchanged, and a message, or that of a response of `OpenAI`, as a list; any other
/// value is the content of one message.
fn messages_of(mut value: Value, role: &str) -> Vec<Value> {
    let one = value.get("choices").and_then(Value::as_array).is_some_and(|choices| choices.len() == 1);
    if let Some(message) = value.pointer_mut("/choices/0/message").filter(|_| one) {
        return vec![message.take()];
    }
    match value {
        Value::Array(messages) => messages,
        message if message.get("role").is_some() => vec![message],
        content => {
            let message = [("role".to_owned(), json!(role)), ("content".to_owned(), content)];
            vec![Value::Object(message.into_iter().collect())]
        }
    }
}

/// End a conversation with the last learned turn.
fn chat(mut turns: Vec<Turn>, tools: Option<Value>) -> Result<TrimmedExample, Flaw> {
    let is_assistant = |turn: &Turn| turn.role == "assistant";
    let none = || if turns.iter().any(is_assistant) { Flaw::NoLearnedTurn } else { Flaw::NoAssistantTurn };
    let last = turns.iter().rposition(|turn| turn.learned).ok_or_else(none)?;
    let trimmed = turns.len() - (last + 1);
    turns.truncate(last + 1);
    let mut messages = turns.into_iter().map(finished).collect::<Result<Vec<_>, _>>()?;
    put_to_calls(&mut messages);
    let tools = tools.map_or(Ok(None), offered)?;
    Ok(TrimmedExample { example: Example::Chat { messages, tools }, trimmed })
}

/// Return the message of a turn, with the arguments of its calls as objects.
fn finished(turn: Turn) -> Result<Value, Flaw> {
    let mut message = turn.message.map(Value::Object)?;
    let mut calls = message.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten();
    if calls.all(openai::expand_arguments) { Ok(message) } else { Err(Flaw::BadArguments) }
}

/// Return the tools offered to the model, if any; from a list, from one tool, or from the JSON text of either.
///
/// # Errors
/// [`Flaw::BadTools`] for anything else: without its tools a conversation teaches calls of what was not there.
pub fn offered(tools: Value) -> Result<Option<Value>, Flaw> {
    let list = match tools {
        Value::String(text) if !text.trim().is_empty() => {
            match reference_parser::parse_exact(text.as_bytes()).map_err(|_| Flaw::BadTools)? {
                Value::String(_) => return Err(Flaw::BadTools),
                tools => return offered(tools),
            }
        }
        Value::String(_) => return Ok(None),
        tools if !says(&tools) => return Ok(None),
        Value::Array(tools) => tools,
        Value::Object(_) => vec![tools],
        _ => return Err(Flaw::BadTools),
    };
    openai::tools(list).map(|tools| Some(Value::Array(tools))).ok_or(Flaw::BadTools)
}
