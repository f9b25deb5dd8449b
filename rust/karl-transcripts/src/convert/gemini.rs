//! Gemini CLI: chats under `~/.gemini/tmp/PROJECT/chats`, one document a session until 0.38, since then lines.
//!
//! ```text
//! {sessionId, projectHash, startTime, ..}   the session
//! {id, timestamp, type, content, ..}        a message, or what it became: the last one of an id counts
//! {"$set": {..}}                            facts of the session; with `messages`, all messages anew
//! {"$rewindTo": id}                         this message and all after it were taken back
//! ```
//!
//! The chat of a sub-agent is in a folder with the name of its session. The form is that of Gemini CLI's
//! `chatRecordingService.ts`; `collect` writes the same lines of a document.

use std::path::Path;

use karl_log::conversation::blocks::{Block, blocks};
use serde_json::{Map, Value, json};

use super::blocks::{answer, say_blocks};
use super::file_records::{Fates, FileRecord};
use super::json::{JsonType, JsonTypes, LIST, NUMBER, OBJECT, TEXT, check, list, pick, quoted, source, text};
use super::message::{Conversation, Role};
use super::report::{LineCounts, NO_CONVERSATION, NO_TEXT, OTHER_BRANCH, count_type};
use super::run::{Head, Tokens};

/// Paths of a message with the expected types.
const WANTED: [(&str, JsonTypes); 14] = [
    ("id", TEXT),
    ("timestamp", TEXT),
    ("type", TEXT),
    ("content", &[JsonType::Text, JsonType::List, JsonType::Object]),
    ("model", TEXT),
    ("thoughts", LIST),
    ("thoughts[]", OBJECT),
    ("thoughts[].description", TEXT),
    ("toolCalls", LIST),
    ("toolCalls[]", OBJECT),
    ("toolCalls[].id", TEXT),
    ("toolCalls[].name", TEXT),
    ("toolCalls[].status", TEXT),
    ("tokens.output", NUMBER),
];

/// Type under which the facts of a session are counted.
const FACTS: &str = "session";

/// Message that stays, and the record that has it.
struct Held<'v> {
    record: usize,
    message: &'v Value,
}

/// Read the session of a file.
pub(super) fn read(records: &[FileRecord], file: &str, counts: &mut LineCounts) -> (Head, Conversation) {
    let mut fates = Fates::new(records.len());
    let (facts, stays) = replay(records, &mut fates, counts);
    let mut session = Session::default();
    for Held { record, message } in stays {
        check(message, &WANTED, counts);
        let fate = session.message(message, counts);
        match fate {
            Ok(()) => fates.keep(record),
            // A document has other messages.
            Err(reason) if text(&records[record].value, "sessionId").is_none() => fates.drop(record, reason),
            Err(reason) => counts.note(reason),
        }
        counts.locate(file, records[record].offset);
    }
    fates.count(counts);
    let id = text_of(&facts, "sessionId").map_or_else(|| file.to_owned(), str::to_owned);
    let facts = Value::Object(facts);
    let parent = (text(&facts, "kind") == Some("subagent")).then(|| folder(file)).flatten();
    let head = Head {
        parent: parent.filter(|parent| *parent != id).map(|parent| (parent, None)),
        id,
        tokens: session.tokens,
        source: source("gemini-cli", file, pick(&facts, &["projectHash", "kind", "summary"])),
        ..Head::default()
    };
    (head, session.talk)
}

fn text_of<'v>(facts: &'v Map<String, Value>, key: &str) -> Option<&'v str> {
    facts.get(key)?.as_str()
}

/// Return the name of the folder of a file.
fn folder(file: &str) -> Option<String> {
    Some(Path::new(file).parent()?.file_name()?.to_str()?.to_owned())
}

/// Return the facts of a session and the messages that stay, in order.
fn replay<'v>(
    records: &'v [FileRecord],
    fates: &mut Fates,
    counts: &mut LineCounts,
) -> (Map<String, Value>, Vec<Held<'v>>) {
    let mut facts = Map::new();
    let mut held: Vec<Held<'v>> = Vec::new();
    for (at, FileRecord { value, .. }) in records.iter().enumerate() {
        if let Some(target) = text(value, "$rewindTo") {
            count_type(&mut counts.types, "$rewindTo", 1);
            let from = held.iter().position(|entry| text(entry.message, "id") == Some(target)).unwrap_or(0);
            held.drain(from..).for_each(|entry| fates.drop(entry.record, OTHER_BRANCH));
        } else if let Some(Value::Object(set)) = value.get("$set") {
            count_type(&mut counts.types, "$set", 1);
            if set.get("messages").is_some_and(Value::is_array) {
                held.drain(..).for_each(|entry| fates.repeat(entry.record));
                held.extend(
                    list(&value["$set"], "messages").iter().map(|message| Held { record: at, message }),
                );
                fates.keep(at);
            }
            facts.extend(
                set.iter()
                    .filter(|(key, _)| *key != "messages")
                    .map(|(key, value)| (key.clone(), value.clone())),
            );
        } else if text(value, "id").is_some() {
            count_type(&mut counts.types, text(value, "type").unwrap_or_default(), 1);
            let id = text(value, "id");
            match held.iter_mut().find(|entry| text(entry.message, "id") == id) {
                Some(entry) => {
                    if text(&records[entry.record].value, "id").is_some() {
                        fates.repeat(entry.record);
                    }
                    *entry = Held { record: at, message: value };
                }
                None => held.push(Held { record: at, message: value }),
            }
        } else if let Value::Object(fields) = value {
            count_type(&mut counts.types, FACTS, 1);
            held.extend(list(value, "messages").iter().map(|message| Held { record: at, message }));
            let own = fields.iter().filter(|(key, _)| *key != "messages");
            facts.extend(own.map(|(key, value)| (key.clone(), value.clone())));
            if text(value, "sessionId").is_some() {
                fates.keep(at);
            }
        }
    }
    (facts, held)
}

