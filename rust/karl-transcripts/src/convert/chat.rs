//! Conversion of the messages of a record, in the forms used by trainers, to those of a trajectory.

use std::collections::VecDeque;

use karl_log::conversation::Flaw;
use karl_log::conversation::openai::{EXIT, THOUGHTS, is_filled};
use karl_log::conversation::results::{CALL_IDS, FreeIds, answered, tool_name};
use karl_log::conversation::turn::{BLOCKS, Turn, error_of, turns};
use karl_log::conversation::{RecordedTrajectory, offered};
use karl_log::json::reference_parser;
use serde_json::Value;

use super::json::{JsonTypes, LIST, OBJECT, TEXT, WORDS, check_at};
use super::json::{arguments, list, quoted, text};
use super::json::{escaped, join};
use super::message::{Conversation, Role};
use super::report::LineCounts;

/// Paths of a message with the expected types.
const WANTED: [(&str, JsonTypes); 6] = [
    ("", OBJECT),
    ("role", TEXT),
    ("content", WORDS),
    ("reasoning_content", WORDS),
    ("tool_calls", LIST),
    ("tool_call_id", TEXT),
];

/// Conversation while its messages are read.
#[derive(Default)]
pub(super) struct ChatMessages {
    pub(super) talk: Conversation,
    /// Ids of the calls of the model's last message: results without an id answer them.
    pending: Vec<Vec<u8>>,
    /// Number of the call that each result to come answers, of that message.
    answers: VecDeque<Option<usize>>,
    /// Ids for the calls that have none in the record.
    free_ids: FreeIds,
}

impl ChatMessages {
    /// Read all messages of a record; return the tools offered to the model.
    ///
    /// # Errors
    /// Flaw for which `sample` drops the record too.
    pub(super) fn add_message(
        &mut self,
        held: RecordedTrajectory,
        reasoning: &str,
        counts: &mut LineCounts,
    ) -> Result<Option<Value>, Flaw> {
        match held {
            RecordedTrajectory::Chat { system, messages, tools } => {
                let tools = tools.map_or(Ok(None), offered)?;
                self.messages(turns(system, messages, reasoning)?, counts)?;
                return Ok(tools);
            }
            RecordedTrajectory::Completion { prompt, completion } => {
                self.talk.say(Role::User, &escaped(&prompt), b"");
                self.talk.say(Role::Assistant, &escaped(&completion), b"");
            }
            RecordedTrajectory::Text(text) => drop(self.talk.say(Role::Assistant, &escaped(&text), b"")),
        }
        Ok(None)
    }

    /// Read a conversation. Invalid messages after the model's last turn are counted and left out: nothing is
    /// learned from them.
    fn messages(&mut self, turns: Vec<Turn>, counts: &mut LineCounts) -> Result<(), Flaw> {
        let last = turns.iter().rposition(|turn| turn.role == "assistant").unwrap_or(turns.len());
        let mut heard = Vec::with_capacity(turns.len());
        for (at, turn) in turns.into_iter().enumerate() {
            match turn.message {
                Ok(message) => heard.push((turn.role, turn.learned, Value::Object(message))),
                Err(_) if at > last => counts.note("bad_message"),
                Err(flaw) => return Err(flaw),
            }
        }
        self.free_ids = FreeIds::of(heard.iter().map(|(.., message)| message));
        for (at, (role, learned, message)) in heard.iter().enumerate() {
            if *role == "assistant" {
                let turn = heard[at + 1..].iter().take_while(|(role, ..)| *role != "assistant");
                let results = turn.filter(|(role, ..)| *role == "tool").map(|(.., result)| result);
                self.answers = answered(message, &results.collect::<Vec<_>>()).into();
            }
            self.message(role, *learned, message, counts);
        }
        Ok(())
    }

    fn message(&mut self, role: &str, learned: bool, message: &Value, counts: &mut LineCounts) {
        let (content, moment) = (quoted(message, "content"), quoted(message, "timestamp"));
        match role {
            EXIT => counts.note("exit_message"),
            "assistant" => self.turn(message, learned, &content, &moment, counts),
            "tool" => self.answer(message, &content, &moment, counts),
            role => {
                let role = if role == "system" { Role::System } else { Role::User };
                self.talk.say(role, &content, &moment).name = quoted(message, "name");
            }
        }
    }

