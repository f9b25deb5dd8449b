//! Spans of OpenTelemetry as OTLP JSON (what the collector's file exporter writes, and Langfuse and Phoenix take), and as
//! the console exporters of its SDKs print them.
//!
//! Calls of models are found by the conventions of `GenAI` (`gen_ai.input.messages`, semantic conventions 1.37 to 1.41),
//! by those of `OpenInference` (`llm.input_messages.N.message.role`), and by those of `OpenLLMetry` before them
//! (`gen_ai.prompt.N.role`).

use std::collections::{BTreeMap, HashMap, HashSet};

use karl_log::conversation::blocks::chat_messages;
use karl_log::json::reference_parser;
use serde_json::{Map, Value, json};

use super::file_records::{Fates, PooledFile};
use super::json::{list, text};
use super::message::Conversation;
use super::model_calls::{ModelCall, conversations};
use super::report::{LineCounts, count_type};
use super::run::{Head, Tokens};

/// Span with its attributes by name.
struct Span {
    trace: String,
    id: String,
    parent: Option<String>,
    begun: i64,
    ended: i64,
    attributes: Map<String, Value>,
    events: Vec<(String, Map<String, Value>)>,
    place: (usize, usize),
}

/// Read the conversations of all spans.
pub(super) fn read(files: &[PooledFile], counts: &mut LineCounts) -> Vec<(Head, Conversation)> {
    let mut fates: Vec<Fates> = files.iter().map(|file| Fates::new(file.records.len())).collect();
    let spans = unique_spans(files, &mut fates, counts);
    let around = tool_calls_around(&spans);
    let (mut calls, mut scores) = (Vec::new(), BTreeMap::new());
    for span in &spans {
        add_scores(span, &mut scores);
        let kind = ["gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind"];
        let kind = kind.iter().find_map(|key| span.attributes.get(*key)?.as_str()).unwrap_or("(other span)");
        count_type(&mut counts.types, kind, 1);
        let (Some((input, output)), (file, record)) = (messages(span), span.place) else { continue };
        fates[file].keep(record);
        let call = model_call(span, input, output, &files[file].name);
        calls.push(ModelCall { tool_calls_around: around(span), ..call });
    }
    for fates in fates {
        fates.count(counts);
    }
    conversations("otlp", calls, &scores, counts)
}

/// Return each span once, by trace and id.
fn unique_spans(files: &[PooledFile], fates: &mut [Fates], counts: &mut LineCounts) -> Vec<Span> {
    let mut seen = HashSet::new();
    let mut spans: Vec<Span> = Vec::new();
    for (at, file) in files.iter().enumerate() {
        for (number, record) in file.records.iter().enumerate() {
            let mut is_new = false;
            let all = spans_of(&record.value, (at, number));
            let is_empty = all.is_empty();
            for span in all {
                if seen.insert((span.trace.clone(), span.id.clone())) {
                    is_new = true;
                    spans.push(span);
                } else {
                    counts.note("repeated_span");
                }
            }
            if !is_new && !is_empty {
                fates[at].repeat(number);
            }
        }
    }
    spans
}

/// Return the spans of a record: of a request, or one that a console exporter printed.
fn spans_of(record: &Value, place: (usize, usize)) -> Vec<Span> {
    let either = |value: &Value, keys: [&str; 2]| -> Vec<Value> {
        keys.iter().flat_map(|key| list(value, key)).cloned().collect()
    };
    let mut spans = Vec::new();
    for resource in either(record, ["resourceSpans", "resource_spans"]) {
        for scope in either(&resource, ["scopeSpans", "scope_spans"]) {
            spans.extend(list(&scope, "spans").iter().cloned());
        }
    }
    if spans.is_empty() && record.get("attributes").is_some_and(Value::is_object) {
        spans.push(record.clone());
    }
    spans.iter().filter_map(|span| span_of(span, place)).collect()
}

fn span_of(span: &Value, place: (usize, usize)) -> Option<Span> {
    let id = |keys: &[&str]| {
        let own = keys.iter().find_map(|key| text(span, key));
        let context = || keys.iter().find_map(|key| text(span.get("context")?, key));
        own.or_else(context).filter(|id| !id.is_empty()).map(|id| id.trim_start_matches("0x").to_owned())
    };
    let events = list(span, "events").iter().map(|event| {
        (text(event, "name").unwrap_or_default().to_owned(), attributes(event.get("attributes")))
    });
    Some(Span {
        trace: id(&["traceId", "trace_id"])?,
        id: id(&["spanId", "span_id"])?,
        parent: id(&["parentSpanId", "parent_span_id", "parent_id", "parentId"]),
        begun: moment(span, &["startTimeUnixNano", "start_time_unix_nano", "start_time"]),
        ended: moment(span, &["endTimeUnixNano", "end_time_unix_nano", "end_time"]),
        attributes: attributes(span.get("attributes")),
        events: events.collect(),
        place,
    })
}

