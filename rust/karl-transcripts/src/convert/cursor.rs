//! Cursor: what `cursor-agent --print --output-format stream-json` prints, and the transcripts of agents that Cursor
//! keeps (`~/.cursor/projects/PROJECT/agent-transcripts/ID/ID.jsonl`).
//!
//! ```text
//! stream      {type: system | user | thinking | assistant | tool_call | result, subtype, session_id, ...}
//! transcript  {role: user | assistant, message: {content: [text | tool_use]}}
//! ```
//!
//! The events are those of Cursor's page `cli/reference/output-format`; `thinking`, `model_call_id` and the texts of
//! `--stream-partial-output` are not on it, and are read as its version 2026.02 prints them. A transcript has the calls
//! of tools without their ids and, most often, without their results.

use karl_log::conversation::blocks::{Block, blocks};
use karl_log::time::timestamp;
use serde_json::{Map, Value};

use super::blocks::{answer, say_blocks};
use super::file_records::{Fates, FileRecord};
use super::json::{
    FLAG, JsonTypes, NUMBER, OBJECT, TEXT, WORDS, arguments, check, escaped, join, pick, quoted, source, text,
};
use super::message::{Conversation, Role};
use super::report::{LineCounts, NO_CONVERSATION, count_type};
use super::run::{Head, Tokens};

/// Paths of an event or a line with the expected types.
const WANTED: [(&str, JsonTypes); 13] = [
    ("type", TEXT),
    ("subtype", TEXT),
    ("session_id", TEXT),
    ("model", TEXT),
    ("message", OBJECT),
    ("message.content", WORDS),
    ("role", TEXT),
    ("text", TEXT),
    ("call_id", TEXT),
    ("tool_call", OBJECT),
    ("model_call_id", TEXT),
    ("timestamp_ms", NUMBER),
    ("is_error", FLAG),
];

/// What Cursor adds to the arguments of a call, and the model does not write: ids, its reading of a command, and the
/// user's settings.
const ADDED_ARGUMENTS: [&str; 14] = [
    "toolCallId",
    "conversationId",
    "requestId",
    "simpleCommands",
    "parsingResult",
    "hasInputRedirect",
    "hasOutputRedirect",
    "requestedSandboxPolicy",
    "adminCommandDenylist",
    "fileOutputThresholdBytes",
    "skipApproval",
    "timeoutBehavior",
    "hardTimeout",
    "closeStdin",
];

/// Read the sessions of a file.
pub(super) fn read(records: &[FileRecord], file: &str, counts: &mut LineCounts) -> Vec<(Head, Conversation)> {
    let mut fates = Fates::new(records.len());
    let mut sessions: Vec<Session> = Vec::new();
    for (at, FileRecord { value: event, offset }) in records.iter().enumerate() {
        let kind = text(event, "type").or_else(|| text(event, "role")).unwrap_or_default();
        count_type(&mut counts.types, kind, 1);
        check(event, &WANTED, counts);
        let id = text(event, "session_id");
        if sessions.last().is_none_or(|last| id.is_some_and(|id| last.id.as_deref() != Some(id))) {
            let known = sessions.iter().position(|session| session.id.as_deref() == id);
            let session = known.map_or_else(|| Session::new(id), |known| sessions.remove(known));
            sessions.push(session);
        }
        if let Some(session) = sessions.last_mut() {
            fates.set(at, session.event(kind, event, counts));
        }
        counts.locate(file, *offset);
    }
    fates.count(counts);
    sessions.into_iter().map(|session| session.end(file, counts)).collect()
}

#[derive(Default)]
struct Session {
    id: Option<String>,
    talk: Conversation,
    facts: Map<String, Value>,
    model: Vec<u8>,
    tokens: Tokens,
    /// Thoughts that no message has yet.
    thought: String,
    /// Pieces of a message that is printed again as a whole, and the moment of the first.
    pieces: String,
    moment: String,
    /// 1 if the run ended without an error, else 0: its reward, if the caller asks for that of the result.
    result: Option<f64>,
    /// Message of the model that calls are added to, and its `model_call_id`.
    open: Option<(usize, String)>,
}

impl Session {
    fn new(id: Option<&str>) -> Self {
        Self { id: id.map(str::to_owned), ..Self::default() }
    }

