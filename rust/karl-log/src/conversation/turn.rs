//! Parser of messages for data sets and conversions: a message in the form of chat templates, or its flaw.
//!
//! A message with content under an unsupported key is a flaw of its row: parsing the rest would train the
//! model on a conversation that never took place.

use serde_json::{Map, Value, json};

use super::Flaw;
use super::blocks::{chat_messages, medium_of};
use super::media::media_of;
use super::openai::{self, THOUGHTS, has_filled, is_filled};

/// Keys of other producers for a message's content and calls.
const UNREAD: [&str; 31] = [
    "attachments",
    "audio",
    "blocks",
    "content_blocks",
    "contents",
    "experimental_attachments",
    "functionCall",
    "functionResponse",
    "function_calls",
    "function_response",
    "image",
    "images",
    "inlineData",
    "inline_data",
    "parts",
    "refusal",
    "toolCall",
    "toolCalls",
    "toolInvocations",
    "toolResult",
    "toolResults",
    "toolUse",
    "tool_call",
    "tool_invocations",
    "tool_plan",
    "tool_result",
    "tool_results",
    "tool_use",
    "tool_uses",
    "video",
    "videos",
];

/// Keys of `LangChain`'s `additional_kwargs` that hold calls.
const KWARGS: [&str; 2] = ["tool_calls", "function_call"];

/// Keys of reasoning that chat templates do not read: of GitHub Copilot and of SWE-agent, whose content has it too.
const OTHER_THOUGHTS: [&str; 2] = ["reasoning_text", "thought"];

/// Keys of lists of reasoning blocks: those of `OpenRouter` and of `LiteLLM`.
pub const BLOCKS: [&str; 2] = ["reasoning_details", "thinking_blocks"];

/// One message of a conversation.
#[derive(Debug)]
pub struct Turn {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: &'static str,
    /// True if it is trained on: false for every other role, and for `"weight": 0`.
    pub learned: bool,
    /// Message with a known role, a text or null as content, and calls in the form of chat templates.
    pub message: Result<Map<String, Value>, Flaw>,
}

impl Turn {
    /// Parse a message; `reasoning` is the key of the text of one without content.
    ///
    /// # Errors
    /// [`Flaw::BadMessage`] without a role, [`Flaw::UnknownRole`] and [`Flaw::BadWeight`]: it is then unknown
    /// whether the message is the model's.
    pub(crate) fn read(message: Value, reasoning: &str) -> Result<Self, Flaw> {
        let Value::Object(mut message) = openai::message(message) else { return Err(Flaw::BadMessage) };
        let named = message.get("role").and_then(Value::as_str).ok_or(Flaw::BadMessage)?;
        let role = openai::role(&named.to_ascii_lowercase()).ok_or(Flaw::UnknownRole)?;
        let is_same = named == role;
        let learned = role == "assistant" && take_weight(&mut message)?;
        if !is_same {
            message.insert("role".to_owned(), json!(role));
        }
        let message = normalize(&mut message, role, reasoning).map(|()| message);
        Ok(Self { role, learned, message })
    }

    /// Return a system message.
    fn system(text: &str) -> Self {
        let message = [("role".to_owned(), json!("system")), ("content".to_owned(), json!(text))];
        Self { role: "system", learned: false, message: Ok(Map::from_iter(message)) }
    }
}

/// Parse a conversation with an optional system text beside it.
///
/// # Errors
/// As `Turn::read`; [`Flaw::UnknownRole`] for an exit that is not the end.
pub fn turns(system: Option<String>, messages: Vec<Value>, reasoning: &str) -> Result<Vec<Turn>, Flaw> {
    let read = chat_messages(messages).into_iter().map(|message| Turn::read(message, reasoning));
    let turns: Vec<Turn> =
        system.map(|text| Ok(Turn::system(&text))).into_iter().chain(read).collect::<Result<_, _>>()?;
    let exit = turns.iter().position(|turn| turn.role == openai::EXIT).unwrap_or(turns.len());
    let goes_on = turns[exit..].iter().any(|turn| turn.role == "assistant");
    if goes_on { Err(Flaw::UnknownRole) } else { Ok(turns) }
}

/// Return whether a conversation begins with a system message.
pub(crate) fn begins_with_system(messages: &[Value]) -> bool {
    messages.first().and_then(speaker) == Some("system")
}

