//! Codex: rollouts under `~/.codex/sessions`, one file per session, each line `{timestamp, type, payload}`.
//!
//! `response_item` lines are the conversation; `event_msg` lines repeat it for the screen, and add the token
//! counts. After a compaction the items continue, so the replacement history for the model is left out.

mod items;

use serde_json::{Map, Value};

pub(super) use self::items::ItemTrail;
use self::items::{SeenItems, item, put_in};
use crate::convert::json::{escaped, join};
use crate::convert::json_type::{JsonType, JsonTypes, LIST, NUMBER, OBJECT, TEXT, WORDS, check};
use crate::convert::message::{Conversation, Role};
use crate::convert::record::{Head, Tokens};
use crate::convert::report::{EMPTY, INTERRUPTION, Made, NO_CONVERSATION, NO_TEXT};
use crate::convert::text_parts::{arguments, kept, list, quoted, source, text, words};

/// Reason for a message of an unknown role.
const UNKNOWN_ROLE: &str = "unknown_role";

/// Name under which items of unknown kinds are counted.
const UNKNOWN_ITEM: &str = "unknown_item";

/// Paths of every line with the expected types.
const EVERY: [(&str, JsonTypes); 3] = [("timestamp", TEXT), ("payload", OBJECT), ("payload.type", TEXT)];

/// Return the paths of used lines with the expected types, by line type.
fn used(line: &Value) -> &'static [(&'static str, JsonTypes)] {
    match text(line, "type") {
        Some("session_meta") => &[("payload.id", TEXT), ("payload.forked_from_id", TEXT)],
        Some("turn_context") => &[("payload.model", TEXT)],
        Some("event_msg") => &[
            ("payload.info.total_token_usage.input_tokens", NUMBER),
            ("payload.info.total_token_usage.cached_input_tokens", NUMBER),
            ("payload.info.total_token_usage.output_tokens", NUMBER),
        ],
        _ => &[
            ("payload.role", TEXT),
            ("payload.content", WORDS),
            ("payload.content[]", OBJECT),
            ("payload.content[].text", TEXT),
            ("payload.summary", LIST),
            ("payload.summary[].text", TEXT),
            ("payload.name", TEXT),
            ("payload.arguments", &[JsonType::Text, JsonType::Object]),
            ("payload.call_id", TEXT),
            ("payload.output", &[JsonType::Text, JsonType::List, JsonType::Object]),
        ],
    }
}

/// Name under which a line is counted if another line has its content.
pub(super) const REPEATED: &str = "repeated";

/// Session while its lines are read.
#[derive(Default)]
pub(super) struct Rollout {
    talk: Conversation,
    meta: Map<String, Value>,
    id: Option<String>,
    /// Session that started this one, a sub-agent's.
    parent: Option<String>,
    model: Vec<u8>,
    tokens: Tokens,
    /// Model's message in progress, until another role answers.
    turn: Option<usize>,
    /// Number of items in the next lines that are known from another file.
    pub(super) repeated: usize,
    seen: SeenItems,
}

/// Outcome of a line: the reason if nothing of it is used.
type ItemFate = Result<(), &'static str>;

impl Rollout {
    /// Return whether a line of this type and payload type is read; most lines of a rollout are not.
    pub(super) fn reads(kind: &[u8], payload: &[u8]) -> bool {
        kind != b"event_msg" || payload == b"token_count"
    }

    /// Read a line.
    pub(super) fn line(&mut self, line: &Value, made: &mut Made) -> ItemFate {
        let again = self.seen.again(line);
        if self.repeated > 0 && item(line).is_some() {
            self.repeated -= 1;
            return Err(REPEATED);
        }
        if again {
            return Err(REPEATED);
        }
        check(line, &EVERY, made);
        let fate = self.take(line, made);
        if matches!(fate, Ok(()) | Err(UNKNOWN_ROLE | EMPTY | NO_TEXT)) {
            check(line, used(line), made);
        }
        fate
    }

    fn take(&mut self, line: &Value, made: &mut Made) -> ItemFate {
        let payload = line.get("payload").unwrap_or(&Value::Null);
        match text(line, "type") {
            Some("response_item") => self.item(payload, &quoted(line, "timestamp"), made),
            Some("session_meta") if self.id.is_none() => {
                self.id = text(payload, "id").map(str::to_owned);
                self.parent = parent(payload);
                self.meta = kept(payload, &["cwd", "cli_version", "originator", "git"]);
                Ok(())
            }
            Some("turn_context") => {
                self.model = quoted(payload, "model");
                Ok(())
            }
            Some("event_msg") if text(payload, "type") == Some("token_count") => {
                self.count(payload);
                Ok(())
            }
            Some("compacted") => Err("compact_summary"),
            _ => Err(NO_CONVERSATION),
        }
    }

    /// Return the trajectory of the whole file.
    pub(super) fn end(self, file: &str) -> (Head, Conversation) {
        let head = Head {
            id: self.id.unwrap_or_else(|| file.to_owned()),
            parent: self.parent.map(|parent| (parent, None)),
            tokens: self.tokens,
            source: source("codex", file, self.meta),
            ..Head::default()
        };
        (head, self.talk)
    }

