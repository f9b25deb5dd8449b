//! Conversion of one parsed record to one training example, or to a reason for rejection.
//!
//! The lint covers records that make trainers fail, each rule observed to break `mlx_lm lora`: a conversation
//! must have an assistant turn and end with one; a message without content must call a tool; an empty text
//! has nothing to predict, and its loss is 0/0.

use serde_json::{Value, json};

use super::flaw::Flaw;
use super::media::media_of;
use super::openai::{self, is_filled};
use super::results::put_to_calls;
use super::turn::{Turn, begins_with_system, speaker, text_of, turns};
use crate::format::{Field, Fields, Transform};
use crate::json::reference_parser::{self, lookup, take};

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
        RecordedTrajectory::Completion { completion, .. } if completion.trim().is_empty() => {
            Err(Flaw::NoAssistantTurn)
        }
        RecordedTrajectory::Completion { prompt, completion } => {
            Ok(untrimmed(Example::Completion { prompt, completion }))
        }
        RecordedTrajectory::Text(text) => Ok(untrimmed(Example::Text(text))),
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
    let parts = (messages, get(&fields.prompt)?, get(&fields.completion)?, get(&fields.text)?);
    let parts = (parts.0, add_instruction_parts(parts.1, record, fields)?, parts.2, parts.3);
    let tools = tools.filter(is_filled).or_else(|| other_tools(record));
    if let Some(kind) = media_beside(record, fields, [&parts.0, &parts.1, &parts.3]) {
        return Err(Flaw::Media(kind));
    }
    let messages = match parts {
        (Some(Value::Array(messages)), _, Some(completion), _)
            if is_answer(&completion) && is_open(&messages) =>
        {
            join_messages(messages.into(), completion)
        }
        (Some(Value::Array(messages)), ..) if has_other_answer(record, fields, &messages) => {
            return Err(Flaw::BadMessage);
        }
        (Some(Value::Array(messages)), Some(prompt), ..)
            if is_bare_answer(&messages) && is_answer(&prompt) =>
        {
            join_messages(prompt, messages.into())
        }
        (Some(Value::Array(messages)), ..) => messages,
        (Some(_), ..) => return Err(Flaw::BadMessage),
        (_, Some(Value::String(prompt)), Some(Value::String(completion)), _) => {
            let system = take_system(record, fields, fields.prompt.as_ref(), &[])?;
            if system.is_some() || tools.as_ref().is_some_and(is_filled) {
                let messages = join_messages(prompt.into(), completion.into());
                return Ok(RecordedTrajectory::Chat { system, messages, tools });
            }
            return Ok(RecordedTrajectory::Completion { prompt, completion });
        }
        (_, Some(prompt), Some(completion), _) => join_messages(prompt, completion),
        (_, _, _, Some(Value::String(text))) if !text.is_empty() => {
            return Ok(RecordedTrajectory::Text(text));
        }
        _ => return Err(Flaw::NoTrajectory),
    };
    let place = fields.messages.as_ref().or(fields.prompt.as_ref());
    let system = take_system(record, fields, place, &messages)?;
    Ok(RecordedTrajectory::Chat { system, messages, tools })
}

