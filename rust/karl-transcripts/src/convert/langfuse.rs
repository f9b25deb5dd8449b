//! Langfuse: observations as its API, its export to blob storage and its page write them, in any of these files: lines,
//! an array, `{"data": [...]}`, or a trace with its `observations` and `scores`.
//!
//! Each generation is a call of a model. Scores of a trace stay under `source.scores`, by name. Keys are those of
//! Langfuse 3 to 5, in both spellings (`traceId`, `trace_id`).

use std::collections::{BTreeMap, HashMap, HashSet};

use karl_log::conversation::blocks::chat_messages;
use karl_log::json::reference_parser;
use karl_log::time::milliseconds;
use serde_json::{Map, Value, json};

use super::file_records::{Fates, PooledFile};
use super::json::{list, text};
use super::message::Conversation;
use super::model_calls::{ModelCall, conversations};
use super::report::{LineCounts, NO_CONVERSATION, count_type};
use super::run::{Head, Tokens};

/// Observations, scores and sessions while the records are read.
#[derive(Default)]
struct Export {
    calls: Vec<ModelCall>,
    seen: HashSet<String>,
    scores: BTreeMap<String, Map<String, Value>>,
    sessions: HashMap<String, String>,
}

/// Read the conversations of an export.
pub(super) fn read(files: &[PooledFile], counts: &mut LineCounts) -> Vec<(Head, Conversation)> {
    let mut export = Export::default();
    for file in files {
        let mut fates = Fates::new(file.records.len());
        for (at, record) in file.records.iter().enumerate() {
            fates.set(at, export.record(&record.value, &file.name, counts));
        }
        fates.count(counts);
    }
    let Export { mut calls, scores, sessions, .. } = export;
    for call in &mut calls {
        call.session = call.session.take().or_else(|| sessions.get(&call.trace).cloned());
    }
    conversations("langfuse", calls, &scores, counts)
}

/// Return the text under the first of some keys.
fn first<'v>(value: &'v Value, keys: &[&str]) -> Option<&'v str> {
    keys.iter().find_map(|key| text(value, key)).filter(|text| !text.is_empty())
}

impl Export {
    fn record(&mut self, record: &Value, file: &str, counts: &mut LineCounts) -> Result<(), &'static str> {
        if let Some(inner) = record.get("data").and_then(Value::as_array) {
            let outcomes: Vec<_> = inner.iter().map(|entry| self.record(entry, file, counts)).collect();
            return outcomes.into_iter().min_by_key(Result::is_err).unwrap_or(Err(NO_CONVERSATION));
        }
        let trace = first(record, &["traceId", "trace_id"]);
        let Some(trace) = trace else { return self.trace(record, file, counts) };
        let kind = text(record, "type").unwrap_or("score");
        count_type(&mut counts.types, kind, 1);
        if record.get("value").is_some() && record.get("input").is_none() {
            self.score(record, trace);
            return Err(NO_CONVERSATION);
        }
        if kind != "GENERATION" {
            return Err(NO_CONVERSATION);
        }
        let call = call_of(record, trace, file).ok_or("no_output")?;
        if self.seen.insert(format!("{trace}/{}", call.span)) {
            self.calls.push(call);
        } else {
            counts.note("repeated_span");
        }
        Ok(())
    }

    /// Read a trace, with the observations and scores in it.
    fn trace(&mut self, record: &Value, file: &str, counts: &mut LineCounts) -> Result<(), &'static str> {
        count_type(&mut counts.types, "trace", 1);
        let Some(id) = text(record, "id") else { return Err(NO_CONVERSATION) };
        let session = first(record, &["sessionId", "session_id"]);
        self.sessions.extend(session.map(|session| (id.to_owned(), session.to_owned())));
        for score in list(record, "scores") {
            self.score(score, id);
        }
        let outcomes: Vec<_> =
            list(record, "observations").iter().map(|entry| self.record(entry, file, counts)).collect();
        outcomes.into_iter().min_by_key(Result::is_err).unwrap_or(Err(NO_CONVERSATION))
    }

    fn score(&mut self, score: &Value, trace: &str) {
        let value = score.get("value").filter(|value| value.is_number());
        if let (Some(name), Some(value)) = (text(score, "name"), value) {
            self.scores.entry(trace.to_owned()).or_default().insert(name.to_owned(), value.clone());
        }
    }
}

/// Return the call of a generation; `None` if it wrote nothing.
fn call_of(record: &Value, trace: &str, file: &str) -> Option<ModelCall> {
    let of = |key: &str| record.get(key).map(parsed).unwrap_or_default();
    let (input, output) = (of("input"), of("output"));
    let output = chat_messages(messages_of(output, "assistant"));
    if output.is_empty() {
        return None;
    }
    let moment = |keys: [&str; 2]| {
        first(record, &keys).and_then(|text| milliseconds(text.as_bytes())).unwrap_or_default()
    };
    let usage = ["usageDetails", "usage_details", "usage"]
        .iter()
        .find_map(|key| record.get(*key))
        .map(parsed)
        .unwrap_or_default();
    let count = |key: &str| usage.get(key).and_then(Value::as_u64);
    let tools = ["tools", "functions"].iter().find_map(|key| input.get(*key)).cloned();
    Some(ModelCall {
        trace: trace.to_owned(),
        span: text(record, "id").unwrap_or_default().to_owned(),
        session: first(record, &["sessionId", "session_id"]).map(str::to_owned),
        begun: moment(["startTime", "start_time"]),
        ended: moment(["endTime", "end_time"]),
        tools: tools.or_else(|| record.pointer("/metadata/tools").cloned()),
        input: chat_messages(messages_of(input, "user")),
        output,
        model: first(record, &["model", "providedModelName", "provided_model_name"]).map(str::to_owned),
        tokens: Tokens { input: count("input"), output: count("output"), ..Tokens::default() },
        file: file.to_owned(),
        ..ModelCall::default()
    })
}

fn parsed(value: &Value) -> Value {
    let json = value.as_str().filter(|text| text.trim_start().starts_with(['[', '{', '"']));
    json.and_then(|text| reference_parser::parse(text.as_bytes()).ok()).unwrap_or_else(|| value.clone())
}

/// Return the messages of an input or an output: a list, an object with one, a message, or a text.
fn messages_of(value: Value, role: &str) -> Vec<Value> {
    match value {
        Value::Array(messages) => messages,
        Value::Null => Vec::new(),
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::Object(mut fields) => {
            if let Some(Value::Array(messages)) = ["messages", "input", "contents", "output"]
                .iter()
                .find_map(|key| fields.get_mut(*key).filter(|value| value.is_array()).map(Value::take))
            {
                return messages;
            }
            let message = fields.get("choices").and_then(|choices| choices.pointer("/0/message")).cloned();
            vec![message.unwrap_or_else(|| {
                fields.entry("role").or_insert_with(|| json!(role));
                Value::Object(fields)
            })]
        }
        other => vec![json!({"role": role, "content": other})],
    }
}