#[derive(Default)]
struct Session {
    talk: Conversation,
    tokens: Tokens,
}

impl Session {
    fn message(&mut self, message: &Value, counts: &mut LineCounts) -> Result<(), &'static str> {
        let (moment, content) =
            (quoted(message, "timestamp"), message.get("content").unwrap_or(&Value::Null));
        match text(message, "type") {
            Some("user") => {
                say_blocks(&mut self.talk, Role::User, &blocks(content), &moment, counts).map(drop)
            }
            Some("gemini") => self.turn(message, content, &moment, counts),
            // Notices of the program to the user.
            _ => Err(NO_CONVERSATION),
        }
    }

    fn turn(
        &mut self,
        message: &Value,
        content: &Value,
        moment: &[u8],
        counts: &mut LineCounts,
    ) -> Result<(), &'static str> {
        let calls = list(message, "toolCalls");
        let mut turn_blocks: Vec<Block> = list(message, "thoughts").iter().filter_map(thought).collect();
        turn_blocks.extend(blocks(content));
        turn_blocks.extend(calls.iter().filter_map(|call| {
            Some(Block::Call {
                id: text(call, "id").unwrap_or_default().to_owned(),
                name: text(call, "name")?.to_owned(),
                arguments: call.get("args").cloned().unwrap_or_default(),
            })
        }));
        self.count(message.get("tokens").unwrap_or(&Value::Null));
        let first = say_blocks(&mut self.talk, Role::Assistant, &turn_blocks, moment, counts)?;
        self.talk.messages[first].model = quoted(message, "model");
        for call in calls {
            self.result(call, moment, counts);
        }
        Ok(())
    }

    fn result(&mut self, call: &Value, moment: &[u8], counts: &mut LineCounts) {
        let [id, name] = ["id", "name"].map(|key| text(call, key).unwrap_or_default());
        let success = match text(call, "status") {
            Some("success") => Some(true),
            Some("error" | "cancelled") => Some(false),
            _ => None,
        };
        let parts = blocks(call.get("result").unwrap_or(&Value::Null));
        if parts.is_empty() {
            return;
        }
        let moment = match quoted(call, "timestamp") {
            own if own.is_empty() => moment.to_vec(),
            own => own,
        };
        // Beside its response a call may have parts that the model gets with it: the content of a file.
        let content: Vec<Value> = parts
            .into_iter()
            .filter_map(|part| match part {
                Block::Result { content: Value::String(text), .. } | Block::Text(text) => {
                    Some(json!({"type": "text", "text": text}))
                }
                Block::Result { content, .. } => Some(json!({"type": "text", "text": content.to_string()})),
                Block::Other(kind) => {
                    counts.leave_out(NO_TEXT, kind.as_bytes());
                    None
                }
                _ => None,
            })
            .collect();
        answer(&mut self.talk, id, name, &Value::Array(content), success, &moment, counts);
    }

    /// Add the tokens of a turn; the input includes those from the cache.
    fn count(&mut self, tokens: &Value) {
        let of = |key: &str| tokens.get(key).and_then(Value::as_u64);
        let add = |sum: &mut Option<u64>, count: Option<u64>| {
            if let Some(count) = count {
                *sum = Some(sum.unwrap_or_default().saturating_add(count));
            }
        };
        let cached = of("cached").unwrap_or_default();
        add(&mut self.tokens.input, of("input").map(|all| all.saturating_sub(cached)));
        add(&mut self.tokens.cache_read, of("cached"));
        add(
            &mut self.tokens.output,
            of("output").map(|all| all.saturating_add(of("thoughts").unwrap_or_default())),
        );
    }
}

/// Return a thought, which the program splits into a subject and its description.
fn thought(thought: &Value) -> Option<Block> {
    let parts = ["subject", "description"].map(|key| text(thought, key).filter(|text| !text.is_empty()));
    let words: Vec<&str> = parts.into_iter().flatten().collect();
    (!words.is_empty()).then(|| Block::Thinking(words.join("\n")))
}
