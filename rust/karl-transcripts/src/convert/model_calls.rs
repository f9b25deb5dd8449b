//! Conversations of recorded calls of models, each with all of its input: what observability tools write.
//!
//! A call whose input repeats an earlier conversation goes on with it. Messages of the model in the input of a call that no
//! recorded call wrote are its context, and are not learned.

use std::collections::{BTreeMap, HashMap};

use karl_log::conversation::RecordedTrajectory;
use karl_log::time::timestamp;
use serde_json::{Map, Value, json};

use super::chat::ChatMessages;
use super::json::source;
use super::lineage::hash_of;
use super::message::Conversation;
use super::report::LineCounts;
use super::run::{Head, Tokens};

/// One call of a model.
#[derive(Debug, Default)]
pub(super) struct ModelCall {
    /// Trace that it is in.
    pub(super) trace: String,
    pub(super) span: String,
    /// Conversation that it is in, which may have several traces.
    pub(super) session: Option<String>,
    /// Calls of tools around it, the innermost first.
    pub(super) tool_calls_around: Vec<String>,
    /// Milliseconds since 1970 at its start and its end; 0 if unknown.
    pub(super) begun: i64,
    pub(super) ended: i64,
    pub(super) input: Vec<Value>,
    pub(super) output: Vec<Value>,
    pub(super) tools: Option<Value>,
    pub(super) model: Option<String>,
    pub(super) tokens: Tokens,
    pub(super) file: String,
}

/// Conversation of some calls.
struct Thread {
    first: usize,
    last: usize,
    messages: Vec<Value>,
    /// What is compared of each message.
    keys: Vec<u64>,
    tokens: Tokens,
}

/// Return the conversations of some calls. `scores` are by trace and name; a conversation that cannot be read is dropped
/// by the name of its flaw.
pub(super) fn conversations(
    format: &str,
    mut calls: Vec<ModelCall>,
    scores: &BTreeMap<String, Map<String, Value>>,
    counts: &mut LineCounts,
) -> Vec<(Head, Conversation)> {
    calls.sort_by(|a, b| (a.begun, &a.trace, &a.span).cmp(&(b.begun, &b.trace, &b.span)));
    let threads = threads(&calls);
    let ids = ids(&calls, &threads);
    let parents = parents(&calls, &threads);
    let mut all = Vec::new();
    for (at, thread) in threads.into_iter().enumerate() {
        let [first, last] = [thread.first, thread.last].map(|call| &calls[call]);
        let recorded =
            RecordedTrajectory::Chat { system: None, messages: thread.messages, tools: last.tools.clone() };
        let mut messages = ChatMessages::default();
        let tools = match messages.add_message(recorded, "", counts) {
            Ok(tools) => tools,
            Err(flaw) => {
                flaw.media().into_iter().for_each(|kind| counts.note(kind));
                counts.note(flaw.name());
                continue;
            }
        };
        let named =
            scores.get(&first.trace).cloned().map(|scores| ("scores".to_owned(), Value::Object(scores)));
        let mut more: Map<String, Value> = named.into_iter().collect();
        more.insert("trace_id".to_owned(), json!(first.trace));
        let head = Head {
            id: ids[at].clone(),
            session: Some(first.session.clone().unwrap_or_else(|| first.trace.clone())),
            parent: parents[at].as_ref().map(|(parent, call)| (ids[*parent].clone(), Some(call.clone()))),
            tokens: thread.tokens,
            source: source(format, &first.file, more),
            tools,
            model: last.model.clone(),
            ..Head::default()
        };
        all.push((head, messages.talk));
    }
    all
}