/// Return the prompt of an instruction with what Alpaca's records have beside it: in `input` the text that it is about,
/// on a line of its own, and in `history` the turns before it, as pairs of a user's and a model's text (LLaMA-Factory).
fn add_instruction_parts(
    prompt: Option<Value>,
    record: &Value,
    fields: &Fields,
) -> Result<Option<Value>, Flaw> {
    let mut choices = fields.prompt.iter().flat_map(Field::choices).take(1);
    let Some(Value::String(mut text)) = prompt else { return Ok(prompt) };
    if !choices.any(|choice| choice.path.segments() == ["instruction"]) {
        return Ok(Some(text.into()));
    }
    if let Some(input) = record.get("input").and_then(Value::as_str).filter(|input| !input.is_empty()) {
        text = format!("{text}\n{input}");
    }
    let Some(history) = record.get("history").filter(|history| is_filled(history)) else {
        return Ok(Some(text.into()));
    };
    let mut turns = Vec::new();
    for pair in history.as_array().ok_or(Flaw::BadMessage)? {
        let [Value::String(user), Value::String(model)] = pair.as_array().map_or(&[][..], Vec::as_slice)
        else {
            return Err(Flaw::BadMessage);
        };
        turns.push(json!({"role": "user", "content": user}));
        turns.push(json!({"role": "assistant", "content": model}));
    }
    turns.push(json!({"role": "user", "content": text}));
    Ok(Some(turns.into()))
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
    if let Some(key) = TOOLS.iter().find(|key| record.get(**key).is_some_and(is_filled)) {
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
    let mut value = None;
    for choice in field.choices() {
        // A question and its answer are parts of one value.
        let held = match choice.transform {
            Transform::Question | Transform::Answer => lookup(record, &choice.path).cloned(),
            _ => take(record, &choice.path),
        };
        value = held.map(|value| convert(value, choice.transform)).transpose()?.flatten();
        if value.as_ref().is_some_and(|value| value != "" && *value != json!([])) {
            break;
        }
    }
    Ok(value)
}

/// Convert a value.
fn convert(value: Value, transform: Transform) -> Result<Option<Value>, Flaw> {
    let value = match (transform, value) {
        (Transform::Json, Value::String(text)) => {
            reference_parser::parse_rollout(text.as_bytes()).map_err(|_| Flaw::Unparsable)?
        }
        (Transform::Plan, calls) => Value::String(plan(&calls).ok_or(Flaw::BadMessage)?),
        (Transform::Question, turns) => turn_text(&turns, 1),
        (Transform::Answer, turns) if turn_speaker(&turns) == Some("assistant") => turn_text(&turns, 0),
        (Transform::Answer, _) => Value::Null,
        (_, value) => value,
    };
    Ok(Some(value).filter(|value| !value.is_null()))
}

/// Return the content of a turn, counted from the last one; null if there is none.
fn turn_text(turns: &Value, from_last: usize) -> Value {
    let turn = turns.as_array().and_then(|turns| turns.iter().rev().nth(from_last));
    turn.and_then(|turn| turn.get("content")).cloned().unwrap_or_default()
}

fn turn_speaker(turns: &Value) -> Option<&'static str> {
    turns.as_array()?.last().and_then(speaker)
}

fn untrimmed(example: Example) -> TrimmedExample {
    TrimmedExample { example, trimmed: 0 }
}