    fn event(&mut self, kind: &str, event: &Value, counts: &mut LineCounts) -> Result<(), &'static str> {
        let content = event.pointer("/message/content").unwrap_or(&Value::Null);
        if kind != "assistant" {
            self.end_pieces(counts);
        }
        match (kind, text(event, "subtype")) {
            ("system", Some("init")) => {
                self.facts = pick(event, &["cwd", "permissionMode"]);
                self.model = quoted(event, "model");
                Ok(())
            }
            ("user", _) => self.prompt(content, event, counts),
            ("thinking", Some("delta")) => {
                self.thought.push_str(text(event, "text").unwrap_or_default());
                Ok(())
            }
            ("thinking", _) => Ok(()),
            ("assistant", _) => self.turn(content, event, counts),
            ("tool_call", Some(subtype)) => self.call(subtype, event, counts),
            ("result", _) => {
                self.result(event);
                Err(NO_CONVERSATION)
            }
            _ => Err(NO_CONVERSATION),
        }
    }

    fn prompt(
        &mut self,
        content: &Value,
        event: &Value,
        counts: &mut LineCounts,
    ) -> Result<(), &'static str> {
        self.open = None;
        let typed = blocks(content).into_iter().map(|block| match block {
            Block::Text(text) => Block::Text(typed_text(text, counts)),
            block => block,
        });
        let typed: Vec<Block> = typed.collect();
        say_blocks(&mut self.talk, Role::User, &typed, moment(event).as_bytes(), counts).map(drop)
    }

    /// Take in what the model says. With `--stream-partial-output` each piece of it is an event with a time and without
    /// a `model_call_id`, and then comes the whole.
    fn turn(&mut self, content: &Value, event: &Value, counts: &mut LineCounts) -> Result<(), &'static str> {
        let content_blocks = blocks(content);
        let is_piece = event.get("timestamp_ms").is_some() && event.get("model_call_id").is_none();
        if let ([Block::Text(piece)], true) = (&content_blocks[..], is_piece) {
            if self.pieces.is_empty() {
                self.moment = moment(event);
            }
            self.pieces.push_str(piece);
            return Ok(());
        }
        if matches!(&content_blocks[..], [Block::Text(whole)] if *whole == self.pieces) {
            self.pieces.clear();
        }
        self.end_pieces(counts);
        self.say(content_blocks, text(event, "model_call_id").unwrap_or_default(), &moment(event), counts)
    }

    /// Take the pieces of a message that never came as a whole.
    fn end_pieces(&mut self, counts: &mut LineCounts) {
        if !self.pieces.is_empty() {
            let (said, moment) = (std::mem::take(&mut self.pieces), std::mem::take(&mut self.moment));
            // A text that is not empty is a message.
            let _ = self.say(vec![Block::Text(said)], "", &moment, counts);
        }
    }

    fn say(
        &mut self,
        mut said: Vec<Block>,
        call: &str,
        moment: &str,
        counts: &mut LineCounts,
    ) -> Result<(), &'static str> {
        let calls = self.talk.call_ids().count();
        for (number, block) in said.iter_mut().enumerate() {
            if let Block::Call { id, .. } = block
                && id.is_empty()
            {
                *id = format!("call_{}", calls + number);
            }
        }
        if !self.thought.is_empty() {
            said.insert(0, Block::Thinking(std::mem::take(&mut self.thought)));
        }
        let first = say_blocks(&mut self.talk, Role::Assistant, &said, moment.as_bytes(), counts)?;
        self.talk.messages[first].model.clone_from(&self.model);
        self.open = Some((first, call.to_owned()));
        Ok(())
    }

    fn call(&mut self, subtype: &str, event: &Value, counts: &mut LineCounts) -> Result<(), &'static str> {
        let id = text(event, "call_id").unwrap_or_default();
        let Some(tool) = event.get("tool_call").and_then(tool_call) else { return Err("unknown_call") };
        if subtype == "started" || !self.talk.waits(&escaped(id)) {
            self.begin_call(id, &tool, event, counts);
        }
        if subtype == "started" {
            return Ok(());
        }
        let Some(result) = tool.result else { return Err(NO_CONVERSATION) };
        let (content, success) = outcome(result);
        // Calls of one turn end in any order, each after the turn.
        answer(&mut self.talk, id, &tool.name, &content, Some(success), moment(event).as_bytes(), counts);
        Ok(())
    }

    /// Add a call to the message of its turn, or to a new one.
    fn begin_call(&mut self, id: &str, tool: &ToolCall<'_>, event: &Value, counts: &mut LineCounts) {
        let turn = text(event, "model_call_id").unwrap_or_default();
        let is_last = |at: usize| at + 1 == self.talk.messages.len();
        let at = match &self.open {
            Some((at, open)) if is_last(*at) || (!turn.is_empty() && open == turn) => *at,
            _ => {
                self.talk.say(Role::Assistant, b"", moment(event).as_bytes()).model.clone_from(&self.model);
                self.talk.messages.len() - 1
            }
        };
        self.open = Some((at, turn.to_owned()));
        if !self.thought.is_empty() {
            let thought = escaped(&std::mem::take(&mut self.thought));
            join(&mut self.talk.messages[at].reasoning, &thought);
        }
        self.talk.call(at, &escaped(id), &escaped(&tool.name), tool.arguments.as_bytes(), counts);
    }

    fn result(&mut self, event: &Value) {
        let is_well =
            text(event, "subtype") == Some("success") && event.get("is_error") != Some(&Value::Bool(true));
        self.result = Some(f64::from(u8::from(is_well)));
        self.facts.extend(pick(event, &["is_error", "duration_ms"]));
        let count = |key: &str| event.pointer(&format!("/usage/{key}")).and_then(Value::as_u64);
        self.tokens = Tokens {
            input: count("inputTokens"),
            cache_creation: count("cacheWriteTokens"),
            cache_read: count("cacheReadTokens"),
            output: count("outputTokens"),
        };
    }

    fn end(mut self, file: &str, counts: &mut LineCounts) -> (Head, Conversation) {
        self.end_pieces(counts);
        let (parent, name) = names(file);
        let head = Head {
            id: self.id.unwrap_or_else(|| name.to_owned()),
            reward: self.result,
            parent: parent.map(|parent| (parent.to_owned(), None)),
            session: parent.map(str::to_owned),
            tokens: self.tokens,
            source: source("cursor", file, self.facts),
            ..Head::default()
        };
        (head, self.talk)
    }
}

