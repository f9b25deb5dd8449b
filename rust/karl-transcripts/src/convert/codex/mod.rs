//! Codex: rollouts under `~/.codex/sessions`, one file per session, each line `{timestamp, type, payload}`.
//!
//! `response_item` lines are the conversation; `event_msg` lines repeat it for the screen, and add the token
//! counts. After a compaction the items continue, so the replacement history for the model is left out.

mod items;

use serde_json::{Map, Value};

pub(super) use self::items::{HistoryEnd, Inheritance, ItemTrail, LinePlace, RolloutHistory, inherit};
use self::items::{META, SeenItems, item, own_content, parent, takes_back};
use crate::convert::json::{JsonType, JsonTypes, LIST, NUMBER, OBJECT, TEXT, WORDS, check};
use crate::convert::json::{arguments, list, pick, quoted, source, text, words};
use crate::convert::json::{escaped, join};
use crate::convert::message::{Conversation, Message, Role};
use crate::convert::report::{EMPTY, INTERRUPTION, LineCounts, NO_CONVERSATION, NO_TEXT, OTHER_BRANCH};
use crate::convert::run::{Head, Tokens};

/// Reason for a message of an unknown role.
const UNKNOWN_ROLE: &str = "unknown_role";

/// Name under which items of unknown kinds are counted.
const UNKNOWN_ITEM: &str = "unknown_item";

/// Paths of every line with the expected types.
const EVERY: [(&str, JsonTypes); 3] = [("timestamp", TEXT), ("payload", OBJECT), ("payload.type", TEXT)];

