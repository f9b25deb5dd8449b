//! One parsed record to one training example, or to a reason why it is none.
//!
//! The lint is what trainers choke on, each rule seen to break `mlx_lm lora`: a conversation must hold an assistant
//! turn and end with one; a message without content must call a tool; an empty text has nothing to predict, and its
//! loss is 0/0.

use serde_json::{Map, Value, json};

use super::openai;
use super::plan::plan;
use crate::format::{Field, Fields, Made};
use crate::trusted::{self, lookup, take};

/// Why a chosen record is not written. Each is counted under its name on every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flaw {
    /// The trusted parser refuses it: damage in a value that the scan skipped, a lone surrogate, deep nesting.
    Unparsable,
    /// It holds no conversation, no prompt with completion and no text.
    NoTrajectory,
    /// The tool says that the rollout was cut short.
    Truncated,
    /// A message is no object with a role (or `from`, as in `ShareGPT`), its content is neither text nor parts of text, or a
    /// tool call is none.
    BadMessage,
    /// A message has neither content nor tool calls.
    EmptyMessage,
    /// No turn of the assistant, or nothing in its completion.
    NoAssistantTurn,
    /// A text without a conversation in a data set of conversations.
    OtherShape,
    /// Longer than the caller's limit of tokens.
    TooManyTokens,
    /// The chat template of the caller's tokenizer refuses it.
    BadTemplate,
}

impl Flaw {
    /// The name that reports use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unparsable => "unparsable",
            Self::NoTrajectory => "no_trajectory",
            Self::Truncated => "truncated",
            Self::BadMessage => "bad_message",
            Self::EmptyMessage => "empty_message",
            Self::NoAssistantTurn => "no_assistant_turn",
            Self::OtherShape => "other_shape",
            Self::TooManyTokens => "too_many_tokens",
            Self::BadTemplate => "bad_template",
        }
    }

    /// The flaw of that name, of those that only a caller can find.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        [Self::TooManyTokens, Self::BadTemplate].into_iter().find(|flaw| flaw.name() == name)
    }
}

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
pub struct Read {
    /// The example.
    pub example: Example,
    /// Messages after the last assistant turn: nothing learns from them.
    pub trimmed: usize,
}

/// Makes an example of a record, whose values it takes.
///
/// # Errors
/// The [`Flaw`] that the lint found.
pub fn example(mut record: Value, fields: &Fields) -> Result<Read, Flaw> {
    if fields.truncated.as_ref().and_then(|path| lookup(&record, path)) == Some(&Value::Bool(true)) {
        return Err(Flaw::Truncated);
    }
    match held(&mut record, fields)? {
        Held::Chat { messages, tools } => chat(messages, tools, fields.reasoning),
        Held::Halves { prompt: Value::String(prompt), completion: Value::String(completion), .. } => {
            completed(prompt, completion)
        }
        Held::Halves { prompt, completion, tools } => {
            chat(joined(prompt, completion), tools, fields.reasoning)
        }
        Held::Text(text) => Ok(whole(Example::Text(text))),
    }
}

/// A trajectory as it stands in a record.
pub(crate) enum Held {
    /// A conversation.
    Chat { messages: Vec<Value>, tools: Option<Value> },
    /// A prompt and its completion: texts, or the messages of a conversation.
    Halves { prompt: Value, completion: Value, tools: Option<Value> },
    /// A text.
    Text(String),
}

