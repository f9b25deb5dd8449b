//! The messages of a record in the forms that trainers know, to those of a trajectory.

use std::collections::VecDeque;

use serde_json::Value;

use super::json::{escaped, join};
use super::message::{Conversation, Role};
use super::report::Made;
use super::sort::{LIST, OBJECT, TEXT, WORDS, Wanted, check};
use super::values::{arguments, list, quoted, text, words};
use crate::emit::Example;
use crate::emit::example::offered;
use crate::emit::openai;

/// What a list of messages has where.
const WANTED: [(&str, Wanted); 6] = [
    ("[]", OBJECT),
    ("[].role", TEXT),
    ("[].content", WORDS),
    ("[].reasoning_content", TEXT),
    ("[].tool_calls", LIST),
    ("[].tool_call_id", TEXT),
];

/// A conversation while its messages are heard.
pub(super) struct Spoken {
    pub(super) talk: Conversation,
    /// Where a message may keep its words when it has no content.
    reasoning: &'static str,
    /// Calls that have no id and wait for their result: they are answered in their order.
    nameless: VecDeque<Vec<u8>>,
    calls: usize,
}

impl Spoken {
    pub(super) fn new(reasoning: &'static str) -> Self {
        Self { talk: Conversation::default(), reasoning, nameless: VecDeque::new(), calls: 0 }
    }

    /// Takes all that a record holds; the tools that the model was offered.
    pub(super) fn hear(&mut self, held: Example, made: &mut Made) -> Option<Value> {
        match held {
            Example::Chat { messages, tools } => {
                let messages = Value::Array(messages);
                check(&messages, &WANTED, made);
                messages.as_array().into_iter().flatten().for_each(|message| self.message(message, made));
                return tools.and_then(offered);
            }
            Example::Completion { prompt, completion } => {
                self.talk.say(Role::User, &escaped(&prompt), b"");
                self.talk.say(Role::Assistant, &escaped(&completion), b"");
            }
            Example::Text(text) => drop(self.talk.say(Role::Assistant, &escaped(&text), b"")),
        }
        None
    }

    fn message(&mut self, message: &Value, made: &mut Made) {
        let (content, moment) = (words(message.get("content"), made), quoted(message, "timestamp"));
        match text(message, "role") {
            Some("assistant") => self.turn(message, content, &moment, made),
            Some("tool" | "function") => self.answer(message, &content, &moment, made),
            Some("system" | "developer") => drop(self.talk.say(Role::System, &content, &moment)),
            Some("user") => drop(self.talk.say(Role::User, &content, &moment)),
            _ => made.note("unknown_role"),
        }
    }

    /// A message of the model.
    fn turn(&mut self, message: &Value, mut content: Vec<u8>, moment: &[u8], made: &mut Made) {
        let (at, calls) = (self.talk.messages.len(), list(message, "tool_calls"));
        let mut thought = quoted(message, "reasoning_content");
        if content.is_empty() && calls.is_empty() && !self.reasoning.is_empty() {
            join(&mut content, &std::mem::take(&mut thought));
        }
        self.talk.say(Role::Assistant, &content, moment).reasoning = thought;
        for call in calls {
            match openai::call(call.clone()) {
                Some(call) => self.call(at, &call),
                None => made.note("unknown_block"),
            }
        }
    }

    fn call(&mut self, at: usize, call: &Value) {
        self.calls += 1;
        let mut id = quoted(call, "id");
        if id.is_empty() {
            id = format!("call_{}", self.calls).into_bytes();
            self.nameless.push_back(id.clone());
        }
        let function = call.get("function").unwrap_or(&Value::Null);
        let arguments = arguments(function.get("arguments"));
        self.talk.call(at, &id, &quoted(function, "name"), arguments.as_bytes());
    }

    /// The result of a call.
    fn answer(&mut self, message: &Value, content: &[u8], moment: &[u8], made: &mut Made) {
        let mut id = quoted(message, "tool_call_id");
        if id.is_empty() {
            id = self.nameless.pop_front().unwrap_or_default();
        }
        let success = message.get("success").and_then(Value::as_bool);
        if self.talk.waits(&id) {
            self.talk.answer(&id, content, success, moment, made);
        } else {
            made.note("orphan_result");
        }
    }
}