/// Return the paths of used lines with the expected types, by line type.
fn used(line: &Value) -> &'static [(&'static str, JsonTypes)] {
    match text(line, "type") {
        Some("session_meta") => &[
            ("payload.id", TEXT),
            ("payload.forked_from_id", TEXT),
            ("payload.history_base", OBJECT),
            ("payload.history_base.thread_id", TEXT),
            ("payload.history_base.end_ordinal_exclusive", NUMBER),
            ("payload.history_base.end_byte_offset", NUMBER),
            ("payload.subagent_history_start_ordinal", NUMBER),
        ],
        Some("turn_context") => &[("payload.model", TEXT)],
        Some("event_msg") => &[
            ("payload.info.total_token_usage.input_tokens", NUMBER),
            ("payload.info.total_token_usage.cached_input_tokens", NUMBER),
            ("payload.info.total_token_usage.output_tokens", NUMBER),
            ("payload.num_turns", NUMBER),
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

/// Events that are read; the others repeat the items for the screen.
const EVENTS: [&str; 4] = ["token_count", "thread_rolled_back", "task_started", "turn_started"];

/// Session while its lines are read.
#[derive(Default)]
pub(super) struct Rollout {
    talk: Conversation,
    meta: Map<String, Value>,
    id: Option<String>,
    /// Session that started this one, a sub-agent's.
    parent: Option<String>,
    /// Name of a sub-agent among the agents of its session.
    agent: Option<String>,
    model: Vec<u8>,
    tokens: Tokens,
    /// Model's message in progress, until another role answers.
    turn: Option<usize>,
    /// Whether anybody but the developer spoke.
    has_begun: bool,
    /// Number of items in the next lines that are known from another file.
    pub(super) repeated: usize,
    /// Whether the lines are of a file that this one goes on from.
    is_before: bool,
    /// Whether a file that this one goes on from is missing.
    is_cut: bool,
    /// Number of items in the next lines that a sub-agent has from its session.
    copied: usize,
    copy: SessionCopy,
    turns: Vec<TurnStart>,
    /// Number of lines of the own file with items that were used.
    used: u64,
    /// Branches that were taken back, each with all of its messages; kept on request.
    pub(super) branches: Option<Vec<Vec<Message>>>,
    seen: SeenItems,
}

/// Place where a turn began: what a rollback goes back to.
struct TurnStart {
    message: usize,
    used: u64,
}

/// Beginning of a sub-agent's file that is a copy of its session's.
#[derive(Default)]
enum SessionCopy {
    /// There is none, or it has ended.
    #[default]
    None,
    /// It ends before the line of this number.
    Until(u64),
    /// It ends with the first turn that began at this time, in milliseconds since 1970.
    Since(u64),
}

/// Outcome of a line: the reason if nothing of it is used.
type ItemFate = Result<(), &'static str>;

impl Rollout {
    /// Begin a session; keep the branches that the user took back if `keeps_branches`.
    pub(super) fn new(inheritance: &Inheritance, keeps_branches: bool) -> Self {
        Self {
            is_cut: inheritance.is_cut,
            copied: inheritance.copied,
            branches: keeps_branches.then(Vec::new),
            ..Self::default()
        }
    }

    /// Begin to read a file that the own one goes on from, or the own one after those.
    pub(super) fn begin_file(&mut self, is_before: bool) {
        self.is_before = is_before;
        self.seen = SeenItems::default();
    }

    /// Return whether a line of this type and payload type is read; most lines of a rollout are not.
    pub(super) fn reads(kind: &[u8], payload: &[u8]) -> bool {
        kind != b"event_msg" || EVENTS.iter().any(|event| event.as_bytes() == payload)
    }

    /// Read a line.
    pub(super) fn line(&mut self, line: &Value, counts: &mut LineCounts) -> ItemFate {
        let again = self.seen.again(line);
        let is_item = item(line).is_some();
        if self.repeated > 0 && (is_item || takes_back(line)) {
            self.repeated -= usize::from(is_item);
            return Err(REPEATED);
        }
        if again {
            return Err(REPEATED);
        }
        check(line, &EVERY, counts);
        self.end_copy(line);
        let fate = self.take(line, counts);
        if matches!(fate, Ok(()) | Err(UNKNOWN_ROLE | EMPTY | NO_TEXT)) {
            check(line, used(line), counts);
        }
        if is_item && self.copied > 0 {
            self.copied -= 1;
            if self.copied == 0 {
                self.keep_as_context();
            }
        }
        let is_message = matches!(text(line, "type"), Some("response_item" | "inter_agent_communication"));
        self.used += u64::from(fate.is_ok() && is_message && !self.is_before);
        fate
    }

    fn take(&mut self, line: &Value, counts: &mut LineCounts) -> ItemFate {
        let payload = line.get("payload").unwrap_or(&Value::Null);
        match text(line, "type") {
            Some("response_item") => self.item(payload, &quoted(line, "timestamp"), counts),
            Some("inter_agent_communication") => {
                self.agent_message(payload, &quoted(line, "timestamp"), counts)
            }
            Some("session_meta") if self.is_before => Err(NO_CONVERSATION),
            Some("session_meta") if self.id.is_none() => {
                self.begin(payload, counts);
                Ok(())
            }
            Some("session_meta") => {
                self.find_copy();
                Err(NO_CONVERSATION)
            }
            Some("turn_context") => {
                self.model = quoted(payload, "model");
                Ok(())
            }
            Some("event_msg") if text(payload, "type") == Some("token_count") => {
                self.count(payload);
                Ok(())
            }
            Some("event_msg") if takes_back(line) => self.take_back(payload, counts),
            Some("compacted") => Err("compact_summary"),
            _ => Err(NO_CONVERSATION),
        }
    }

    /// Read the head of the own file.
    fn begin(&mut self, meta: &Value, counts: &mut LineCounts) {
        self.id = text(meta, "id").map(str::to_owned);
        self.parent = parent(meta);
        self.agent = meta
            .pointer("/source/subagent/thread_spawn/agent_path")
            .and_then(Value::as_str)
            .map(str::to_owned);
        self.meta = pick(meta, &["cwd", "cli_version", "originator", "git"]);
        if self.is_cut && meta.get("history_base").is_some_and(Value::is_object) {
            counts.note("missing_history");
        }
        if self.parent.is_some() {
            self.keep_as_context();
            let start = meta.get("subagent_history_start_ordinal").and_then(Value::as_u64);
            self.copy = start.map_or(SessionCopy::None, SessionCopy::Until);
        }
    }

    /// Find the end of a copy, whose second head was read.
    fn find_copy(&mut self) {
        if self.parent.is_some() && matches!(self.copy, SessionCopy::None) && self.talk.messages.is_empty() {
            let moment = self.id.as_deref().and_then(minted_at);
            self.copy = moment.map_or(SessionCopy::None, SessionCopy::Since);
        }
    }

    /// End the copy where the sub-agent's own lines begin.
    fn end_copy(&mut self, line: &Value) {
        let is_own = match self.copy {
            SessionCopy::None => false,
            SessionCopy::Until(start) => {
                line.get("ordinal").and_then(Value::as_u64).is_some_and(|at| at >= start)
            }
            SessionCopy::Since(moment) => {
                let turn = line.pointer("/payload/turn_id").and_then(Value::as_str);
                turn.and_then(minted_at).is_some_and(|begun| begun >= moment)
            }
        };
        if is_own && text(line, "type") != Some("session_meta") {
            self.copy = SessionCopy::None;
            self.keep_as_context();
        }
    }

    /// Exclude the messages so far from training: another session said them.
    fn keep_as_context(&mut self) {
        self.talk.keep_as_context();
        self.turn = None;
    }

    /// Remove the last turns: the user took them back. The line itself is none of a conversation.
    fn take_back(&mut self, event: &Value, counts: &mut LineCounts) -> ItemFate {
        let turns = event.get("num_turns").and_then(Value::as_u64).unwrap_or_default();
        let end = self.turns.len().saturating_sub(usize::try_from(turns).unwrap_or(usize::MAX));
        if let Some(start) = self.turns.drain(end..).next() {
            let whole = self.branches.is_some().then(|| self.talk.messages.clone());
            let removed = self.talk.cut(start.message, counts);
            let is_answered = removed.iter().any(|message| message.role.is_assistant());
            if let (Some(branches), Some(whole), true) = (&mut self.branches, whole, is_answered) {
                branches.push(whole);
            }
            counts.move_to_dropped(self.used - start.used, OTHER_BRANCH);
            self.used = start.used;
            self.turn = None;
        }
        Err(NO_CONVERSATION)
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

    fn item(&mut self, item: &Value, moment: &[u8], counts: &mut LineCounts) -> ItemFate {
        match text(item, "type") {
            Some("message") => return self.message(item, moment, counts),
            Some("reasoning") => {
                let parts = list(item, "summary").iter().chain(list(item, "content"));
                let turn = self.turn(moment);
                for part in parts {
                    join(&mut self.talk.messages[turn].reasoning, &quoted(part, "text"));
                }
            }
            Some("function_call") => {
                let arguments = arguments(item.get("arguments"));
                self.call(item, &quoted(item, "name"), &arguments, moment, counts);
            }
            Some("custom_tool_call") => {
                let arguments =
                    Map::from_iter([("input".to_owned(), item.get("input").cloned().unwrap_or_default())]);
                self.call(item, &quoted(item, "name"), &Value::Object(arguments).to_string(), moment, counts);
            }
            Some("local_shell_call") => {
                let arguments = arguments(item.get("action"));
                self.call(item, b"local_shell", &arguments, moment, counts);
            }
            Some("function_call_output" | "custom_tool_call_output" | "local_shell_call_output") => {
                return self.output(item, moment, counts);
            }
            Some("agent_message") => return self.agent_message(item, moment, counts),
            kind => {
                counts.leave_out(UNKNOWN_ITEM, kind.unwrap_or_default().as_bytes());
                return Err(NO_CONVERSATION);
            }
        }
        Ok(())
    }

    fn message(&mut self, item: &Value, moment: &[u8], counts: &mut LineCounts) -> ItemFate {
        let role = text(item, "role");
        let own = match own_content(item) {
            Err(reason) => {
                if reason == INTERRUPTION {
                    self.talk.interrupt();
                }
                self.has_begun |= role == Some("user");
                return Err(reason);
            }
            // Codex sets hooks' texts, and changes of its settings, between the turns.
            Ok(_) if matches!(role, Some("developer" | "system")) && self.has_begun => return Err(META),
            Ok(own) => own,
        };
        let left_out = list(item, "content").len().saturating_sub(own.as_array().map_or(0, Vec::len));
        counts.notes_of("injected_text", left_out as u64);
        let content = words(Some(&own), counts).ok_or(NO_TEXT)?;
        if content.is_empty() {
            return Err(EMPTY);
        }
        match role {
            Some("assistant") => {
                let turn = self.turn(moment);
                join(&mut self.talk.messages[turn].content, &content);
            }
            Some("user") => self.ask(&content, moment),
            Some("developer" | "system") => self.say(Role::System, &content, moment),
            _ => return Err(UNKNOWN_ROLE),
        }
        Ok(())
    }

    /// Read a message of another agent: a request if it is for this sub-agent, else a report on a call.
    fn agent_message(&mut self, item: &Value, moment: &[u8], counts: &mut LineCounts) -> ItemFate {
        let recipient = text(item, "recipient");
        let is_asked = self.parent.is_some() && (self.agent.is_none() || recipient == self.agent.as_deref());
        if !is_asked {
            self.turns.push(TurnStart { message: self.talk.messages.len(), used: self.used });
            return Err(META);
        }
        let content = words(item.get("content"), counts).ok_or(NO_TEXT)?;
        if content.is_empty() {
            return Err(EMPTY);
        }
        self.ask(&content, moment);
        Ok(())
    }

    fn ask(&mut self, content: &[u8], moment: &[u8]) {
        self.turns.push(TurnStart { message: self.talk.messages.len(), used: self.used });
        self.say(Role::User, content, moment);
        self.has_begun = true;
    }

    fn say(&mut self, role: Role, content: &[u8], moment: &[u8]) {
        self.talk.say(role, content, moment);
        self.turn = None;
    }

    /// Return the model's message in progress, or a new one.
    fn turn(&mut self, moment: &[u8]) -> usize {
        let next = self.talk.messages.len();
        let at = *self.turn.get_or_insert(next);
        self.has_begun = true;
        if at == next {
            self.talk.say(Role::Assistant, b"", moment).model.clone_from(&self.model);
        }
        at
    }

    fn call(&mut self, item: &Value, name: &[u8], arguments: &str, moment: &[u8], counts: &mut LineCounts) {
        let turn = self.turn(moment);
        self.talk.call(turn, &quoted(item, "call_id"), name, arguments.as_bytes(), counts);
    }

    fn output(&mut self, item: &Value, moment: &[u8], counts: &mut LineCounts) -> ItemFate {
        let id = quoted(item, "call_id");
        if !self.talk.waits(&id) {
            return Err("orphan_result");
        }
        let output = item.get("output").unwrap_or(&Value::Null);
        let (content, success) = result(output, counts);
        self.talk.answer(&id, &content, success, moment, counts);
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

/// Return the time in a UUID of version 7, in milliseconds since 1970.
fn minted_at(id: &str) -> Option<u64> {
    let digits: String = id.split('-').collect();
    let is_timed = digits.len() == 32 && digits.as_bytes()[12] == b'7';
    is_timed.then(|| u64::from_str_radix(digits.get(..12)?, 16).ok())?
}

/// Return the output of a tool, and whether it succeeded: by its own flag, or by the exit code of its
/// command.
fn result(output: &Value, counts: &mut LineCounts) -> (Vec<u8>, Option<bool>) {
    if let Some(inner) = output.get("content") {
        let success = output.get("success").and_then(Value::as_bool);
        return (words(Some(inner), counts).unwrap_or_default(), success);
    }
    let Some(whole) = output.as_str() else { return (words(Some(output), counts).unwrap_or_default(), None) };
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