/// Return a moment of a span in milliseconds since 1970: nanoseconds as a number or its text, or a timestamp.
fn moment(span: &Value, keys: &[&str]) -> i64 {
    let Some(value) = keys.iter().find_map(|key| span.get(*key)) else { return 0 };
    let nanoseconds = value.as_i64().or_else(|| value.as_str()?.parse().ok());
    let written = || karl_log::time::milliseconds(value.as_str()?.as_bytes());
    nanoseconds.map(|count| count / 1_000_000).or_else(written).unwrap_or_default()
}

/// Return attributes by name: OTLP's list of keys and typed values, or an object. Nested objects get dotted names.
fn attributes(value: Option<&Value>) -> Map<String, Value> {
    let mut all = Map::new();
    match value {
        Some(Value::Array(pairs)) => {
            for pair in pairs {
                if let (Some(key), Some(value)) = (text(pair, "key"), pair.get("value")) {
                    all.insert(key.to_owned(), any_value(value));
                }
            }
        }
        Some(Value::Object(fields)) => fields.iter().for_each(|(key, value)| flatten(key, value, &mut all)),
        _ => {}
    }
    all
}

/// Add the members of a nested object under dotted names, and the object itself.
fn flatten(name: &str, value: &Value, all: &mut Map<String, Value>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| flatten(&format!("{name}.{key}"), value, all));
        }
        Value::Array(items) if items.iter().all(Value::is_object) && !name.starts_with("gen_ai.") => {
            items.iter().enumerate().for_each(|(at, value)| flatten(&format!("{name}.{at}"), value, all));
        }
        _ => {}
    }
    all.insert(name.to_owned(), value.clone());
}

/// Return a value without its type.
fn any_value(value: &Value) -> Value {
    let of = |keys: [&str; 2]| keys.iter().find_map(|key| value.get(*key));
    if let Some(plain) = of(["stringValue", "string_value"])
        .or_else(|| of(["boolValue", "bool_value"]))
        .or_else(|| of(["doubleValue", "double_value"]))
    {
        return plain.clone();
    }
    if let Some(number) = of(["intValue", "int_value"]) {
        let parsed = number.as_str().and_then(|text| text.parse::<i64>().ok());
        return parsed.map_or_else(|| number.clone(), Value::from);
    }
    if let Some(array) = of(["arrayValue", "array_value"]) {
        return list(array, "values").iter().map(any_value).collect();
    }
    if let Some(pairs) = of(["kvlistValue", "kvlist_value"]) {
        let pair = |pair: &Value| Some((text(pair, "key")?.to_owned(), any_value(pair.get("value")?)));
        return Value::Object(list(pairs, "values").iter().filter_map(pair).collect());
    }
    Value::Null
}

/// Return a function that gives the ids of the calls of tools around a span, the innermost first.
fn tool_calls_around(spans: &[Span]) -> impl Fn(&Span) -> Vec<String> {
    let by_id: HashMap<(&str, &str), &Span> =
        spans.iter().map(|span| ((&*span.trace, &*span.id), span)).collect();
    move |span| {
        let (mut ids, mut at) = (Vec::new(), span);
        // A parent of its own has no end.
        for _ in 0..spans.len() {
            let Some(parent) = at.parent.as_deref().and_then(|parent| by_id.get(&(&*span.trace, parent)))
            else {
                break;
            };
            let id = ["gen_ai.tool.call.id", "tool_call.id", "tool.id"]
                .iter()
                .find_map(|key| parent.attributes.get(*key)?.as_str());
            ids.extend(id.map(str::to_owned));
            at = parent;
        }
        ids
    }
}

/// Add the results of evaluations, by name.
fn add_scores(span: &Span, scores: &mut BTreeMap<String, Map<String, Value>>) {
    for (event, attributes) in &span.events {
        let name = attributes.get("gen_ai.evaluation.name").and_then(Value::as_str);
        let score = attributes.get("gen_ai.evaluation.score.value").filter(|score| score.is_number());
        if let (true, Some(name), Some(score)) = (event == "gen_ai.evaluation.result", name, score) {
            scores.entry(span.trace.clone()).or_default().insert(name.to_owned(), score.clone());
        }
    }
}

/// Return a value that may be a JSON text.
fn parsed(value: &Value) -> Value {
    let json = value.as_str().filter(|text| text.trim_start().starts_with(['[', '{']));
    json.and_then(|text| reference_parser::parse(text.as_bytes()).ok()).unwrap_or_else(|| value.clone())
}

/// Messages that a model read and wrote.
type Messages = (Vec<Value>, Vec<Value>);

