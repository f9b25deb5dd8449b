//! Session Trace Simple Format (STS) of the Hugging Face Hub: a header line, `type: session` with the `harness` that
//! wrote it, and a line `type: message` for each message.
//!
//! The format is that of the Hub's page `session-traces-format`. A file is one session; further headers in it begin
//! further sessions.

use karl_log::conversation::blocks::{Block, block, blocks};
use karl_log::time::timestamp;
use serde_json::Value;

use super::blocks::{answer, say_blocks};
use super::file_records::{Fates, FileRecord};
use super::json::{JsonTypes, LIST, NUMBER, OBJECT, TEXT, WORDS, check, list, pick, quoted, source, text};
use super::message::{Conversation, Role};
use super::report::{LineCounts, NO_CONVERSATION, count_type};
use super::run::Head;

/// Paths of a line with the expected types.
const WANTED: [(&str, JsonTypes); 14] = [
    ("id", TEXT),
    ("harness", TEXT),
    ("message", OBJECT),
    ("message.role", TEXT),
    ("message.content", WORDS),
    ("message.reasoningContent", TEXT),
    ("message.toolCalls", LIST),
    ("message.toolCalls[]", OBJECT),
    ("message.toolCalls[].id", TEXT),
    ("message.toolCalls[].function", OBJECT),
    ("message.toolCalls[].function.name", TEXT),
    ("message.toolCallId", TEXT),
    ("message.timestamp", NUMBER),
    ("message.model", TEXT),
];

/// Read the sessions of a file.
pub(super) fn read(records: &[FileRecord], file: &str, counts: &mut LineCounts) -> Vec<(Head, Conversation)> {
    let mut fates = Fates::new(records.len());
    let mut all = Vec::new();
    for (at, FileRecord { value: line, offset }) in records.iter().enumerate() {
        let kind = text(line, "type").unwrap_or_default();
        count_type(&mut counts.types, kind, 1);
        check(line, &WANTED, counts);
        if kind == "session" || all.is_empty() {
            all.push((head(line, file), Conversation::default()));
        }
        let talk = all.last_mut().map(|(_, talk)| talk);
        let outcome = match (kind, line.get("message"), talk) {
            ("session", ..) => Ok(()),
            ("message", Some(message), Some(talk)) => add_message(talk, message, counts),
            _ => Err(NO_CONVERSATION),
        };
        fates.set(at, outcome);
        counts.locate(file, *offset);
    }
    fates.count(counts);
    all
}

fn head(header: &Value, file: &str) -> Head {
    let id = text(header, "id").filter(|_| header.get("harness").is_some());
    Head {
        id: id.map_or_else(|| file.to_owned(), str::to_owned),
        source: source("sts", file, pick(header, &["harness", "name", "cwd"])),
        ..Head::default()
    }
}

/// Add a message.
///
/// # Errors
/// Reason why there is none.
fn add_message(
    talk: &mut Conversation,
    message: &Value,
    counts: &mut LineCounts,
) -> Result<(), &'static str> {
    let content = message.get("content").unwrap_or(&Value::Null);
    let moment = message.get("timestamp").and_then(Value::as_i64).and_then(timestamp).unwrap_or_default();
    let moment = moment.as_bytes();
    let role = match text(message, "role") {
        Some("system") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool") => {
            let id = text(message, "toolCallId").unwrap_or_default();
            answer(talk, id, "", content, None, moment, counts);
            return Ok(());
        }
        _ => return Err("unknown_role"),
    };
    let thought = text(message, "reasoningContent").filter(|thought| !thought.is_empty());
    let thought = thought.map(|thought| Block::Thinking(thought.to_owned()));
    let calls = list(message, "toolCalls").iter().map(call);
    let all: Vec<Block> = thought.into_iter().chain(blocks(content)).chain(calls).collect();
    let first = say_blocks(talk, role, &all, moment, counts)?;
    talk.messages[first].model = quoted(message, "model");
    Ok(())
}

/// Return a call of a tool, whose name and arguments are in its `function`.
fn call(call: &Value) -> Block {
    let function = call.get("function").unwrap_or(call);
    match text(function, "name").filter(|name| !name.is_empty()) {
        Some(name) => Block::Call {
            id: text(call, "id").unwrap_or_default().to_owned(),
            name: name.to_owned(),
            arguments: function.get("arguments").cloned().unwrap_or_default(),
        },
        None => block(call),
    }
}
