//! `OpenHands`: a conversation of its software-agent SDK is a tree of events, each in a file of its own
//! (`CONVERSATION/events/event-00000-ID.json`), or a line of one file.
//!
//! ```text
//! SystemPromptEvent ─ MessageEvent ─ ActionEvent ─ ObservationEvent ─ ..     by `parent_id`, before 1.2x by order
//! ```
//!
//! The conversation is the path from the last event back to the first. The calls of one response of the model are events
//! with one `llm_response_id`, and one message here. A result is the `content` of its observation, without what the SDK
//! adds when it sends it (working folder, exit code). The forms are those of `openhands-sdk` 1.43, `sdk/event`.

use std::collections::{BTreeMap, HashMap, HashSet};

use karl_log::conversation::blocks::{Block, blocks};
use serde_json::{Value, json};

use super::blocks::{answer, say_blocks};
use super::file_records::{Fates, PooledFile};
use super::json::{
    FLAG, JsonTypes, LIST, OBJECT, TEXT, arguments, check, escaped, join, list, quoted, source, text,
};
use super::lineage::{hash, written_hash};
use super::message::{Conversation, Role};
use super::report::{EMPTY, LineCounts, NO_CONVERSATION, NO_TEXT, OTHER_BRANCH, count_type};
use super::run::{Head, Tokens};

/// Paths of an event with the expected types.
const WANTED: [(&str, JsonTypes); 14] = [
    ("id", TEXT),
    ("kind", TEXT),
    ("timestamp", TEXT),
    ("parent_id", TEXT),
    ("llm_message", OBJECT),
    ("llm_message.role", TEXT),
    ("thought", LIST),
    ("reasoning_content", TEXT),
    ("tool_call", OBJECT),
    ("tool_call.name", TEXT),
    ("tool_call_id", TEXT),
    ("observation", OBJECT),
    ("observation.is_error", FLAG),
    ("error", TEXT),
];

/// `parent_id` of an event that begins a tree.
const ROOT: &str = "__root__";

/// Place of an event: file and number.
type Place = (usize, usize);

/// Read the conversations of some files.
pub(super) fn read(files: &[PooledFile], counts: &mut LineCounts) -> Vec<(Head, Conversation)> {
    let mut fates: Vec<Fates> = files.iter().map(|file| Fates::new(file.records.len())).collect();
    let mut conversations: BTreeMap<&str, Vec<Place>> = BTreeMap::new();
    for (at, file) in files.iter().enumerate() {
        let places = (0..file.records.len()).map(|number| (at, number));
        conversations.entry(folder(&file.name)).or_default().extend(places);
    }
    let read = |(folder, places): (&str, Vec<Place>)| {
        Reader { files, fates: &mut fates, counts }.conversation(folder, &places)
    };
    let mut all: Vec<(Head, Conversation)> = conversations.into_iter().map(read).collect();
    for file in &fates {
        file.count(counts);
    }
    mark_namesakes(&mut all);
    all
}

/// Give a mark to conversations that have the id of an earlier one: files of one name in several folders.
fn mark_namesakes(all: &mut [(Head, Conversation)]) {
    let mut seen = HashSet::new();
    for (head, talk) in all.iter_mut().filter(|(_, talk)| !talk.messages.is_empty()) {
        let mut mark = 0;
        let mut id = head.id.clone();
        while !seen.insert(id.clone()) {
            mark = talk.messages.iter().map(written_hash).fold(mark, |sum, message| {
                hash("conversation", &[u64::to_le_bytes(sum), message.to_le_bytes()].concat())
            });
            id = format!("{}/{mark:016x}", head.id);
        }
        head.id = id;
    }
}

/// Return the folder of a conversation, in whose `events` a file lies; any other file is a conversation.
fn folder(file: &str) -> &str {
    match file.rsplit_once('/').map(|(folder, _)| folder) {
        Some("events") => "events",
        Some(folder) => folder.strip_suffix("/events").unwrap_or(file),
        None => file,
    }
}

struct Reader<'r> {
    files: &'r [PooledFile],
    fates: &'r mut [Fates],
    counts: &'r mut LineCounts,
}

