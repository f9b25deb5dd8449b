//! ATIF, the interchange format of Harbor and Terminal-Bench 2: one document per trial,
//! `agent/trajectory.json`.
//!
//! Task and reward are in the trial's `result.json`, one folder up.

use std::path::Path;

use serde_json::{Map, Value};

use super::json::escaped;
use super::json_type::{JsonType, JsonTypes, LIST, NUMBER, OBJECT, TEXT, WORDS, check};
use super::message::{Conversation, Role};
use super::record::{Head, Tokens};
use super::report::Made;
use super::text_parts::{arguments, kept, list, quoted, source, text, words};
use crate::conversation::offered;
use crate::detect::sidecar;
use crate::json::reference_parser;

/// Paths of a document with the expected types.
const WANTED: [(&str, JsonTypes); 31] = [
    ("session_id", TEXT),
    ("agent", OBJECT),
    ("agent.model_name", TEXT),
    ("agent.tool_definitions", LIST),
    ("steps", LIST),
    ("steps[]", OBJECT),
    ("steps[].timestamp", TEXT),
    ("steps[].source", TEXT),
    ("steps[].message", WORDS),
    ("steps[].reasoning_content", TEXT),
    ("steps[].model_name", TEXT),
    ("steps[].tool_calls", LIST),
    ("steps[].tool_calls[]", OBJECT),
    ("steps[].tool_calls[].tool_call_id", TEXT),
    ("steps[].tool_calls[].function_name", TEXT),
    ("steps[].tool_calls[].arguments", &[JsonType::Object, JsonType::Text]),
    ("steps[].observation", OBJECT),
    ("steps[].observation.results", LIST),
    ("steps[].observation.results[]", OBJECT),
    ("steps[].observation.results[].source_call_id", TEXT),
    ("steps[].observation.results[].content", WORDS),
    ("steps[].metrics", OBJECT),
    ("steps[].metrics.prompt_tokens", NUMBER),
    ("steps[].metrics.completion_tokens", NUMBER),
    ("steps[].metrics.cached_tokens", NUMBER),
    ("steps[].metrics.cost_usd", NUMBER),
    ("steps[].metrics.prompt_token_ids", LIST),
    ("steps[].metrics.completion_token_ids", LIST),
    ("steps[].metrics.logprobs", LIST),
    ("final_metrics", OBJECT),
    ("final_metrics.total_cost_usd", NUMBER),
];

/// Keys of a step's `metrics` that no other key of a trajectory holds.
const METRICS: [&str; 4] = ["cost_usd", "prompt_token_ids", "completion_token_ids", "logprobs"];

/// Read the trajectory of a document; `digest` is the hash of its bytes.
pub(super) fn read(document: &Value, file: &str, digest: u128, made: &mut Made) -> (Head, Conversation) {
    check(document, &WANTED, made);
    let mut talk = Conversation::default();
    let agent = document.get("agent").unwrap_or(&Value::Null);
    let mut metrics = Vec::new();
    for step in list(document, "steps") {
        let at = talk.messages.len();
        say(step, text(agent, "model_name").unwrap_or_default(), &mut talk, made);
        metrics.extend(measured(step, at));
    }
    let mut more = kept(document, &["schema_version", "session_id"]);
    more.insert("agent".to_owned(), kept(agent, &["name", "version"]).into());
    more.extend(document.get("final_metrics").map(|all| kept(all, &["total_cost_usd"])).unwrap_or_default());
    if !metrics.is_empty() {
        more.insert("metrics".to_owned(), metrics.into());
    }
    let trial = Trial::look(Path::new(file));
    let head = Head {
        id: text(document, "session_id").map_or_else(|| format!("{digest:032x}"), str::to_owned),
        group: trial.task,
        reward: trial.reward,
        tokens: tokens(document),
        source: source("atif", file, more),
        tools: agent.get("tool_definitions").cloned().and_then(offered),
        ..Head::default()
    };
    (head, talk)
}

fn say(step: &Value, model: &str, talk: &mut Conversation, made: &mut Made) {
    let (content, moment) = (words(step.get("message"), made).unwrap_or_default(), quoted(step, "timestamp"));
    let at = talk.messages.len();
    let says_more = !list(step, "tool_calls").is_empty() || text(step, "reasoning_content").is_some();
    match text(step, "source") {
        Some("agent" | "user") if content.is_empty() && !says_more => made.note("empty_message"),
        Some("agent") => {
            let turn = talk.say(Role::Assistant, &content, &moment);
            turn.reasoning = quoted(step, "reasoning_content");
            turn.model = escaped(text(step, "model_name").unwrap_or(model));
        }
        Some("user") => drop(talk.say(Role::User, &content, &moment)),
        // The environment's own step without text has only results.
        Some("system") if content.is_empty() => {}
        Some("system") => drop(talk.say(Role::System, &content, &moment)),
        _ => made.note("unknown_role"),
    }
    for call in list(step, "tool_calls") {
        let arguments = arguments(call.get("arguments"));
        talk.call(
            at,
            &quoted(call, "tool_call_id"),
            &quoted(call, "function_name"),
            arguments.as_bytes(),
            made,
        );
    }
    for result in step.get("observation").map(|seen| list(seen, "results")).unwrap_or_default() {
        let (id, content) =
            (quoted(result, "source_call_id"), words(result.get("content"), made).unwrap_or_default());
        if talk.waits(&id) {
            talk.answer(&id, &content, None, &moment, made);
        } else if !content.is_empty() {
            // Terminal output after a message that calls no tool.
            talk.say(Role::User, &content, &moment);
        }
    }
}

/// Return the metrics of a step for the model's message at `at`.
fn measured(step: &Value, at: usize) -> Option<Map<String, Value>> {
    let said = kept(step.get("metrics")?, &METRICS);
    let mut all = Map::from_iter([("message".to_owned(), at.into())]);
    all.extend(said);
    (all.len() > 1 && text(step, "source") == Some("agent")).then_some(all)
}

/// Return the tokens of the whole run, or the sum over all steps.
fn tokens(document: &Value) -> Tokens {
    let last = |key: &str| document.pointer(&format!("/final_metrics/total_{key}")).and_then(Value::as_u64);
    let steps = |key: &str| {
        let counts = list(document, "steps").iter();
        let mut counts =
            counts.filter_map(|step| step.pointer(&format!("/metrics/{key}"))?.as_u64()).peekable();
        counts.peek().is_some().then(|| counts.fold(0, u64::saturating_add))
    };
    let count = |key: &str| last(key).or_else(|| steps(key));
    let cached = count("cached_tokens");
    // The prompt's tokens include the cached ones.
    let input = count("prompt_tokens").map(|all| all.saturating_sub(cached.unwrap_or_default()));
    Tokens { input, cache_creation: None, cache_read: cached, output: count("completion_tokens") }
}

/// Result of a trial by the verifier.
#[derive(Default)]
struct Trial {
    task: Option<String>,
    reward: Option<f64>,
}

impl Trial {
    fn look(file: &Path) -> Self {
        let beside = file.parent().and_then(Path::parent).map(|trial| trial.join("result.json"));
        let read = |path| reference_parser::parse(&sidecar::read(path).ok()?).ok();
        let Some(whole) = beside.as_deref().and_then(read) else { return Self::default() };
        let reward = whole.pointer("/verifier_result/rewards/reward").and_then(Value::as_f64);
        Self {
            task: text(&whole, "task_name").map(str::to_owned),
            reward: reward.filter(|reward| reward.is_finite()),
        }
    }
}
