//! Copilot CLI: `~/.copilot/session-state/ID/events.jsonl`, each line an event `{type, data, id, timestamp, parentId}`.
//!
//! What a sub-agent says names the call that started it (`parentToolCallId`): it is a trajectory of its own. The types of
//! events are those of `github/copilot-sdk`, `session-events.ts`.

use std::collections::HashMap;

use karl_log::conversation::blocks::Block;
use serde_json::{Value, json};

use super::blocks::{answer, say_blocks};
use super::file_records::{Fates, FileRecord};
use super::json::{FLAG, JsonTypes, LIST, NUMBER, OBJECT, TEXT, check, list, pick, quoted, source, text};
use super::message::{Conversation, Role};
use super::report::{LineCounts, NO_CONVERSATION, NO_TEXT, OTHER_BRANCH, count_type};
use super::run::{Head, Tokens};

/// Paths of an event with the expected types.
const WANTED: [(&str, JsonTypes); 14] = [
    ("type", TEXT),
    ("timestamp", TEXT),
    ("data", OBJECT),
    ("data.content", TEXT),
    ("data.model", TEXT),
    ("data.reasoningText", TEXT),
    ("data.parentToolCallId", TEXT),
    ("data.toolRequests", LIST),
    ("data.toolRequests[]", OBJECT),
    ("data.toolRequests[].toolCallId", TEXT),
    ("data.toolRequests[].name", TEXT),
    ("data.toolCallId", TEXT),
    ("data.success", FLAG),
    ("data.outputTokens", NUMBER),
];

/// Read the session of a file, and its sub-agents behind it.
pub(super) fn read(records: &[FileRecord], file: &str, counts: &mut LineCounts) -> Vec<(Head, Conversation)> {
    let mut session = Session::default();
    let mut fates = Fates::new(records.len());
    let removed = removed(records);
    for (at, FileRecord { value: event, offset }) in records.iter().enumerate() {
        let kind = text(event, "type").unwrap_or_default();
        count_type(&mut counts.types, kind, 1);
        let fate = if removed[at] { Err(OTHER_BRANCH) } else { session.event(kind, event, counts) };
        if fate.is_ok() {
            check(event, &WANTED, counts);
        }
        fates.set(at, fate);
        counts.locate(file, *offset);
    }
    fates.count(counts);
    session.end(file)
}

/// Return for each event whether the user took it back: a rewind names the event that it goes back to.
fn removed(records: &[FileRecord]) -> Vec<bool> {
    let mut removed = vec![false; records.len()];
    for (at, record) in records.iter().enumerate() {
        if text(&record.value, "type") != Some("session.snapshot_rewind") {
            continue;
        }
        let target = record.value.pointer("/data/upToEventId").and_then(Value::as_str);
        let from = (0..at).find(|&before| target.is_some() && text(&records[before].value, "id") == target);
        if let Some(from) = from {
            removed[from..at].fill(true);
        }
    }
    removed
}

/// Conversation of the session or of a sub-agent.
#[derive(Default)]
struct Thread {
    talk: Conversation,
    tokens: Tokens,
    agent: Option<String>,
}

#[derive(Default)]
struct Session {
    own: Thread,
    /// Sub-agents in the order in which they began, by the calls that started them.
    agents: Vec<(String, Thread)>,
    places: HashMap<String, usize>,
    start: Value,
    model: Vec<u8>,
}

impl Session {
    /// Return the conversation that an event belongs to.
    fn thread(&mut self, data: &Value) -> &mut Thread {
        let Some(call) = text(data, "parentToolCallId").filter(|call| !call.is_empty()) else {
            return &mut self.own;
        };
        let at = *self.places.entry(call.to_owned()).or_insert_with(|| {
            self.agents.push((call.to_owned(), Thread::default()));
            self.agents.len() - 1
        });
        &mut self.agents[at].1
    }