/// Return the conversations of calls in the order of their beginnings.
fn threads(calls: &[ModelCall]) -> Vec<Thread> {
    let mut threads: Vec<Thread> = Vec::new();
    let mut of_session: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, call) in calls.iter().enumerate() {
        let known = of_session.entry(call.session.as_deref().unwrap_or(&call.trace)).or_default();
        let keys: Vec<u64> = call.input.iter().map(key).collect();
        let goes_on = |thread: &&usize| keys.starts_with(&threads[**thread].keys);
        let before = known.iter().filter(goes_on).max_by_key(|thread| threads[**thread].keys.len()).copied();
        let place = before.unwrap_or_else(|| {
            threads.push(Thread {
                first: at,
                last: at,
                messages: Vec::new(),
                keys: Vec::new(),
                tokens: Tokens::default(),
            });
            known.push(threads.len() - 1);
            threads.len() - 1
        });
        let thread = &mut threads[place];
        let start = thread.messages.len();
        for message in &call.input[start..] {
            thread.messages.push(dated(context(message.clone()), call.begun));
        }
        thread.keys.extend(&keys[start..]);
        for message in &call.output {
            thread.keys.push(key(message));
            thread.messages.push(dated(message.clone(), call.ended));
        }
        thread.last = at;
        add(&mut thread.tokens, &call.tokens);
    }
    threads
}

/// Return what is compared of a message: its speaker, its text and its calls. Thoughts are often not sent again.
fn key(message: &Value) -> u64 {
    let text = |value: &Value| match value {
        Value::Array(parts) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect::<String>(),
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let calls = message.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
    let calls: Vec<Value> = calls
        .map(|call| {
            let function = call.get("function").unwrap_or(call);
            let arguments = function.get("arguments").unwrap_or(&Value::Null);
            let parsed = arguments.as_str().and_then(|text| serde_json::from_str(text).ok());
            json!([function.get("name"), parsed.unwrap_or_else(|| arguments.clone())])
        })
        .collect();
    let content = message.get("content").map(text).unwrap_or_default();
    hash_of(&json!([message.get("role"), content.trim(), calls]))
}

/// Return a message of the input: what the model says there was written elsewhere.
fn context(mut message: Value) -> Value {
    if message.get("role").is_some_and(|role| role == "assistant") {
        message["weight"] = json!(0);
    }
    message
}

/// Return a message with the time at which it was sent or written.
fn dated(mut message: Value, moment: i64) -> Value {
    if let (true, None, Some(text)) =
        (moment > 0 && message.is_object(), message.get("timestamp"), timestamp(moment))
    {
        message["timestamp"] = json!(text);
    }
    message
}

fn add(sum: &mut Tokens, more: &Tokens) {
    for (sum, more) in [
        (&mut sum.input, more.input),
        (&mut sum.output, more.output),
        (&mut sum.cache_read, more.cache_read),
        (&mut sum.cache_creation, more.cache_creation),
    ] {
        if let Some(more) = more {
            *sum = Some(sum.unwrap_or_default().saturating_add(more));
        }
    }
}

/// Return an id for each conversation: its trace, and for further ones of a trace the call too that they begin with.
fn ids(calls: &[ModelCall], threads: &[Thread]) -> Vec<String> {
    let mut seen = HashMap::new();
    let mut id = |thread: &Thread| {
        let call = &calls[thread.first];
        let count: &mut usize = seen.entry(call.trace.as_str()).or_default();
        *count += 1;
        if *count == 1 { call.trace.clone() } else { format!("{}/{}", call.trace, call.span) }
    };
    threads.iter().map(&mut id).collect()
}

/// Return for each conversation inside a call of a tool the conversation that made the call, and the call.
fn parents(calls: &[ModelCall], threads: &[Thread]) -> Vec<Option<(usize, String)>> {
    let mut callers: HashMap<&str, usize> = HashMap::new();
    for (at, thread) in threads.iter().enumerate() {
        for message in &thread.messages {
            let ids = message.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
            for id in ids.filter_map(|call| call.get("id")?.as_str()) {
                callers.entry(id).or_insert(at);
            }
        }
    }
    let parent = |(at, thread): (usize, &Thread)| {
        let around = &calls[thread.first].tool_calls_around;
        around
            .iter()
            .find_map(|call| Some((*callers.get(&**call).filter(|caller| **caller != at)?, call.clone())))
    };
    threads.iter().enumerate().map(parent).collect()
}