impl<'r> Reader<'r> {
    fn event(&self, (file, number): Place) -> &'r Value {
        &self.files[file].records[number].value
    }

    /// Read a conversation from its events, in their order.
    fn conversation(&mut self, folder: &str, places: &[Place]) -> (Head, Conversation) {
        let places = self.without_repeats(places);
        let on_path = self.path(&places);
        let (mut talk, mut head) = (Conversation::default(), Head::default());
        for (&place, on_path) in places.iter().zip(on_path) {
            let event = self.event(place);
            let kind = text(event, "kind").unwrap_or_default();
            count_type(&mut self.counts.types, kind, 1);
            check(event, &WANTED, self.counts);
            let outcome = if on_path {
                add_event(&mut talk, &mut head, kind, event, self.counts)
            } else {
                Err(OTHER_BRANCH)
            };
            self.fates[place.0].set(place.1, outcome);
            let file = &self.files[place.0];
            self.counts.locate(&file.name, file.records[place.1].offset);
        }
        talk.finish(self.counts);
        folder.rsplit('/').next().unwrap_or(folder).clone_into(&mut head.id);
        head.source = source("openhands", folder, serde_json::Map::new());
        (head, talk)
    }

    /// Leave out events that are there twice.
    fn without_repeats(&mut self, places: &[Place]) -> Vec<Place> {
        let mut seen = HashMap::new();
        let mut in_order = Vec::with_capacity(places.len());
        for &place in places {
            match text(self.event(place), "id").map(|id| seen.insert(id, place)) {
                Some(Some(_)) => self.fates[place.0].repeat(place.1),
                _ => in_order.push(place),
            }
        }
        in_order
    }

    /// Return for each event whether it is on the path from the last one back to the first.
    fn path(&mut self, places: &[Place]) -> Vec<bool> {
        let ids: HashMap<&str, usize> = places
            .iter()
            .enumerate()
            .filter_map(|(at, &place)| Some((text(self.event(place), "id")?, at)))
            .collect();
        let mut on_path = vec![false; places.len()];
        let mut next = places.len().checked_sub(1);
        while let Some(at) = next {
            on_path[at] = true;
            next = match text(self.event(places[at]), "parent_id") {
                Some(ROOT) => None,
                None => at.checked_sub(1),
                // A parent stands before its child: a loop has no end.
                Some(parent) => ids.get(parent).copied().filter(|&parent| parent < at).or_else(|| {
                    self.counts.note("missing_parent");
                    at.checked_sub(1)
                }),
            };
        }
        on_path
    }
}

/// Add what an event says.
///
/// # Errors
/// Reason why it says nothing.
fn add_event(
    talk: &mut Conversation,
    head: &mut Head,
    kind: &str,
    event: &Value,
    counts: &mut LineCounts,
) -> Result<(), &'static str> {
    let moment = quoted(event, "timestamp");
    match kind {
        "SystemPromptEvent" => {
            if !list(event, "tools").is_empty() {
                counts.note("tools_without_schema");
            }
            let parts: Vec<Block> = ["system_prompt", "dynamic_context"]
                .iter()
                .flat_map(|key| blocks(event.get(*key).unwrap_or(&Value::Null)))
                .collect();
            say_blocks(talk, Role::System, &parts, &moment, counts).map(drop)
        }
        "MessageEvent" => add_message(talk, event, &moment, counts),
        "ActionEvent" => add_call(talk, event, &moment, counts),
        "ObservationEvent" | "UserRejectObservation" | "AgentErrorEvent" => {
            add_result(talk, kind, event, &moment, counts);
            Ok(())
        }
        "InterruptEvent" => {
            talk.interrupt();
            Err(NO_CONVERSATION)
        }
        "ConversationStateUpdateEvent" => {
            count_tokens(head, event);
            Err(NO_CONVERSATION)
        }
        "Condensation" | "CondensationSummaryEvent" => Err("compact_summary"),
        _ => Err(NO_CONVERSATION),
    }
}

