//! Traces of verifiers 1.0, as its evaluations and prime-rl write them (`traces.jsonl`): each record is a graph of
//! messages, `nodes`, in which every node names its parent.
//!
//! Each path from the root to a leaf is a trajectory: the harness rewrote the conversation there, or began another one.
//! What the model wrote in a node is learned in the first path that has it. The form is that of verifiers'
//! `v1/trace.py` and `v1/graph.py`.

use karl_log::conversation::RecordedTrajectory;
use karl_log::time::timestamp;
use serde_json::{Map, Value, json};

use super::chat::ChatMessages;
use super::file_records::{Fates, FileRecord};
use super::json::{FLAG, JsonType, JsonTypes, LIST, NUMBER, OBJECT, TEXT, check, list, pick, source, text};
use super::lineage::hash_of;
use super::message::Conversation;
use super::report::{EMPTY, LineCounts, count_type};
use super::run::{Head, Tokens};

/// Paths of a record with the expected types.
const WANTED: [(&str, JsonTypes); 14] = [
    ("id", TEXT),
    ("task", OBJECT),
    ("task.key", TEXT),
    ("task.hash", TEXT),
    ("agent", OBJECT),
    ("agent.trainable", FLAG),
    ("tools", LIST),
    ("nodes", LIST),
    ("nodes[]", OBJECT),
    ("nodes[].parent", NUMBER),
    ("nodes[].message", OBJECT),
    ("nodes[].sampled", FLAG),
    ("rewards", OBJECT),
    ("calls", &[JsonType::List]),
];

/// Read the trajectories of all records.
pub(super) fn read(records: &[FileRecord], file: &str, counts: &mut LineCounts) -> Vec<(Head, Conversation)> {
    let mut fates = Fates::new(records.len());
    let mut all = Vec::new();
    for (at, FileRecord { value, offset }) in records.iter().enumerate() {
        count_type(&mut counts.types, "trace", 1);
        check(value, &WANTED, counts);
        let branches = branches(value, file, counts);
        fates.set(at, branches.map(|branches| all.extend(branches)));
        counts.locate(file, *offset);
    }
    fates.count(counts);
    all
}

/// Return the trajectories of a record.
///
/// # Errors
/// Reason why it has none.
fn branches(
    record: &Value,
    file: &str,
    counts: &mut LineCounts,
) -> Result<Vec<(Head, Conversation)>, &'static str> {
    let nodes = list(record, "nodes");
    let is_trained = record.pointer("/agent/trainable").and_then(Value::as_bool) != Some(false);
    let mut is_learned = vec![false; nodes.len()];
    let head = head(record, file);
    let mut all = Vec::new();
    for (number, path) in paths(nodes).ok_or("bad_graph")?.into_iter().enumerate() {
        let mut messages = Vec::new();
        for at in path {
            let Some(mut message) = nodes[at].get("message").cloned() else { return Err("bad_graph") };
            let is_sampled = nodes[at].get("sampled").and_then(Value::as_bool) == Some(true);
            let is_model = text(&message, "role") == Some("assistant");
            if is_model && !(is_sampled && is_trained && !is_learned[at]) {
                message["weight"] = json!(0);
            }
            is_learned[at] |= is_sampled;
            if let (Some(moment), true) = (written_at(&nodes[at]), message.is_object()) {
                message["timestamp"] = json!(moment);
            }
            messages.push(message);
        }
        let tools =
            record.get("tools").filter(|tools| tools.as_array().is_some_and(|tools| !tools.is_empty()));
        let recorded = RecordedTrajectory::Chat { system: None, messages, tools: tools.cloned() };
        let mut messages = ChatMessages::default();
        let tools = messages.add_message(recorded, "", counts).map_err(|flaw| {
            flaw.media().into_iter().for_each(|kind| counts.note(kind));
            flaw.name()
        })?;
        let id = if number == 0 { head.id.clone() } else { format!("{}/branch-{number}", head.id) };
        all.push((Head { id, session: Some(head.id.clone()), tools, ..head.clone() }, messages.talk));
    }
    if all.iter().all(|(_, talk)| talk.messages.is_empty()) { Err(EMPTY) } else { Ok(all) }
}

