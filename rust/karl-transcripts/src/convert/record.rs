//! One trajectory as a line of the canonical format, version 1; the manual's page `trajectory` defines it.

use karl_log::karl_rewards::Raw;
use karl_log::time::milliseconds;
use karl_reward::score;
use serde_json::{Map, Number, Value, json};

use super::message::Message;
use super::report::Made;
use super::settings::Rate;

/// Start of every line of the format.
pub(super) const MARK: &[u8] = b"{\"karl_fast_trajectory\":";

/// Key of the reward.
const REWARD: &str = "reward";

/// Version of the format.
const VERSION: u8 = 1;

/// Token counts of the log; None if absent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tokens {
    pub(super) input: Option<u64>,
    pub(super) cache_creation: Option<u64>,
    pub(super) cache_read: Option<u64>,
    pub(super) output: Option<u64>,
}

/// Fields of a line besides its messages.
#[derive(Debug, Default)]
pub(super) struct Head {
    pub(super) id: String,
    pub(super) group: Option<String>,
    pub(super) reward: Option<f64>,
    pub(super) policy_version: Option<Value>,
    /// Parent trajectory, and its tool call that started this one.
    pub(super) parent: Option<(String, Option<String>)>,
    /// Session that it belongs to, shared with sub-agents and forks.
    pub(super) session: Option<String>,
    pub(super) tokens: Tokens,
    pub(super) source: Map<String, Value>,
    pub(super) tools: Option<Value>,
    /// Model, if no message names it.
    pub(super) model: Option<String>,
}

/// Write a line; count it and its messages.
pub(super) fn write(head: Head, messages: &[Message], rate: Rate, out: &mut Vec<u8>, made: &mut Made) {
    let (start, mut reward) = (out.len(), 0..0);
    let (sub_agent, mut rewarded) = (head.parent.is_some(), head.reward.is_some_and(f64::is_finite));
    let model = messages.iter().map(|message| &message.model[..]).find(|model| !model.is_empty());
    let fields = fields(head, messages, model.unwrap_or_default());
    out.extend_from_slice(MARK);
    out.extend_from_slice(VERSION.to_string().as_bytes());
    for (key, value) in &fields {
        let (from, value) = (out.len(), value.to_string());
        out.extend_from_slice(format!(",\"{key}\":{value}").as_bytes());
        if *key == REWARD {
            reward = from.max(out.len() - value.len())..out.len();
        }
    }
    out.extend_from_slice(b",\"messages\":[");
    for (at, message) in messages.iter().enumerate() {
        out.extend_from_slice(if at == 0 { b"" } else { b"," });
        message.write(model.unwrap_or_default(), out);
        *made.messages.entry(message.role.name()).or_default() += 1;
    }
    out.extend_from_slice(b"]}");
    if let Rate::Karl(version, weights) = rate {
        let rated = Raw::of(&out[start..]).and_then(|line| score(&line, version, weights));
        let rated = number(rated.ok().map(|rated| rated.score));
        rewarded = rated.is_number();
        out.splice(reward, rated.to_string().into_bytes());
    }
    out.push(b'\n');
    made.trajectories += 1;
    made.sub_agents += u64::from(sub_agent);
    made.rewarded += u64::from(rewarded);
}

/// Return the keys between the mark and the messages, in order.
fn fields(head: Head, messages: &[Message], model: &[u8]) -> Vec<(&'static str, Value)> {
    let mut moments =
        messages.iter().map(|message| &message.timestamp[..]).filter(|moment| !moment.is_empty());
    let first = moments.next();
    let last = moments.next_back().or(first);
    let turns = messages.iter().filter(|message| message.role.is_assistant()).count();
    let calls: usize = messages.iter().map(|message| message.calls).sum();
    let parent = head.parent.map_or(Value::Null, |(id, call)| json!({"id": id, "tool_call_id": call}));
    let tokens = head.tokens;
    let mut fields = vec![
        ("id", head.id.into()),
        ("group", head.group.into()),
        (REWARD, number(head.reward)),
        ("model", head.model.map_or_else(|| text(Some(model)), Value::from)),
        ("policy_version", head.policy_version.unwrap_or_default()),
        ("parent", parent),
        ("session", head.session.into()),
        ("started_at", text(first)),
        ("ended_at", text(last)),
        ("duration_seconds", seconds(first, last)),
        ("turns", turns.into()),
        ("tool_calls", calls.into()),
        (
            "tokens",
            json!({"input": tokens.input, "cache_creation": tokens.cache_creation,
                "cache_read": tokens.cache_read, "output": tokens.output}),
        ),
        ("source", Value::Object(head.source)),
    ];
    fields.extend(head.tools.map(|tools| ("tools", tools)));
    fields
}

/// Return the content of a JSON string as a value; null if empty.
fn text(inside: Option<&[u8]>) -> Value {
    let quoted = |inside: &[u8]| [b"\"", inside, b"\""].concat();
    inside
        .filter(|inside| !inside.is_empty())
        .and_then(|inside| serde_json::from_slice(&quoted(inside)).ok())
        .unwrap_or_default()
}

/// Return the seconds between two timestamps.
fn seconds(first: Option<&[u8]>, last: Option<&[u8]>) -> Value {
    let span = || Some(milliseconds(last?)? - milliseconds(first?)?);
    number(span().map(|span| span as f64 / 1000.0))
}

/// Return a number; null if it is missing or not finite.
fn number(value: Option<f64>) -> Value {
    value.and_then(Number::from_f64).map_or(Value::Null, Value::Number)
}
