//! ATIF, the interchange format of Harbor and Terminal-Bench 2: one document per trial,
//! `agent/trajectory.json`.
//!
//! Task and reward are in the trial's `result.json`, one folder up. Since version 1.7 a document may hold the
//! trajectories of its sub-agents: each is a trajectory of its own behind that of the document.

use std::collections::HashMap;
use std::path::Path;

use karl_log::conversation::offered;
use karl_log::detect::read_sidecar;
use karl_log::json::reference_parser;
use serde_json::{Map, Value};

use super::json::escaped;
use super::json::{FLAG, JsonType, JsonTypes, LIST, NUMBER, OBJECT, TEXT, WORDS, check};
use super::json::{arguments, list, pick, quoted, source, text, words};
use super::message::{Conversation, Role};
use super::report::LineCounts;
use super::run::{Head, Tokens};

/// Paths of a document with the expected types.
const WANTED: [(&str, JsonTypes); 39] = [
    ("session_id", TEXT),
    ("trajectory_id", TEXT),
    ("subagent_trajectories", LIST),
    ("subagent_trajectories[]", OBJECT),
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
    ("steps[].observation.results[].subagent_trajectory_ref", &[JsonType::List, JsonType::Object]),
    ("steps[].observation.results[].subagent_trajectory_ref[]", OBJECT),
    ("steps[].observation.results[].subagent_trajectory_ref[].trajectory_id", TEXT),
    ("steps[].is_copied_context", FLAG),
    ("steps[].llm_call_count", NUMBER),
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

/// Deepest nesting of sub-agents that is read: a document of a person's own may nest without end.
const DEEPEST: usize = 32;

/// Return the name of a document among others. A run's `session_id` may be that of several documents.
pub(super) fn identity(document: &Value) -> Option<String> {
    let names: Vec<_> =
        ["session_id", "trajectory_id"].iter().filter_map(|key| text(document, key)).collect();
    // A `trajectory_id` alone is unique in its document only.
    text(document, "session_id").map(|_| names.join("/"))
}

/// Read the trajectories of a document, its own first; `digest` is the hash of its bytes.
pub(super) fn read(
    document: &Value,
    file: &str,
    digest: u128,
    counts: &mut LineCounts,
) -> Vec<(Head, Conversation)> {
    let trial = Trial::read(Path::new(file));
    let id = ["trajectory_id", "session_id"].iter().find_map(|key| text(document, key));
    let (mut head, talk) = trajectory(document, file, counts);
    head.id = id.map_or_else(|| format!("{digest:032x}"), str::to_owned);
    head.group = trial.task;
    head.reward = trial.reward;
    if !trial.rewards.is_empty() {
        head.source.insert("rewards".to_owned(), trial.rewards.into());
    }
    if trial.is_unclear {
        counts.note("rewards_by_name");
    }
    let mut all = vec![(head, talk)];
    let id = all[0].0.id.clone();
    sub_agents(document, &id, file, 0, &mut all, counts);
    all
}

/// Add the sub-agents of a trajectory, and theirs.
fn sub_agents(
    document: &Value,
    parent: &str,
    file: &str,
    depth: usize,
    all: &mut Vec<(Head, Conversation)>,
    counts: &mut LineCounts,
) {
    let calls = references(document);
    for (at, agent) in list(document, "subagent_trajectories").iter().enumerate() {
        if depth == DEEPEST {
            counts.note("sub_agents_too_deep");
            return;
        }
        let name = text(agent, "trajectory_id");
        let (mut head, talk) = trajectory(agent, file, counts);
        head.id = format!("{parent}/{}", name.map_or_else(|| (at + 1).to_string(), str::to_owned));
        let call = name.and_then(|name| calls.get(name).cloned().flatten());
        head.parent = Some((parent.to_owned(), call));
        let id = head.id.clone();
        all.push((head, talk));
        sub_agents(agent, &id, file, depth + 1, all, counts);
    }
}

/// Return the call that each sub-agent in a document works for, by the sub-agent's name.
fn references(document: &Value) -> HashMap<&str, Option<String>> {
    let named = |(reference, call)| Some((text(reference, "trajectory_id")?, call));
    all_references(document).filter_map(named).collect()
}

/// Reference to a sub-agent in a document of its own.
#[derive(Debug)]
pub(super) struct SubAgentReference {
    /// Name of its file, beside that of its session.
    pub(super) file: Option<String>,
    /// Name of its session, which identified it before version 1.7.
    pub(super) session: Option<String>,
    pub(super) call: Option<String>,
}

/// Return the references of a document to sub-agents in other documents.
pub(super) fn other_documents(document: &Value) -> Vec<SubAgentReference> {
    let own: Vec<_> = list(document, "subagent_trajectories")
        .iter()
        .filter_map(|agent| text(agent, "trajectory_id"))
        .collect();
    let is_other = |(reference, _): &(&Value, _)| {
        text(reference, "trajectory_id").is_none_or(|name| !own.contains(&name))
    };
    let reference = |(reference, call): (&Value, _)| SubAgentReference {
        file: text(reference, "trajectory_path").and_then(|path| path.rsplit('/').next()).map(str::to_owned),
        session: text(reference, "session_id").map(str::to_owned),
        call,
    };
    all_references(document).filter(is_other).map(reference).collect()
}

fn all_references(document: &Value) -> impl Iterator<Item = (&Value, Option<String>)> {
    let results = list(document, "steps").iter().flat_map(results);
    results.flat_map(|result| {
        let single = result.get("subagent_trajectory_ref").filter(|reference| reference.is_object());
        let call = text(result, "source_call_id").map(str::to_owned);
        list(result, "subagent_trajectory_ref")
            .iter()
            .chain(single)
            .map(move |reference| (reference, call.clone()))
    })
}

/// Return the results in a step's observation.
fn results(step: &Value) -> &[Value] {
    step.get("observation").map(|seen| list(seen, "results")).unwrap_or_default()
}

/// Read the steps of one trajectory, without its place among others.
fn trajectory(document: &Value, file: &str, counts: &mut LineCounts) -> (Head, Conversation) {
    check(document, &WANTED, counts);
    let mut talk = Conversation::default();
    let agent = document.get("agent").unwrap_or(&Value::Null);
    let mut metrics = Vec::new();
    for step in list(document, "steps") {
        let at = talk.messages.len();
        say(step, text(agent, "model_name").unwrap_or_default(), &mut talk, counts);
        if talk.messages.get(at).is_some_and(|message| message.role.is_assistant()) {
            metrics.extend(measured(step, at));
        }
    }
    let mut more = pick(document, &["schema_version", "session_id", "trajectory_id"]);
    more.insert("agent".to_owned(), pick(agent, &["name", "version"]).into());
    more.extend(document.get("final_metrics").map(|all| pick(all, &["total_cost_usd"])).unwrap_or_default());
    if !metrics.is_empty() {
        more.insert("metrics".to_owned(), metrics.into());
    }
    let head = Head {
        tokens: tokens(document),
        source: source("atif", file, more),
        tools: agent.get("tool_definitions").cloned().and_then(|tools| {
            offered(tools).inspect_err(|flaw| counts.note(flaw.name())).unwrap_or_default()
        }),
        ..Head::default()
    };
    (head, talk)
}

/// Return whether a step of the agent is none of its model's own words: it is copied from another trajectory, or
/// the harness made it without a call of the model.
fn is_context(step: &Value) -> bool {
    let is_copied = step.get("is_copied_context").and_then(Value::as_bool) == Some(true);
    is_copied || step.get("llm_call_count").and_then(Value::as_u64) == Some(0)
}

fn say(step: &Value, model: &str, talk: &mut Conversation, counts: &mut LineCounts) {
    // What a compaction stands for is there.
    if step.pointer("/extra/context_management").is_some_and(Value::is_object) {
        return counts.note("compact_summary");
    }
    let (content, moment) =
        (words(step.get("message"), counts).unwrap_or_default(), quoted(step, "timestamp"));
    let at = talk.messages.len();
    let says_more = !list(step, "tool_calls").is_empty() || text(step, "reasoning_content").is_some();
    match text(step, "source") {
        Some("agent" | "user") if content.is_empty() && !says_more => counts.note("empty_message"),
        Some("agent") => {
            let turn = talk.say(Role::Assistant, &content, &moment);
            turn.reasoning = quoted(step, "reasoning_content");
            turn.model = escaped(text(step, "model_name").unwrap_or(model));
            turn.unlearned = is_context(step);
        }
        Some("user") => drop(talk.say(Role::User, &content, &moment)),
        // The environment's own step without text has only results.
        Some("system") if content.is_empty() => {}
        Some("system") => drop(talk.say(Role::System, &content, &moment)),
        _ => counts.note("unknown_role"),
    }
    for call in list(step, "tool_calls") {
        let arguments = arguments(call.get("arguments"));
        talk.call(
            at,
            &quoted(call, "tool_call_id"),
            &quoted(call, "function_name"),
            arguments.as_bytes(),
            counts,
        );
    }
    for result in results(step) {
        let (id, content) =
            (quoted(result, "source_call_id"), words(result.get("content"), counts).unwrap_or_default());
        if talk.waits(&id) {
            talk.answer(&id, &content, None, &moment, counts);
        } else if !content.is_empty() {
            // Terminal output after a message that calls no tool.
            talk.say(Role::User, &content, &moment);
        }
    }
}

/// Return the metrics of a step for the model's message at `at`.
fn measured(step: &Value, at: usize) -> Option<Map<String, Value>> {
    let counts = pick(step.get("metrics")?, &METRICS);
    let mut all = Map::from_iter([("message".to_owned(), at.into())]);
    all.extend(counts);
    (all.len() > 1).then_some(all)
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

/// Name of the reward where the verifier gives a single one.
const REWARD: &str = "reward";

/// Result of a trial by the verifier.
#[derive(Default)]
struct Trial {
    task: Option<String>,
    reward: Option<f64>,
    /// Rewards by name, unless `reward` is the only one.
    rewards: Map<String, Value>,
    /// Whether there are several rewards, none of which is named `reward`.
    is_unclear: bool,
}

impl Trial {
    fn read(file: &Path) -> Self {
        let beside = file.parent().and_then(Path::parent).map(|trial| trial.join("result.json"));
        let read = |path| reference_parser::parse(&read_sidecar(path).ok()?).ok();
        let Some(whole) = beside.as_deref().and_then(read) else { return Self::default() };
        let named = whole.pointer("/verifier_result/rewards").and_then(Value::as_object);
        let rewards: Map<String, Value> = named.cloned().unwrap_or_default();
        let finite = |value: &Value| value.as_f64().filter(|reward| reward.is_finite());
        let only = (rewards.len() == 1).then(|| rewards.values().next()).flatten();
        let reward = rewards.get(REWARD).or(only).and_then(finite);
        let is_unclear = rewards.len() > 1 && !rewards.contains_key(REWARD);
        let is_plain = rewards.len() == 1 && rewards.contains_key(REWARD);
        let rewards = if is_plain { Map::new() } else { rewards };
        Self { task: text(&whole, "task_name").map(str::to_owned), reward, rewards, is_unclear }
    }
}