/// Takes a trajectory out of a record as it stands there: nothing is trimmed, and messages may be what no trainer takes.
pub(crate) fn held(record: &mut Value, fields: &Fields) -> Result<Held, Flaw> {
    let mut get = |field: &Option<Field>| field.as_ref().map_or(Ok(None), |field| find(record, field));
    let (messages, tools) = (get(&fields.messages)?, get(&fields.tools)?);
    match (messages, get(&fields.prompt)?, get(&fields.completion)?, get(&fields.text)?) {
        (Some(Value::Array(messages)), ..) => {
            let system = record.get_mut("system");
            Ok(Held::Chat { messages: openai::conversation(messages, system), tools })
        }
        (Some(_), ..) => Err(Flaw::BadMessage),
        (_, Some(prompt), Some(completion), _) => Ok(Held::Halves { prompt, completion, tools }),
        (_, _, _, Some(Value::String(text))) if !text.is_empty() => Ok(Held::Text(text)),
        _ => Err(Flaw::NoTrajectory),
    }
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
fn make(value: Value, made: Made) -> Result<Option<Value>, Flaw> {
    let value = match (made, value) {
        (Made::Json, Value::String(text)) => trusted::parse(text.as_bytes()).map_err(|_| Flaw::Unparsable)?,
        (Made::Plan, calls) => Value::String(plan(&calls).ok_or(Flaw::BadMessage)?),
        (_, value) => value,
    };
    Ok(Some(value).filter(|value| !value.is_null()))
}

fn whole(example: Example) -> Read {
    Read { example, trimmed: 0 }
}

fn completed(prompt: String, completion: String) -> Result<Read, Flaw> {
    if completion.is_empty() {
        return Err(Flaw::NoAssistantTurn);
    }
    Ok(whole(Example::Completion { prompt, completion }))
}

/// The messages of a prompt and then those of its completion.
pub(crate) fn joined(prompt: Value, completion: Value) -> Vec<Value> {
    let mut messages = turns(prompt, "user");
    messages.extend(turns(completion, "assistant"));
    messages
}

/// A list of messages as it is; anything else as the content of one message.
fn turns(value: Value, role: &str) -> Vec<Value> {
    match value {
        Value::Array(messages) => openai::conversation(messages, None),
        content => vec![json!({"role": role, "content": content})],
    }
}

fn chat(mut messages: Vec<Value>, tools: Option<Value>, reasoning: &str) -> Result<Read, Flaw> {
    let role = |message: &Value| message.get("role").and_then(Value::as_str).map(str::to_owned);
    let roles: Option<Vec<String>> = messages.iter().map(role).collect();
    let roles = roles.ok_or(Flaw::BadMessage)?;
    let last = roles.iter().rposition(|role| role == "assistant").ok_or(Flaw::NoAssistantTurn)?;
    let trimmed = messages.len() - (last + 1);
    messages.truncate(last + 1);
    messages
        .iter_mut()
        .filter_map(Value::as_object_mut)
        .try_for_each(|message| content(message, reasoning))?;
    Ok(Read { example: Example::Chat { messages, tools: tools.and_then(offered) }, trimmed })
}

/// The tools that the model was offered, if there are any; a list, or the JSON text of one.
pub(crate) fn offered(tools: Value) -> Option<Value> {
    match tools {
        Value::Array(tools) if !tools.is_empty() => Some(tools.into_iter().map(openai::tool).collect()),
        Value::String(text) => trusted::parse(text.as_bytes()).ok().filter(Value::is_array).and_then(offered),
        _ => None,
    }
}

/// Holds a message's content to text; parts of text are joined, a lone null needs a tool call beside it.
fn content(message: &mut Map<String, Value>, reasoning: &str) -> Result<(), Flaw> {
    let calls = tool_calls(message)?;
    match message.get("content") {
        None | Some(Value::Null) if calls => Ok(()),
        None | Some(Value::Null) => {
            let words = words(message, reasoning).ok_or(Flaw::EmptyMessage)?;
            message.insert("content".to_owned(), words);
            Ok(())
        }
        Some(Value::String(text)) if text.is_empty() && !calls => {
            if let Some(words) = words(message, reasoning) {
                message.insert("content".to_owned(), words);
            }
            Ok(())
        }
        Some(Value::String(_)) => Ok(()),
        Some(Value::Array(parts)) => {
            let text: Option<String> = parts.iter().map(part).collect();
            message.insert("content".to_owned(), Value::String(text.ok_or(Flaw::BadMessage)?));
            Ok(())
        }
        Some(_) => Err(Flaw::BadMessage),
    }
}

/// What a message says where its content does not; none where nothing is kept there.
fn words(message: &mut Map<String, Value>, reasoning: &str) -> Option<Value> {
    let words = if reasoning.is_empty() { None } else { message.shift_remove(reasoning) };
    words.filter(|words| words.as_str().is_some_and(|words| !words.is_empty()))
}

/// Whether a message calls tools; the calls take the form that chat templates know.
fn tool_calls(message: &mut Map<String, Value>) -> Result<bool, Flaw> {
    match message.get_mut("tool_calls") {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Array(calls)) => {
            for call in calls.iter_mut() {
                *call = openai::call(call.take()).ok_or(Flaw::BadMessage)?;
            }
            Ok(!calls.is_empty())
        }
        Some(_) => Err(Flaw::BadMessage),
    }
}

fn part(part: &Value) -> Option<&str> {
    let text = part.get("type").is_none_or(|kind| kind == "text");
    part.get("text").filter(|_| text)?.as_str()
}