    fn item(&mut self, item: &Value, moment: &[u8], made: &mut Made) -> ItemFate {
        match text(item, "type") {
            Some("message") => return self.message(item, moment, made),
            Some("reasoning") => {
                let parts = list(item, "summary").iter().chain(list(item, "content"));
                let turn = self.turn(moment);
                for part in parts {
                    join(&mut self.talk.messages[turn].reasoning, &quoted(part, "text"));
                }
            }
            Some("function_call") => {
                let arguments = arguments(item.get("arguments"));
                self.call(item, &quoted(item, "name"), &arguments, moment, made);
            }
            Some("custom_tool_call") => {
                let arguments =
                    Map::from_iter([("input".to_owned(), item.get("input").cloned().unwrap_or_default())]);
                self.call(item, &quoted(item, "name"), &Value::Object(arguments).to_string(), moment, made);
            }
            Some("local_shell_call") => {
                let arguments = arguments(item.get("action"));
                self.call(item, b"local_shell", &arguments, moment, made);
            }
            Some("function_call_output" | "custom_tool_call_output" | "local_shell_call_output") => {
                return self.output(item, moment, made);
            }
            kind => {
                made.leave_out(UNKNOWN_ITEM, kind.unwrap_or_default().as_bytes());
                return Err(NO_CONVERSATION);
            }
        }
        Ok(())
    }

    fn message(&mut self, item: &Value, moment: &[u8], made: &mut Made) -> ItemFate {
        if let Some(why) = put_in(item) {
            if why == INTERRUPTION {
                self.talk.interrupt();
            }
            return Err(why);
        }
        let content = words(item.get("content"), made).ok_or(NO_TEXT)?;
        if content.is_empty() {
            return Err(EMPTY);
        }
        match text(item, "role") {
            Some("assistant") => {
                let turn = self.turn(moment);
                join(&mut self.talk.messages[turn].content, &content);
            }
            Some("user") => self.say(Role::User, &content, moment),
            Some("developer" | "system") => self.say(Role::System, &content, moment),
            _ => return Err(UNKNOWN_ROLE),
        }
        Ok(())
    }

    fn say(&mut self, role: Role, content: &[u8], moment: &[u8]) {
        self.talk.say(role, content, moment);
        self.turn = None;
    }

    /// Return the model's message in progress, or a new one.
    fn turn(&mut self, moment: &[u8]) -> usize {
        let next = self.talk.messages.len();
        let at = *self.turn.get_or_insert(next);
        if at == next {
            self.talk.say(Role::Assistant, b"", moment).model.clone_from(&self.model);
        }
        at
    }

    fn call(&mut self, item: &Value, name: &[u8], arguments: &str, moment: &[u8], made: &mut Made) {
        let turn = self.turn(moment);
        self.talk.call(turn, &quoted(item, "call_id"), name, arguments.as_bytes(), made);
    }

    fn output(&mut self, item: &Value, moment: &[u8], made: &mut Made) -> ItemFate {
        let id = quoted(item, "call_id");
        if !self.talk.waits(&id) {
            return Err("orphan_result");
        }
        let output = item.get("output").unwrap_or(&Value::Null);
        let (content, success) = result(output, made);
        self.talk.answer(&id, &content, success, moment, made);
        self.turn = None;
        Ok(())
    }

    fn count(&mut self, payload: &Value) {
        let count =
            |key: &str| payload.pointer(&format!("/info/total_token_usage/{key}")).and_then(Value::as_u64);
        let cached = count("cached_input_tokens");
        if let Some(all) = count("input_tokens") {
            // The input includes the cached tokens.
            self.tokens = Tokens {
                input: Some(all.saturating_sub(cached.unwrap_or_default())),
                cache_creation: None,
                cache_read: cached,
                output: count("output_tokens"),
            };
        }
    }
}

/// Return the session that started a sub-agent. Its call is not named.
fn parent(payload: &Value) -> Option<String> {
    let spawned = payload.pointer("/source/subagent/thread_spawn/parent_thread_id");
    [payload.get("parent_thread_id"), spawned]
        .into_iter()
        .flatten()
        .find_map(Value::as_str)
        .map(str::to_owned)
}

/// Return the output of a tool, and whether it succeeded: by its own flag, or by the exit code of its
/// command.
fn result(output: &Value, made: &mut Made) -> (Vec<u8>, Option<bool>) {
    if let Some(inner) = output.get("content") {
        let said = output.get("success").and_then(Value::as_bool);
        return (words(Some(inner), made).unwrap_or_default(), said);
    }
    let Some(whole) = output.as_str() else { return (words(Some(output), made).unwrap_or_default(), None) };
    let packed = whole.starts_with('{').then(|| serde_json::from_str::<Value>(whole).ok()).flatten();
    if let Some(packed) = packed.filter(|packed| text(packed, "output").is_some()) {
        let code = packed.pointer("/metadata/exit_code").and_then(Value::as_i64);
        return (quoted(&packed, "output"), code.map(|code| code == 0));
    }
    (escaped(whole), exit_code(whole).map(|code| code == 0))
}

/// Return the exit code in the first lines of a command's output.
fn exit_code(output: &str) -> Option<i64> {
    let mut lines = output.lines().take_while(|line| !line.starts_with("Output:")).take(8);
    lines.find_map(|line| {
        let code =
            line.strip_prefix("Exit code: ").or_else(|| line.strip_prefix("Process exited with code "))?;
        code.trim().parse().ok()
    })
}