/// Return the time of a node, in seconds since 1970 in the log.
#[allow(
    clippy::cast_possible_truncation,
    reason = "a time is rounded down to milliseconds; one beyond them all is cut"
)]
fn written_at(node: &Value) -> Option<String> {
    let seconds = node.get("timestamp")?.as_f64()?;
    timestamp((seconds * 1000.0) as i64).filter(|_| seconds > 0.0)
}

/// Return each path from a root to a leaf, in the order of the leaves; `None` if a parent is not before its child.
fn paths(nodes: &[Value]) -> Option<Vec<Vec<usize>>> {
    let mut parents = Vec::with_capacity(nodes.len());
    for (at, node) in nodes.iter().enumerate() {
        let parent = match node.get("parent") {
            None | Some(Value::Null) => None,
            Some(parent) => Some(usize::try_from(parent.as_u64()?).ok().filter(|&parent| parent < at)?),
        };
        parents.push(parent);
    }
    let is_leaf = |at: &usize| !parents.contains(&Some(*at));
    let path = |leaf: usize| {
        let mut path: Vec<usize> = std::iter::successors(Some(leaf), |at| parents[*at]).collect();
        path.reverse();
        path
    };
    Some((0..nodes.len()).filter(is_leaf).map(path).collect())
}

fn head(record: &Value, file: &str) -> Head {
    let task = record.get("task").unwrap_or(&Value::Null);
    let agent = record.get("agent").unwrap_or(&Value::Null);
    let group = text(task, "key").or_else(|| text(task, "hash")).map(str::to_owned);
    let group = group.or_else(|| task.get("data").map(|data| format!("{:016x}", hash_of(data))));
    let (reward, rewards) = rewards(record);
    let mut more = pick(record, &["stop_condition", "metrics", "info", "verifiers"]);
    more.insert("agent".to_owned(), pick(agent, &["name", "trainable"]).into());
    more.insert("task".to_owned(), pick(task, &["type", "key"]).into());
    if !rewards.is_empty() {
        more.insert("rewards".to_owned(), rewards.into());
    }
    let errors = list(record, "errors").iter().filter_map(|error| text(error, "type")).map(Value::from);
    let errors: Vec<Value> = errors.collect();
    if !errors.is_empty() {
        more.insert("errors".to_owned(), errors.into());
    }
    let calls = list(record, "calls");
    let sum = |key: &str| {
        let counts = calls.iter().filter_map(|call| call.pointer(&format!("/usage/{key}"))?.as_u64());
        counts.reduce(u64::saturating_add)
    };
    Head {
        id: text(record, "id").map_or_else(|| format!("{:016x}", hash_of(record)), str::to_owned),
        group,
        reward,
        tokens: Tokens {
            input: sum("prompt_tokens"),
            cache_read: sum("cached_input_tokens"),
            output: sum("completion_tokens"),
            ..Tokens::default()
        },
        source: source("verifiers-traces", file, more),
        model: calls.iter().find_map(|call| text(call, "model")).map(str::to_owned),
        ..Head::default()
    }
}

/// Return the reward of a trace, the sum of its weighted rewards, and these by name. There is none where the run failed,
/// or scoring did not run.
fn rewards(record: &Value) -> (Option<f64>, Map<String, Value>) {
    let named = record.get("rewards").and_then(Value::as_object).cloned().unwrap_or_default();
    let value = |reward: &Value| {
        let weight = reward.get("weight").map_or(Some(1.0), Value::as_f64)?;
        Some(reward.get("score")?.as_f64()? * weight)
    };
    let values: Option<Vec<f64>> = named.values().map(value).collect();
    let failed = !list(record, "errors").is_empty() && record.get("ok") != Some(&Value::Bool(true));
    let sum = values.filter(|values| !values.is_empty() && !failed).map(|values| values.iter().sum::<f64>());
    (sum.filter(|sum| sum.is_finite()), named)
}