/// Return whether a value may be an answer: a text, messages or an object of them.
fn is_answer(value: &Value) -> bool {
    (value.is_string() || value.is_array() || value.is_object()) && is_filled(value)
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
fn join_messages(prompt: Value, completion: Value) -> Vec<Value> {
    let mut messages = messages_of(prompt, "user");
    let answer = messages_of(completion, "assistant");
    let repeats = answer.len() > messages.len()
        && messages.iter().zip(&answer).all(|(left, right)| says_same(left, right));
    if repeats && !messages.is_empty() {
        return answer;
    }
    messages.extend(answer);
    messages
}

/// Return whether two messages have one speaker and one text.
fn says_same(left: &Value, right: &Value) -> bool {
    let text = |message: &Value| message.get("content").or_else(|| message.get("value")).and_then(text_of);
    speaker(left).is_some_and(|role| speaker(right) == Some(role))
        && text(left).is_some_and(|content| text(right) == Some(content))
}

/// Return a list of messages unchanged, and a message, or that of a response of `OpenAI`, as a list; any other
/// value is the content of one message.
fn messages_of(mut value: Value, role: &str) -> Vec<Value> {
    let has_single_choice =
        value.get("choices").and_then(Value::as_array).is_some_and(|choices| choices.len() == 1);
    if let Some(message) = value.pointer_mut("/choices/0/message").filter(|_| has_single_choice) {
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
    let mut messages = turns.into_iter().map(into_message).collect::<Result<Vec<_>, _>>()?;
    put_to_calls(&mut messages);
    let tools = tools.map_or(Ok(None), offered)?;
    Ok(TrimmedExample { example: Example::Chat { messages, tools }, trimmed })
}

/// Return the message of a turn, with the arguments of its calls as objects.
fn into_message(turn: Turn) -> Result<Value, Flaw> {
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
        tools if !is_filled(&tools) => return Ok(None),
        Value::Array(tools) => tools,
        Value::Object(_) => vec![tools],
        _ => return Err(Flaw::BadTools),
    };
    openai::tools(list).map(|tools| Some(Value::Array(tools))).ok_or(Flaw::BadTools)
}

/// Keys of the system text beside a conversation.
const SYSTEM: [&str; 6] =
    ["system", "system_prompt", "system_message", "system_instruction", "systemInstruction", "instructions"];

/// Return the paths of the objects around a conversation, innermost first.
fn around(conversation: Option<&Field>) -> Vec<&[String]> {
    let choices = conversation.into_iter().flat_map(Field::choices);
    let mut around: Vec<&[String]> =
        choices.filter_map(|choice| choice.path.segments().split_last()).map(|(_, around)| around).collect();
    around.push(&[]);
    around
}

/// Take the system text that is beside a conversation, or in the record around it, and not in its messages.
///
/// # Errors
/// [`Flaw::BadSystem`] for a text that differs from another or from the system message, and for a value that
/// is not a text if there is no such message.
fn take_system(
    record: &mut Value,
    fields: &Fields,
    conversation: Option<&Field>,
    messages: &[Value],
) -> Result<Option<String>, Flaw> {
    let has_own = begins_with_system(messages);
    let named = fields.system.as_ref().map_or(Ok(None), |field| find(record, field))?;
    let named = named.map(|named| text_of(&named).ok_or(Flaw::BadSystem)).transpose()?;
    let is_new = |text: &String| !text.is_empty() && !is_said(messages, "system", text);
    let mut texts: Vec<String> = named.filter(is_new).into_iter().collect();
    for path in around(conversation) {
        let object = path.iter().try_fold(&mut *record, |value, key| value.as_object_mut()?.get_mut(key));
        let Some(object) = object.and_then(Value::as_object_mut) else { continue };
        for key in SYSTEM {
            let Some(system) = object.get_mut(key).filter(|system| !system.is_null()) else { continue };
            let Some(text) = text_of(system).or_else(|| system.get("parts").and_then(openai::texts)) else {
                if has_own {
                    continue;
                }
                return Err(Flaw::BadSystem);
            };
            *system = Value::Null;
            let is_known = text.is_empty() || texts.contains(&text) || is_said(messages, key, &text);
            texts.extend(Some(text).filter(|_| !is_known));
        }
    }
    let differs = texts.len() > usize::from(!has_own);
    if differs { Err(Flaw::BadSystem) } else { Ok(texts.pop()) }
}

/// Return whether a system message has this text, or any message if its key is `instructions`.
fn is_said(messages: &[Value], key: &str, text: &str) -> bool {
    let content = |message: &Value| message.get("content").or_else(|| message.get("value")).and_then(text_of);
    let mut system =
        messages.iter().filter(|message| key == "instructions" || speaker(message) == Some("system"));
    system.any(|message| content(message).is_some_and(|content| content.trim() == text.trim()))
}

/// Return a plan in words, for logs without text of the model: one numbered line per call, with the tool and the logged
/// arguments. The result of a call is left out:
/// the model did not know it when it made the call. `None` if the value is not a list of calls.
fn plan(calls: &Value) -> Option<String> {
    let step = |(at, call): (usize, &Value)| Some(format!("{}. {}", at + 1, step(call)?));
    let steps: Option<Vec<String>> = calls.as_array()?.iter().enumerate().map(step).collect();
    Some(steps?.join("\n"))
}

fn step(call: &Value) -> Option<String> {
    let name = call.get("tool_name").or_else(|| call.get("tool"))?.as_str()?;
    Some(match (call.get("key_params"), call.get("input_preview")) {
        (Some(Value::Object(arguments)), _) if !arguments.is_empty() => {
            let argument = |(key, value): (&String, &Value)| {
                format!("{key}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            };
            format!("{name}({})", arguments.iter().map(argument).collect::<Vec<_>>().join(", "))
        }
        (_, Some(Value::String(preview))) if !preview.is_empty() => format!("{name}({preview})"),
        _ => name.to_owned(),
    })
}

/// Return a record as the input of a reward function: prompt, completion and the whole record.
pub(crate) fn reward_input(bytes: &[u8], fields: &Fields) -> Option<String> {
    let record = reference_parser::parse_rollout(bytes).ok()?;
    let (prompt, completion) = example(record.clone(), fields)
        .map_or_else(|_| empty_halves(&record, fields), |read| halves(read.example));
    serde_json::to_string(&(prompt, completion, record)).ok()
}

fn halves(example: Example) -> (Value, Value) {
    match example {
        Example::Chat { mut messages, .. } => {
            let first = messages.iter().position(|message| message["role"] == "assistant");
            let completion = messages.split_off(first.unwrap_or(messages.len()));
            (Value::Array(messages), Value::Array(completion))
        }
        Example::Completion { prompt, completion } => (prompt.into(), completion.into()),
        Example::Text(text) => (String::new().into(), text.into()),
    }
}

/// Return an empty prompt and an empty completion, in the form of the record.
fn empty_halves(record: &Value, fields: &Fields) -> (Value, Value) {
    let choices = fields.completion.iter().flat_map(Field::choices);
    let text = choices.filter_map(|choice| lookup(record, &choice.path)).any(Value::is_string);
    if text { (json!(""), json!("")) } else { (json!([]), json!([{"role": "assistant", "content": ""}])) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot read its own record fails")]
mod tests {
    use super::*;
    use crate::format::{Overrides, by_name};

    fn halves_of(text: &str) -> (Value, Value) {
        halves(example(reference_parser::parse(text.as_bytes()).unwrap(), &fields()).unwrap().example)
    }

    fn fields() -> Fields {
        Fields::new(by_name("generic").unwrap(), &Overrides::default(), None).unwrap()
    }

    #[test]
    fn a_conversation_is_cut_before_its_first_assistant_turn() {
        let [system, user, assistant] =
            ["system", "user", "assistant"].map(|role| json!({"role": role, "content": "x"}));
        let messages = json!([system, user, assistant, user, assistant, user]);
        let (prompt, completion) = halves_of(&json!({ "messages": messages }).to_string());
        assert_eq!(prompt, json!([system, user]));
        assert_eq!(completion, json!([assistant, user, assistant]));
    }

    #[test]
    fn texts_stay_texts() {
        assert_eq!(halves_of(r#"{"prompt": "a", "completion": "b"}"#), (json!("a"), json!("b")));
        assert_eq!(halves_of(r#"{"text": "b"}"#), (json!(""), json!("b")));
    }

    #[test]
    fn what_is_no_example_has_empty_halves_and_damage_is_nothing() {
        let input = |record: &str| reward_input(record.as_bytes(), &fields()).unwrap();
        let empty = r#"[[],[{"role":"assistant","content":""}],"#;
        let big = r#"{"id":1,"big":12345678901234567890123}"#;
        assert_eq!(input(big), format!("{empty}{big}]"));
        let unanswered = r#"{"prompt":"a","completion":""}"#;
        assert_eq!(input(unanswered), format!(r#"["","",{unanswered}]"#));
        assert_eq!(reward_input(br#"{"id": 1, "x": "\ud800"}"#, &fields()), None);
    }
}