/// Return the role of a message of any form; `None` if unknown.
pub(crate) fn speaker(message: &Value) -> Option<&'static str> {
    let named = message.get("role").or_else(|| message.get("from"))?.as_str()?.to_ascii_lowercase();
    if named == "function_call" { Some("assistant") } else { openai::role(&named) }
}

/// Return the text of a content; `None` if it is neither a text nor parts of text.
pub(crate) fn text_of(content: &Value) -> Option<String> {
    match content {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => parts.iter().map(part).collect(),
        _ => None,
    }
}

fn part(part: &Value) -> Option<&str> {
    let kind = part.get("type").map(Value::as_str);
    let is_text = matches!(kind, None | Some(Some("text" | "input_text" | "output_text")));
    part.get("text").filter(|_| is_text)?.as_str()
}

/// Flags of other trainers in place of a weight: Axolotl's, ms-swift's, and names chosen by data sets.
const FLAGS: [&str; 6] = ["train", "training", "trainable", "learnable", "loss", "loss_mask"];

/// Return whether the model's message is trained on, by its weight as in `OpenAI`'s fine-tuning format. Flags
/// of other trainers are converted to a weight.
fn take_weight(message: &mut Map<String, Value>) -> Result<bool, Flaw> {
    match message.get("weight").filter(|weight| !weight.is_null()).map(Value::as_f64) {
        Some(Some(1.0)) => return Ok(true),
        Some(Some(0.0)) => return Ok(false),
        Some(_) => return Err(Flaw::BadWeight),
        None => {}
    }
    // Axolotl's flags for parts of a text: no supported trainer masks the inside of a turn.
    if message.get("train_detail").is_some_and(is_filled) {
        return Err(Flaw::BadWeight);
    }
    let is_off = |flag: &Value| *flag == Value::Bool(false) || flag.as_f64() == Some(0.0);
    let unlearned = message.iter().any(|(key, value)| FLAGS.contains(&key.as_str()) && is_off(value));
    if unlearned {
        message.insert("weight".to_owned(), json!(0));
    }
    Ok(!unlearned)
}

/// Convert a message to the form of chat templates.
fn normalize(message: &mut Map<String, Value>, role: &str, reasoning: &str) -> Result<(), Flaw> {
    if has_filled(message, &UNREAD) || is_elsewhere(message) || media_of(message).is_some() {
        return Err(Flaw::BadMessage);
    }
    thoughts(message)?;
    if role == "assistant" {
        add_other_thoughts(message);
    }
    if role == "tool" {
        add_error_text(message);
    }
    let calls = calls(message)?;
    if calls && role != "assistant" {
        return Err(Flaw::BadMessage);
    }
    content(message, calls, reasoning)
}

/// Give a result without a text the text of its error.
fn add_error_text(message: &mut Map<String, Value>) {
    let error = message.get("error").and_then(error_of);
    if let Some(error) = error.filter(|_| !message.get("content").is_some_and(is_filled)) {
        message.insert("content".to_owned(), Value::String(error));
    }
}

/// Return the text of an error: a text, or an object as JSON; `None` for a flag.
#[must_use]
pub fn error_of(error: &Value) -> Option<String> {
    match error {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Object(_) | Value::Array(_) if is_filled(error) => Some(error.to_string()),
        _ => None,
    }
}

/// Join reasoning that consists of parts of text.
fn thoughts(message: &mut Map<String, Value>) -> Result<(), Flaw> {
    let is_thought = |key: &str| THOUGHTS.contains(&key) || OTHER_THOUGHTS.contains(&key);
    for (_, thought) in message.iter_mut().filter(|(key, _)| is_thought(key)) {
        match thought {
            Value::Null | Value::Bool(_) | Value::String(_) => {}
            thought => *thought = Value::String(text_of(thought).ok_or(Flaw::BadMessage)?),
        }
    }
    Ok(())
}

/// Add reasoning of other keys and of blocks to the reasoning that chat templates read, on lines of its own.
fn add_other_thoughts(message: &mut Map<String, Value>) {
    let Some(more) = other_thoughts(message) else { return };
    let is_text = |key: &&str| message.get(*key).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    let key = THOUGHTS.into_iter().find(is_text).unwrap_or(THOUGHTS[0]);
    let before = message.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let all = before.map_or_else(|| more.clone(), |before| format!("{before}\n{more}"));
    message.insert(key.to_owned(), Value::String(all));
}