/// Call of a tool in an event.
struct ToolCall<'v> {
    name: String,
    arguments: String,
    result: Option<&'v Value>,
}

/// Return a call: `{readToolCall: {args, result}}`, or `{function: {name, arguments}}` of tools without a form of their
/// own.
fn tool_call(call: &Value) -> Option<ToolCall<'_>> {
    if let Some(function) = call.get("function") {
        return Some(ToolCall {
            name: text(function, "name")?.to_owned(),
            arguments: arguments(function.get("arguments")),
            result: function.get("result").or_else(|| call.get("result")),
        });
    }
    let is_tool = |(key, value): &(&String, &Value)| key.ends_with("ToolCall") && value.is_object();
    let (key, tool) = call.as_object()?.iter().find(is_tool)?;
    let mut parameters = tool.get("args").cloned().unwrap_or_default();
    if let Value::Object(parameters) = &mut parameters {
        parameters.retain(|key, _| !ADDED_ARGUMENTS.contains(&&key[..]));
    }
    Some(ToolCall {
        name: key.trim_end_matches("ToolCall").to_owned(),
        arguments: arguments(Some(&parameters)),
        result: tool.get("result"),
    })
}

/// Return the text of a result, and whether the call succeeded: the content of a file, what a command printed, a
/// message, or else the JSON of the result.
fn outcome(result: &Value) -> (Value, bool) {
    let Some((kind, value)) = result.as_object().and_then(|result| result.iter().next()) else {
        return (Value::from(super::json::arguments(Some(result))), false);
    };
    let exit = value.get("exitCode").and_then(Value::as_i64);
    let printed: Vec<&str> = ["stdout", "stderr"]
        .iter()
        .filter_map(|key| text(value, key))
        .filter(|text| !text.is_empty())
        .collect();
    let known =
        ["content", "message", "errorMessage", "error", "reason"].iter().find_map(|key| text(value, key));
    let words = if exit.is_some() {
        printed.join("\n")
    } else {
        known.map_or_else(|| value.to_string(), str::to_owned)
    };
    (Value::from(words), kind == "success" && exit.unwrap_or(0) == 0)
}

/// Return what the user typed: Cursor puts it in `<user_query>`, and facts about the workspace before it.
fn typed_text(text: String, counts: &mut LineCounts) -> String {
    let inside = text.split_once("<user_query>").and_then(|(before, rest)| {
        let (query, after) = rest.split_once("</user_query>")?;
        Some((query.trim().to_owned(), !before.trim().is_empty() || !after.trim().is_empty()))
    });
    let Some((query, has_more)) = inside else { return text };
    if has_more {
        counts.leave_out("added_context", b"user_query");
    }
    query
}

fn moment(event: &Value) -> String {
    event.get("timestamp_ms").and_then(Value::as_i64).and_then(timestamp).unwrap_or_default()
}

/// Return the session that started the one of a file, if it is a sub-agent's, and the name of the file.
fn names(file: &str) -> (Option<&str>, &str) {
    let mut parts = file.rsplit('/');
    let name = parts.next().unwrap_or(file);
    let name = name.split_once(".jsonl").map_or(name, |(name, _)| name);
    let parent = (parts.next() == Some("subagents")).then(|| parts.next()).flatten();
    (parent, name)
}
