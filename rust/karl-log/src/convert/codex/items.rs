//! Path of a Codex session through its items, which identifies files of one session.

use std::collections::HashSet;

use serde_json::Value;

use crate::convert::lineage::{Trace, hash};
use crate::convert::report::INTERRUPTION;
use crate::convert::text_parts::{kept, list, text};
use crate::convert::value_hash::hash_of;
use crate::time::milliseconds;

/// Content keys of an item; a session that is written again has new timestamps and may have new item ids.
const SAID: [&str; 10] =
    ["type", "role", "content", "summary", "name", "arguments", "input", "action", "call_id", "output"];

/// Minimum length of a globally unique call id.
const UNIQUE: usize = 12;

/// Texts that the tool writes in the user's name.
const META: [&str; 5] = [
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "# AGENTS.md instructions",
    "<skill>",
];

/// Mark of a turn that the user interrupted.
const ABORTED: &str = "<turn_aborted>";

/// Return the reason why a message is neither the user's nor the model's.
pub(super) fn put_in(item: &Value) -> Option<&'static str> {
    let first = list(item, "content").first().and_then(|part| text(part, "text")).unwrap_or_default();
    let first = first.trim_start();
    if META.iter().any(|begin| first.starts_with(begin)) {
        return Some("meta");
    }
    first.starts_with(ABORTED).then_some(INTERRUPTION)
}

/// Return the hash of a line's contribution to a conversation; None if it adds nothing, or only text that
/// every session repeats.
pub(super) fn item(line: &Value) -> Option<u64> {
    let item = line.get("payload").filter(|_| text(line, "type") == Some("response_item"))?;
    let counts = match text(item, "type")? {
        "message" => matches!(text(item, "role"), Some("user" | "assistant")) && put_in(item).is_none(),
        "reasoning" | "function_call" | "custom_tool_call" | "local_shell_call" => true,
        kind => kind.ends_with("_call_output"),
    };
    counts.then(|| said(item))
}

/// Return the hash of what an item says.
fn said(item: &Value) -> u64 {
    hash_of(&Value::Object(kept(item, &SAID)))
}

/// Items of a file, to find those that it holds twice: a file and its copy may be written into one.
#[derive(Default)]
pub(super) struct SeenItems(HashSet<u64>);

impl SeenItems {
    /// Return whether the item of a line was seen before, with the same time.
    pub(super) fn again(&mut self, line: &Value) -> bool {
        let item = line.get("payload").filter(|_| text(line, "type") == Some("response_item"));
        let (Some(item), Some(moment)) = (item, text(line, "timestamp")) else { return false };
        let key = [&said(item).to_le_bytes()[..], moment.as_bytes()].concat();
        !self.0.insert(hash("line", &key))
    }
}

/// Path of a session through its items, to compare it with others.
#[derive(Default)]
pub(in crate::convert) struct ItemTrail {
    trace: Trace,
    seen: SeenItems,
}

impl ItemTrail {
    /// Read a line.
    pub(in crate::convert) fn line(&mut self, line: &Value) {
        if self.seen.again(line) {
            return;
        }
        let (trace, payload) = (&mut self.trace, line.get("payload").unwrap_or(&Value::Null));
        if text(line, "type") == Some("session_meta") && trace.id.is_none() {
            trace.id = text(payload, "id").map(str::to_owned);
            trace.forked_from = text(payload, "forked_from_id").map(str::to_owned);
        }
        let Some(item) = item(line) else { return };
        if let Some(moment) = text(line, "timestamp").and_then(|moment| milliseconds(moment.as_bytes())) {
            trace.begun = if trace.items.is_empty() { moment } else { trace.begun };
            trace.ended = moment;
        }
        trace.items.push(item);
        let answers = text(payload, "type").is_some_and(|kind| kind.ends_with("_output"));
        if answers && text(payload, "call_id").is_some_and(|id| id.len() >= UNIQUE) {
            trace.links.push(item);
        }
    }

    /// Return the trace.
    pub(in crate::convert) fn end(mut self) -> Trace {
        let trace = &mut self.trace;
        let names = [&trace.id, &trace.forked_from].into_iter().flatten();
        trace.links.extend(names.map(|name| hash("session", name.as_bytes())));
        let all: Vec<u8> = trace.items.iter().flat_map(|item| item.to_le_bytes()).collect();
        trace.whole = hash("items", &all);
        if trace.id.is_none() {
            trace.links.push(trace.whole);
        }
        trace.continues = true;
        self.trace
    }
}