/// Return the messages of a call of a model; `None` if the span is none.
fn messages(span: &Span) -> Option<Messages> {
    let (input, output) = gen_ai(span)
        .or_else(|| gen_ai_events(span))
        .or_else(|| open_inference(span))
        .or_else(|| numbered(span))?;

    let output = chat_messages(output);
    (!output.is_empty()).then(|| (chat_messages(input), output))
}

/// Return messages by the conventions of `GenAI`.
fn gen_ai(span: &Span) -> Option<Messages> {
    let of = |name: &str| {
        let own = span.attributes.get(name);
        own.or_else(|| span.events.iter().find_map(|(_, attributes)| attributes.get(name))).map(parsed)
    };
    let output = of("gen_ai.output.messages")?;
    let mut input: Vec<Value> = of("gen_ai.system_instructions").map(system).into_iter().collect();
    let messages = of("gen_ai.input.messages").unwrap_or_default();
    input.extend(messages.as_array().cloned().unwrap_or_default());
    // An agent's span repeats the messages of the calls inside it.
    let is_agent = span.attributes.get("gen_ai.operation.name").is_some_and(|name| {
        ["invoke_agent", "create_agent", "invoke_workflow", "execute_tool"].iter().any(|other| name == other)
    });
    (!is_agent).then(|| (input, output.as_array().cloned().unwrap_or_default()))
}

/// Return the system message of instructions: a text, or parts.
fn system(value: Value) -> Value {
    match value {
        Value::Array(parts) => json!({"role": "system", "parts": parts}),
        other => json!({"role": "system", "content": other}),
    }
}

/// Return messages of the events that conventions before 1.37 had: `gen_ai.user.message`, `gen_ai.choice`.
fn gen_ai_events(span: &Span) -> Option<Messages> {
    let (mut input, mut output) = (Vec::new(), Vec::new());
    for (name, attributes) in &span.events {
        let body = || {
            let body: Map<String, Value> = attributes
                .iter()
                .filter(|(key, _)| !key.contains('.'))
                .map(|(key, value)| (key.clone(), parsed(value)))
                .collect();
            Value::Object(body)
        };
        match name.strip_prefix("gen_ai.").and_then(|name| name.strip_suffix(".message")) {
            Some(role @ ("system" | "user" | "assistant" | "tool")) => input.push(with_role(body(), role)),
            _ if name == "gen_ai.choice" => {
                let body = body();
                output.push(with_role(body.get("message").cloned().unwrap_or(body), "assistant"));
            }
            _ => {}
        }
    }
    (!output.is_empty()).then_some((input, output))
}

fn with_role(mut message: Value, role: &str) -> Value {
    if message.get("role").is_none() {
        message["role"] = json!(role);
    }
    if role == "tool"
        && let Some(id) = message.get("id").cloned()
    {
        message["tool_call_id"] = id;
    }
    message
}

/// Return the object of attributes under a prefix: `PREFIX.0.a.b` gives the key `a.b` of the first.
fn numbered_objects(span: &Span, prefix: &str) -> Vec<BTreeMap<String, Value>> {
    let mut all: BTreeMap<usize, BTreeMap<String, Value>> = BTreeMap::new();
    for (name, value) in &span.attributes {
        let rest = name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('.'));
        let Some((number, key)) = rest.and_then(|rest| rest.split_once('.')) else { continue };
        if let Ok(number) = number.parse() {
            all.entry(number).or_default().insert(key.to_owned(), value.clone());
        }
    }
    all.into_values().collect()
}

/// Return messages by the conventions of `OpenInference`.
fn open_inference(span: &Span) -> Option<Messages> {
    let of = |prefix: &str| -> Vec<Value> {
        numbered_objects(span, prefix).iter().map(inference_message).collect()
    };
    let output = of("llm.output_messages");
    (!output.is_empty()).then(|| (of("llm.input_messages"), output))
}

fn inference_message(fields: &BTreeMap<String, Value>) -> Value {
    let mut message = Map::new();
    for (from, to) in
        [("role", "role"), ("content", "content"), ("tool_call_id", "tool_call_id"), ("name", "name")]
    {
        let value = fields.get(&format!("message.{from}")).filter(|value| !value.is_null());
        message.extend(value.map(|value| (to.to_owned(), value.clone())));
    }
    let parts: Vec<Value> = nested(fields, "message.contents").iter().map(content_part).collect();
    if !parts.is_empty() {
        message.insert("content".to_owned(), parts.into());
    }
    let calls: Vec<Value> = nested(fields, "message.tool_calls")
        .iter()
        .map(|call| {
            let of = |key: &str| call.get(&format!("tool_call.{key}")).cloned().unwrap_or_default();
            let function = json!({"name": of("function.name"), "arguments": of("function.arguments")});
            json!({"id": of("id"), "type": "function", "function": function})
        })
        .collect();
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), calls.into());
    }
    Value::Object(message)
}

