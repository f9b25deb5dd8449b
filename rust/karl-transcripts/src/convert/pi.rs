//! Pi: one file a session under `~/.pi/agent/sessions`, each line an entry of a tree (`id`, `parentId`) behind the header.
//!
//! The conversation is the path from the last entry back to the first; entries beside it are branches that the user left.
//! Files of version 1 have no tree: their order counts. What a compaction stands for is in the file, so its summary is
//! left out. The format is Pi's `docs/session.md`, version 3.

use std::collections::HashMap;

use karl_log::conversation::blocks::blocks;
use serde_json::Value;

use super::blocks::{answer, say_blocks};
use super::file_records::{Fates, FileRecord};
use super::json::{FLAG, JsonTypes, NUMBER, OBJECT, TEXT, WORDS, check, escaped, pick, quoted, source, text};
use super::message::{Conversation, Role};
use super::report::{LineCounts, NO_CONVERSATION, OTHER_BRANCH, count_type};
use super::run::{Head, Tokens};

/// Paths of an entry with the expected types.
const WANTED: [(&str, JsonTypes); 15] = [
    ("id", TEXT),
    ("parentId", TEXT),
    ("timestamp", TEXT),
    ("message", OBJECT),
    ("message.role", TEXT),
    ("message.content", WORDS),
    ("message.model", TEXT),
    ("message.stopReason", TEXT),
    ("message.toolCallId", TEXT),
    ("message.isError", FLAG),
    ("message.usage.input", NUMBER),
    ("message.usage.output", NUMBER),
    ("message.usage.cacheRead", NUMBER),
    ("message.usage.cacheWrite", NUMBER),
    ("content", WORDS),
];

/// Read the session of a file.
pub(super) fn read(records: &[FileRecord], file: &str, counts: &mut LineCounts) -> (Head, Conversation) {
    let mut session = Session::default();
    let header = records.iter().find(|record| text(&record.value, "type") == Some("session"));
    let on_path = path(records, counts);
    let mut fates = Fates::new(records.len());
    for (at, FileRecord { value: entry, offset }) in records.iter().enumerate() {
        let kind = text(entry, "type").unwrap_or_default();
        count_type(&mut counts.types, kind, 1);
        let is_message = matches!(kind, "message" | "custom_message");
        match on_path[at] {
            true => {
                check(entry, &WANTED, counts);
                fates.set(at, session.entry(kind, entry, counts));
            }
            false if is_message => fates.drop(at, OTHER_BRANCH),
            false => {}
        }
        counts.locate(file, *offset);
    }
    fates.count(counts);
    let header = header.map_or(&Value::Null, |record| &record.value);
    let mut more = pick(header, &["cwd"]);
    more.extend(header.get("version").map(|version| ("version".to_owned(), version.clone())));
    let head = Head {
        id: text(header, "id").map_or_else(|| file.to_owned(), str::to_owned),
        session: text(header, "parentSession").or_else(|| text(header, "branchedFrom")).and_then(session_of),
        tokens: session.tokens,
        source: source("pi", file, more),
        ..Head::default()
    };
    (head, session.talk)
}

/// Return the session in the name of a file, `TIME_ID.jsonl`.
fn session_of(path: &str) -> Option<String> {
    let name = path.rsplit(['/', '\\']).next()?.strip_suffix(".jsonl")?;
    name.split_once('_').map(|(_, id)| id.to_owned()).filter(|id| !id.is_empty())
}

/// Return for each entry whether it is on the path from the last one back to the first.
fn path(records: &[FileRecord], counts: &mut LineCounts) -> Vec<bool> {
    let id = |at: usize| {
        text(&records[at].value, "id").filter(|_| text(&records[at].value, "type") != Some("session"))
    };
    let Some(last) = (0..records.len()).rev().find(|&at| id(at).is_some()) else {
        return vec![true; records.len()];
    };
    let places: HashMap<&str, usize> = (0..records.len()).filter_map(|at| Some((id(at)?, at))).collect();
    let mut on_path: Vec<bool> = (0..records.len()).map(|at| id(at).is_none()).collect();
    let mut at = last;
    loop {
        on_path[at] = true;
        let Some(parent) = text(&records[at].value, "parentId") else { break };
        // A parent stands before its child: a loop has no end.
        let before = places.get(parent).copied().filter(|&place| place < at);
        let before = before.or_else(|| {
            counts.note("missing_parent");
            (0..at).rev().find(|&before| id(before).is_some())
        });
        let Some(before) = before else { break };
        at = before;
    }
    on_path
}