    fn event(&mut self, kind: &str, event: &Value, counts: &mut LineCounts) -> Result<(), &'static str> {
        let (data, moment) = (event.get("data").unwrap_or(&Value::Null), quoted(event, "timestamp"));
        match kind {
            "session.start" => {
                self.start = data.clone();
                self.model = quoted(data, "selectedModel");
            }
            "session.model_change" => self.model = quoted(data, "newModel"),
            "system.message" => return self.say(Role::System, data, &moment, counts),
            "user.message" => return self.say(Role::User, data, &moment, counts),
            "assistant.message" => return self.turn(data, &moment, counts),
            "tool.execution_complete" => return self.result(data, &moment, counts),
            "subagent.started" => {
                let call = json!({"parentToolCallId": data.get("toolCallId")});
                let name = text(data, "agentName").map(str::to_owned);
                self.thread(&call).agent = name;
            }
            "abort" => self.own.talk.interrupt(),
            "session.shutdown" => self.count(data),
            "session.compaction_complete" => return Err("compact_summary"),
            _ => return Err(NO_CONVERSATION),
        }
        Ok(())
    }

    fn say(
        &mut self,
        role: Role,
        data: &Value,
        moment: &[u8],
        counts: &mut LineCounts,
    ) -> Result<(), &'static str> {
        let mut blocks: Vec<Block> = text(data, "content")
            .filter(|text| !text.is_empty())
            .map(|text| Block::Text(text.to_owned()))
            .into_iter()
            .collect();
        let attached = list(data, "attachments").iter().filter_map(|file| text(file, "type"));
        blocks.extend(attached.map(|kind| Block::Other(format!("attachment {kind}"))));
        let thread = self.thread(data);
        let first = say_blocks(&mut thread.talk, role, &blocks, moment, counts)?;
        let typed = text(data, "source").is_none_or(|source| source == "user");
        if role == Role::User && !typed {
            thread.talk.messages[first].origin = quoted(data, "source");
        }
        Ok(())
    }

    fn turn(&mut self, data: &Value, moment: &[u8], counts: &mut LineCounts) -> Result<(), &'static str> {
        let of = |key: &str| text(data, key).filter(|text| !text.is_empty()).map(str::to_owned);
        let mut blocks: Vec<Block> = of("reasoningText").map(Block::Thinking).into_iter().collect();
        if blocks.is_empty() && data.get("reasoningOpaque").is_some_and(Value::is_string) {
            blocks.push(Block::Other("encrypted_reasoning".to_owned()));
        }
        blocks.extend(of("content").map(Block::Text));
        blocks.extend(list(data, "toolRequests").iter().filter_map(|call| {
            Some(Block::Call {
                id: text(call, "toolCallId").unwrap_or_default().to_owned(),
                name: text(call, "name")?.to_owned(),
                arguments: call.get("arguments").cloned().unwrap_or_default(),
            })
        }));
        let model = match quoted(data, "model") {
            own if own.is_empty() => self.model.clone(),
            own => own,
        };
        let thread = self.thread(data);
        if let Some(count) = data.get("outputTokens").and_then(Value::as_u64) {
            thread.tokens.output = Some(thread.tokens.output.unwrap_or_default().saturating_add(count));
        }
        let first = say_blocks(&mut thread.talk, Role::Assistant, &blocks, moment, counts)?;
        thread.talk.messages[first].model = model;
        Ok(())
    }

    fn result(&mut self, data: &Value, moment: &[u8], counts: &mut LineCounts) -> Result<(), &'static str> {
        // What the user ran himself has no call of the model.
        if data.get("isUserRequested") == Some(&Value::Bool(true)) {
            return Err(NO_CONVERSATION);
        }
        let result = data.get("result").unwrap_or(&Value::Null);
        let content = match result {
            Value::Object(fields) => fields.get("content").cloned().unwrap_or_default(),
            other => other.clone(),
        };
        let error = data.pointer("/error/message").and_then(Value::as_str);
        let content = if content.is_null() { error.map_or(Value::Null, Value::from) } else { content };
        for kind in
            list(result, "binaryResultsForLlm").iter().map(|part| text(part, "type").unwrap_or("binary"))
        {
            counts.leave_out(NO_TEXT, kind.as_bytes());
        }
        let [id, name] = ["toolCallId", "toolName"].map(|key| text(data, key).unwrap_or_default());
        let success = data.get("success").and_then(Value::as_bool);
        answer(&mut self.thread(data).talk, id, name, &content, success, moment, counts);
        Ok(())
    }

    /// Take the tokens of all models, which the end of a session sums.
    fn count(&mut self, data: &Value) {
        let models = data.get("modelMetrics").and_then(Value::as_object);
        let sum = |key: &str| {
            let counts =
                models?.values().filter_map(|model| model.pointer(&format!("/usage/{key}"))?.as_u64());
            counts.reduce(u64::saturating_add)
        };
        let cached = [sum("cacheReadTokens"), sum("cacheWriteTokens")];
        let from_cache = cached.iter().flatten().sum();
        self.own.tokens = Tokens {
            input: sum("inputTokens").map(|all: u64| all.saturating_sub(from_cache)),
            cache_read: cached[0],
            cache_creation: cached[1],
            output: sum("outputTokens").or(self.own.tokens.output),
        };
    }

    fn end(self, file: &str) -> Vec<(Head, Conversation)> {
        let id = text(&self.start, "sessionId").map_or_else(|| folder(file), str::to_owned);
        let context = self.start.get("context").unwrap_or(&Value::Null);
        let mut more = pick(context, &["cwd", "branch", "repository"]);
        more.extend(self.start.get("copilotVersion").map(|version| ("version".to_owned(), version.clone())));
        let source = source("copilot-cli", file, more);
        let head =
            Head { id: id.clone(), tokens: self.own.tokens, source: source.clone(), ..Head::default() };
        let mut all = vec![(head, self.own.talk)];
        for (call, thread) in self.agents {
            let mut source = source.clone();
            source.extend(thread.agent.map(|agent| ("agent".to_owned(), agent.into())));
            let head = Head {
                id: format!("{id}/{call}"),
                parent: Some((id.clone(), Some(call))),
                session: Some(id.clone()),
                tokens: thread.tokens,
                source,
                ..Head::default()
            };
            all.push((head, thread.talk));
        }
        all
    }
}

/// Return the name of the folder of a file, which is the session's.
fn folder(file: &str) -> String {
    let folder = std::path::Path::new(file)
        .parent()
        .and_then(|folder| folder.file_name())
        .and_then(|name| name.to_str());
    folder.unwrap_or(file).to_owned()
}