/// Return the objects under `PREFIX.N.` among some keys.
fn nested(fields: &BTreeMap<String, Value>, prefix: &str) -> Vec<BTreeMap<String, Value>> {
    let mut all: BTreeMap<usize, BTreeMap<String, Value>> = BTreeMap::new();
    for (name, value) in fields {
        let rest = name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('.'));
        if let Some((number, key)) = rest.and_then(|rest| rest.split_once('.'))
            && let Ok(number) = number.parse()
        {
            all.entry(number).or_default().insert(key.to_owned(), value.clone());
        }
    }
    all.into_values().collect()
}

/// Return a part of a content; one that is not text keeps its type.
fn content_part(part: &BTreeMap<String, Value>) -> Value {
    let of = |key: &str| part.get(&format!("message_content.{key}")).cloned().unwrap_or_default();
    match of("type").as_str() {
        Some("text") => json!({"type": "text", "text": of("text")}),
        Some("reasoning") => json!({"type": "reasoning", "text": of("text")}),
        kind => json!({"type": kind.unwrap_or("part")}),
    }
}

/// Return messages by the conventions of `OpenLLMetry`.
fn numbered(span: &Span) -> Option<Messages> {
    let of = |prefix: &str, role: &str| -> Vec<Value> {
        let message = |fields: &BTreeMap<String, Value>| {
            let mut message = Map::new();
            for key in ["role", "content", "tool_call_id", "reasoning"] {
                let value = fields.get(key).filter(|value| !value.is_null());
                message.extend(value.map(|value| (key.to_owned(), parsed_parts(value))));
            }
            message.entry("role").or_insert_with(|| json!(role));
            let calls: Vec<Value> = nested(fields, "tool_calls")
                .iter()
                .map(|call| {
                    let of = |key: &str| call.get(key).cloned().unwrap_or_default();
                    json!({"id": of("id"), "type": "function", "function": {"name": of("name"), "arguments": of("arguments")}})
                })
                .collect();
            if !calls.is_empty() {
                message.insert("tool_calls".to_owned(), calls.into());
            }
            Value::Object(message)
        };
        numbered_objects(span, prefix).iter().map(message).collect()
    };
    let output = of("gen_ai.completion", "assistant");
    (!output.is_empty()).then(|| (of("gen_ai.prompt", "user"), output))
}

/// Return a content that is the JSON text of parts as these.
fn parsed_parts(value: &Value) -> Value {
    match parsed(value) {
        parts @ Value::Array(_) if parts[0].get("type").is_some() => parts,
        _ => value.clone(),
    }
}

fn model_call(span: &Span, input: Vec<Value>, output: Vec<Value>, file: &str) -> ModelCall {
    let of = |keys: &[&str]| keys.iter().find_map(|key| span.attributes.get(*key));
    let count = |keys: &[&str]| of(keys).and_then(Value::as_u64);
    let name = |keys: &[&str]| of(keys).and_then(Value::as_str).map(str::to_owned);
    let cached =
        count(&["gen_ai.usage.cache_read.input_tokens", "llm.token_count.prompt_details.cache_read"]);
    let written =
        count(&["gen_ai.usage.cache_creation.input_tokens", "llm.token_count.prompt_details.cache_write"]);
    let all = count(&["gen_ai.usage.input_tokens", "llm.token_count.prompt", "gen_ai.usage.prompt_tokens"]);
    let from_cache = cached.unwrap_or_default().saturating_add(written.unwrap_or_default());
    ModelCall {
        trace: span.trace.clone(),
        span: span.id.clone(),
        session: name(&[
            "gen_ai.conversation.id",
            "session.id",
            "langfuse.session.id",
            "traceloop.association.properties.session_id",
        ]),
        begun: span.begun,
        ended: span.ended,
        input,
        output,
        tools: tools(span),
        model: name(&["gen_ai.response.model", "gen_ai.request.model", "llm.model_name"]),
        tokens: Tokens {
            input: all.map(|all| all.saturating_sub(from_cache)),
            cache_creation: written,
            cache_read: cached,
            output: count(&[
                "gen_ai.usage.output_tokens",
                "llm.token_count.completion",
                "gen_ai.usage.completion_tokens",
            ]),
        },
        file: file.to_owned(),
        ..ModelCall::default()
    }
}

/// Return the tools that the model was offered.
fn tools(span: &Span) -> Option<Value> {
    if let Some(tools) = span.attributes.get("gen_ai.tool.definitions") {
        return Some(parsed(tools));
    }
    let schemas = numbered_objects(span, "llm.tools");
    let all: Vec<Value> =
        schemas.iter().filter_map(|tool| tool.get("tool.json_schema")).map(parsed).collect();
    (!all.is_empty()).then(|| all.into())
}