#[derive(Default)]
struct Session {
    talk: Conversation,
    tokens: Tokens,
}

impl Session {
    fn entry(&mut self, kind: &str, entry: &Value, counts: &mut LineCounts) -> Result<(), &'static str> {
        let moment = quoted(entry, "timestamp");
        match kind {
            "session" => Ok(()),
            "message" => self.message(entry.get("message").unwrap_or(&Value::Null), &moment, counts),
            "custom_message" => self.extension(entry, &moment, counts),
            "compaction" | "branch_summary" => Err("compact_summary"),
            _ => Err(NO_CONVERSATION),
        }
    }

    fn message(
        &mut self,
        message: &Value,
        moment: &[u8],
        counts: &mut LineCounts,
    ) -> Result<(), &'static str> {
        let content = message.get("content").unwrap_or(&Value::Null);
        match text(message, "role") {
            Some("user") => {
                say_blocks(&mut self.talk, Role::User, &blocks(content), moment, counts).map(drop)
            }
            Some("assistant") => self.turn(message, content, moment, counts),
            Some("toolResult") => {
                let [id, name] = ["toolCallId", "toolName"].map(|key| text(message, key).unwrap_or_default());
                let failed = message.get("isError").and_then(Value::as_bool);
                answer(&mut self.talk, id, name, content, failed.map(|failed| !failed), moment, counts);
                Ok(())
            }
            Some("bashExecution") => self.shell(message, moment),
            Some("custom" | "hookMessage") => self.extension(message, moment, counts),
            Some("compactionSummary" | "branchSummary") => Err("compact_summary"),
            _ => Err("unknown_role"),
        }
    }

    fn turn(
        &mut self,
        message: &Value,
        content: &Value,
        moment: &[u8],
        counts: &mut LineCounts,
    ) -> Result<(), &'static str> {
        self.count(message.get("usage").unwrap_or(&Value::Null));
        let first = say_blocks(&mut self.talk, Role::Assistant, &blocks(content), moment, counts)?;
        self.talk.messages[first].model = quoted(message, "model");
        match text(message, "stopReason") {
            Some("aborted") => self.talk.interrupt(),
            Some("error") => self.talk.note_lost_connection(),
            _ => {}
        }
        Ok(())
    }

    /// Add a command that the user ran, in the words in which Pi tells the model of it.
    fn shell(&mut self, message: &Value, moment: &[u8]) -> Result<(), &'static str> {
        if message.get("excludeFromContext") == Some(&Value::Bool(true)) {
            return Err(NO_CONVERSATION);
        }
        let [command, output] = ["command", "output"].map(|key| text(message, key).unwrap_or_default());
        let output = if output.is_empty() { "(no output)".to_owned() } else { format!("```\n{output}\n```") };
        let end = match message.get("exitCode").and_then(Value::as_i64) {
            _ if message.get("cancelled") == Some(&Value::Bool(true)) => "\n\n(command cancelled)".to_owned(),
            Some(code) if code != 0 => format!("\n\nCommand exited with code {code}"),
            _ => String::new(),
        };
        let text = format!("Ran `{command}`\n{output}{end}");
        self.talk.say(Role::User, &escaped(&text), moment).origin = b"shell".to_vec();
        Ok(())
    }

    /// Add a text that an extension gave the model.
    fn extension(
        &mut self,
        message: &Value,
        moment: &[u8],
        counts: &mut LineCounts,
    ) -> Result<(), &'static str> {
        let content = message.get("content").unwrap_or(&Value::Null);
        let first = say_blocks(&mut self.talk, Role::User, &blocks(content), moment, counts)?;
        self.talk.messages[first].origin = b"extension".to_vec();
        Ok(())
    }

    fn count(&mut self, usage: &Value) {
        let tokens = &mut self.tokens;
        for (sum, key) in [
            (&mut tokens.input, "input"),
            (&mut tokens.output, "output"),
            (&mut tokens.cache_read, "cacheRead"),
            (&mut tokens.cache_creation, "cacheWrite"),
        ] {
            if let Some(count) = usage.get(key).and_then(Value::as_u64) {
                *sum = Some(sum.unwrap_or_default().saturating_add(count));
            }
        }
    }
}