/// Add a message of the user or the model.
fn add_message(
    talk: &mut Conversation,
    event: &Value,
    moment: &[u8],
    counts: &mut LineCounts,
) -> Result<(), &'static str> {
    let message = event.get("llm_message").unwrap_or(&Value::Null);
    let role = match text(message, "role") {
        Some("system") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        _ => return Err("unknown_role"),
    };
    let content = joined(list(message, "content"), list(event, "extended_content"));
    let parts: Vec<Block> = thoughts(message).into_iter().chain(blocks(&content)).collect();
    say_blocks(talk, role, &parts, moment, counts).map(drop)
}

/// Add a call to the message of its response, with the thoughts before it.
fn add_call(
    talk: &mut Conversation,
    event: &Value,
    moment: &[u8],
    counts: &mut LineCounts,
) -> Result<(), &'static str> {
    let call = event.get("tool_call").unwrap_or(&Value::Null);
    let name = quoted(call, "name");
    if name.is_empty() {
        return Err(EMPTY);
    }
    let response = text(event, "llm_response_id").or_else(|| text(event, "id")).unwrap_or_default();
    let at = talk.turn(hash("response", response.as_bytes()), moment);
    let thought = event.get("thought").unwrap_or(&Value::Null);
    for part in thoughts(event).into_iter().chain(blocks(thought)) {
        match part {
            Block::Text(words) => join(&mut talk.messages[at].content, &escaped(&words)),
            Block::Thinking(words) => join(&mut talk.messages[at].reasoning, &escaped(&words)),
            Block::Other(kind) => counts.leave_out(NO_TEXT, kind.as_bytes()),
            _ => {}
        }
    }
    let (id, arguments) = (quoted(call, "id"), arguments(call.get("arguments")));
    talk.call(at, &id, &name, arguments.as_bytes(), counts);
    Ok(())
}

/// Add the result of a call: what a tool observed, or why it did not run.
fn add_result(talk: &mut Conversation, kind: &str, event: &Value, moment: &[u8], counts: &mut LineCounts) {
    let [id, name] = ["tool_call_id", "tool_name"].map(|key| text(event, key).unwrap_or_default());
    let (content, success) = match kind {
        "UserRejectObservation" => {
            let reason = text(event, "rejection_reason").unwrap_or("User rejected the action");
            (json!(format!("Action rejected: {reason}")), Some(false))
        }
        "AgentErrorEvent" => (json!(text(event, "error").unwrap_or_default()), Some(false)),
        _ => {
            let observation = event.get("observation").unwrap_or(&Value::Null);
            let content = joined(list(observation, "content"), list(event, "extended_content"));
            (content, observation.get("is_error").and_then(Value::as_bool).map(|failed| !failed))
        }
    };
    answer(talk, id, name, &content, success, moment, counts);
}

/// Return the thoughts of a message: its text of them, or else Anthropic's blocks.
fn thoughts(message: &Value) -> Vec<Block> {
    match text(message, "reasoning_content").filter(|words| !words.is_empty()) {
        Some(words) => vec![Block::Thinking(words.to_owned())],
        None => list(message, "thinking_blocks").iter().flat_map(blocks).collect(),
    }
}

fn joined(content: &[Value], more: &[Value]) -> Value {
    content.iter().chain(more).cloned().collect()
}

/// Take the model and the tokens of the conversation so far from its statistics.
fn count_tokens(head: &mut Head, event: &Value) {
    let usage = |name: &str| event.pointer(&format!("/value/usage_to_metrics/{name}"));
    let Some(metrics) = usage("agent").or_else(|| usage("default")) else { return };
    head.model = text(metrics, "model_name").map(str::to_owned);
    let count = |key: &str| metrics.pointer(&format!("/accumulated_token_usage/{key}"))?.as_u64();
    let cached = count("cache_read_tokens");
    // The prompt's tokens include the cached ones.
    let input = count("prompt_tokens").map(|all| all.saturating_sub(cached.unwrap_or_default()));
    let (cache_creation, output) = (count("cache_write_tokens"), count("completion_tokens"));
    head.tokens = Tokens { input, cache_creation, cache_read: cached, output };
}