/// Return reasoning of other keys and of blocks that is not also under a key that chat templates read.
fn other_thoughts(message: &Map<String, Value>) -> Option<String> {
    let is_other = |key: &String| OTHER_THOUGHTS.contains(&key.as_str()) || BLOCKS.contains(&key.as_str());
    if !message.keys().any(is_other) {
        return None;
    }
    let of = |key: &&str| message.get(*key).and_then(Value::as_str);
    let mut texts: Vec<&str> = OTHER_THOUGHTS.iter().filter_map(of).collect();
    if !texts.is_empty() {
        let content = message.get("content").and_then(text_of).unwrap_or_default();
        texts.retain(|text| !content.contains(text));
    }
    let blocks = BLOCKS.iter().filter_map(|key| message.get(*key)?.as_array()).flatten();
    texts.extend(blocks.filter_map(block_text));
    let mut more: Vec<&str> = Vec::new();
    for text in texts {
        let is_known =
            more.contains(&text) || THOUGHTS.iter().filter_map(of).any(|known| known.contains(text));
        more.extend((!is_known).then_some(text));
    }
    (!more.is_empty()).then(|| more.join("\n"))
}

/// Return the text of a block of reasoning; an encrypted one has none.
fn block_text(block: &Value) -> Option<&str> {
    let of = |key: &&str| block.get(*key)?.as_str().filter(|text| !text.is_empty());
    ["text", "thinking", "summary"].iter().find_map(of)
}

/// Return whether a message is in a channel of Harmony other than the answer or goes to a tool, or has its
/// calls in `LangChain`'s `additional_kwargs`.
fn is_elsewhere(message: &Map<String, Value>) -> bool {
    let is_plain = |key: &str, plain: &[&str]| {
        message.get(key).is_some_and(|value| is_filled(value) && !plain.iter().any(|plain| value == plain))
    };
    let kwargs = message.get("additional_kwargs");
    let called = kwargs.is_some_and(|kwargs| KWARGS.iter().any(|key| kwargs.get(key).is_some_and(is_filled)));
    is_plain("channel", &["final"])
        || is_plain("recipient", &["all", "assistant", "user"])
        || (called && !message.get("tool_calls").is_some_and(is_filled))
}

/// Return whether a message calls tools; convert the calls to the form of chat templates, the older
/// `function_call` too.
fn calls(message: &mut Map<String, Value>) -> Result<bool, Flaw> {
    let older = message.shift_remove("function_call").filter(is_filled);
    let calls = match (message.get_mut("tool_calls").map(Value::take), older) {
        (None | Some(Value::Null), None) => return Ok(false),
        (None | Some(Value::Null), Some(call)) => vec![call],
        (Some(Value::Array(calls)), None) => calls,
        (Some(Value::Array(calls)), Some(call)) if calls.is_empty() => vec![call],
        _ => return Err(Flaw::BadMessage),
    };
    let calls: Option<Vec<Value>> = calls.into_iter().map(openai::call).collect();
    let calls = calls.ok_or(Flaw::BadMessage)?;
    let some = !calls.is_empty();
    message.insert("tool_calls".to_owned(), Value::Array(calls));
    Ok(some)
}

/// Check that a message's content is text; join parts of text. Null requires a tool call beside it, and the
/// model's message must not be empty.
fn content(message: &mut Map<String, Value>, calls: bool, reasoning: &str) -> Result<(), Flaw> {
    let content = match message.get("content") {
        None | Some(Value::Null) if calls => return Ok(()),
        Some(Value::String(text)) if calls || !text.trim().is_empty() => return Ok(()),
        None | Some(Value::Null) => None,
        Some(content) => {
            let flaw = || medium_of(content).map_or(Flaw::BadMessage, Flaw::Media);
            Some(text_of(content).ok_or_else(flaw)?)
        }
    };
    let text = match content {
        Some(text) if calls || !text.trim().is_empty() => text,
        content => words(message, reasoning).or(content).ok_or(Flaw::EmptyMessage)?,
    };
    if text.trim().is_empty()
        && !calls
        && message.get("role").is_some_and(|role| role == "assistant")
        && !has_filled(message, &THOUGHTS)
    {
        return Err(Flaw::EmptyMessage);
    }
    message.insert("content".to_owned(), Value::String(text));
    Ok(())
}

/// Return the text of a message without content; `None` if there is none.
fn words(message: &mut Map<String, Value>, reasoning: &str) -> Option<String> {
    let words = if reasoning.is_empty() { None } else { message.shift_remove(reasoning) };
    words.and_then(|words| words.as_str().filter(|words| !words.is_empty()).map(str::to_owned))
}