    /// Add a message of the model.
    fn turn(
        &mut self,
        message: &Value,
        learned: bool,
        content: &[u8],
        moment: &[u8],
        counts: &mut LineCounts,
    ) {
        self.pending.clear();
        let at = self.talk.messages.len();
        let turn = self.talk.say(Role::Assistant, content, moment);
        turn.name = quoted(message, "name");
        turn.reasoning = thoughts(message);
        if turn.reasoning.is_empty() && BLOCKS.iter().any(|key| !list(message, key).is_empty()) {
            counts.note("unread_reasoning");
        }
        turn.unlearned = !learned;
        for call in list(message, "tool_calls") {
            self.call(at, call, counts);
        }
    }

    fn call(&mut self, at: usize, call: &Value, counts: &mut LineCounts) {
        let id = escaped(&self.free_ids.id_of(call));
        let function = call.get("function").unwrap_or(&Value::Null);
        self.pending.push(id.clone());
        let arguments = arguments(function.get("arguments"));
        self.talk.call(at, &id, &quoted(function, "name"), arguments.as_bytes(), counts);
    }

    /// Add the result of a call.
    fn answer(&mut self, message: &Value, content: &[u8], moment: &[u8], counts: &mut LineCounts) {
        let (id, success) = (self.answered(message, counts), success(message));
        if self.talk.waits(&id) {
            self.talk.answer(&id, content, success, moment, counts);
        } else {
            counts.note("orphan_result");
            self.talk.result(&id, content, success, moment);
        }
        if let Some(result) = self.talk.messages.last_mut() {
            result.name = escaped(tool_name(message));
            result.error = error_text(message).map(|error| escaped(&error)).unwrap_or_default();
        }
    }

    /// Return the id of the call that a result answers: the one it names, of any turn, else that of
    /// [`answered`]. Empty if there is none.
    fn answered(&mut self, message: &Value, counts: &mut LineCounts) -> Vec<u8> {
        let call = self.answers.pop_front().flatten();
        let named = CALL_IDS.iter().map(|key| quoted(message, key)).find(|id| !id.is_empty());
        if let Some(id) = named {
            return id;
        }
        let several = list(message, "tool_call_ids");
        if several.len() > 1 {
            counts.note("several_calls_of_a_result");
        }
        // tau2 has the id of the call as that of the message; other tools number their messages.
        let own = several.iter().filter_map(Value::as_str).chain(text(message, "id")).map(escaped);
        own.into_iter()
            .find(|id| self.talk.waits(id))
            .or_else(|| self.pending.get(call?).cloned())
            .unwrap_or_default()
    }
}

/// Return whether a call succeeded, as its result says: `success`, or its opposite under the names of
/// Anthropic, MCP, `LangChain` and tau2.
fn success(message: &Value) -> Option<bool> {
    let flag = |key: &str| message.get(key).and_then(Value::as_bool);
    let failed = ["is_error", "isError", "error"].iter().find_map(|key| flag(key));
    let status = || match text(message, "status")? {
        "success" => Some(true),
        "error" => Some(false),
        _ => None,
    };
    let error = || message.get("error").is_some_and(is_filled).then_some(false);
    flag("success").or(failed.map(|failed| !failed)).or_else(error).or_else(status)
}

/// Return the text of the error of a call, if the text of its result does not hold it.
fn error_text(message: &Value) -> Option<String> {
    let error = message.get("error").and_then(error_of)?;
    let held = text(message, "content").is_some_and(|content| content.contains(&error));
    (!held).then_some(error)
}

/// Return the reasoning of a message; several different texts are joined on lines of their own.
fn thoughts(message: &Value) -> Vec<u8> {
    let (mut all, mut joined) = (Vec::new(), Vec::new());
    for thought in THOUGHTS.iter().filter_map(|key| text(message, key)) {
        if !all.contains(&thought) {
            all.push(thought);
            join(&mut joined, &escaped(thought));
        }
    }
    joined
}

/// Count values of unexpected types in messages; a list may be given as its JSON text.
pub(super) fn expect(messages: &Value, place: &str, counts: &mut LineCounts) {
    let parsed = messages.as_str().and_then(|text| reference_parser::parse(text.as_bytes()).ok());
    let messages = parsed.as_ref().unwrap_or(messages).as_array();
    for (at, message) in messages.into_iter().flatten().enumerate() {
        check_at(format!("{place}[{at}]"), message, &WANTED, counts);
    }
}
