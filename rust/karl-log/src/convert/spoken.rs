//! The messages of a record in the forms that trainers know, to those of a trajectory.

use std::collections::{HashSet, VecDeque};

use serde_json::Value;

use super::json::{escaped, join};
use super::message::{Conversation, Role};
use super::report::Made;
use super::sort::{LIST, OBJECT, TEXT, WORDS, Wanted, check_at, is_mistyped};
use super::values::{arguments, quoted, text, words};
use crate::emit::example::{Held, joined, offered};
use crate::emit::openai;
use crate::format::{Field, Fields};

/// What a message has where.
const WANTED: [(&str, Wanted); 6] = [
    ("", OBJECT),
    ("role", TEXT),
    ("content", WORDS),
    ("reasoning_content", TEXT),
    ("tool_calls", LIST),
    ("tool_call_id", TEXT),
];

/// A conversation while its messages are heard.
pub(super) struct Spoken {
    pub(super) talk: Conversation,
    /// Where a message may keep its words when it has no content.
    reasoning: &'static str,
    /// Calls of the last message of the model that have no id and wait for their result: they are answered in their order.
    nameless: VecDeque<Vec<u8>>,
    /// The ids that calls have of themselves.
    given: HashSet<Vec<u8>>,
    calls: usize,
}

impl Spoken {
    pub(super) fn new(reasoning: &'static str) -> Self {
        Self {
            talk: Conversation::default(),
            reasoning,
            nameless: VecDeque::new(),
            given: HashSet::new(),
            calls: 0,
        }
    }

    /// Takes all that a record holds; the tools that the model was offered.
    pub(super) fn hear(&mut self, held: Held, fields: &Fields, made: &mut Made) -> Option<Value> {
        match held {
            Held::Chat { messages, tools } => {
                expect(&messages, &place(fields.messages.as_ref()), made);
                self.messages(messages, made);
                return tools.and_then(offered);
            }
            Held::Halves { prompt: Value::String(prompt), completion: Value::String(completion), .. } => {
                self.talk.say(Role::User, &escaped(&prompt), b"");
                self.talk.say(Role::Assistant, &escaped(&completion), b"");
            }
            Held::Halves { prompt, completion, tools } => {
                half(&prompt, &place(fields.prompt.as_ref()), made);
                half(&completion, &place(fields.completion.as_ref()), made);
                self.messages(joined(prompt, completion), made);
                return tools.and_then(offered);
            }
            Held::Text(text) => drop(self.talk.say(Role::Assistant, &escaped(&text), b"")),
        }
        None
    }

    fn messages(&mut self, mut messages: Vec<Value>, made: &mut Made) {
        let calls: Vec<_> = messages.iter_mut().map(calls).collect();
        self.given = calls.iter().flatten().flatten().map(|call| quoted(call, "id")).collect();
        for (message, calls) in messages.iter().zip(&calls) {
            self.message(message, calls, made);
        }
    }

    fn message(&mut self, message: &Value, calls: &[Option<Value>], made: &mut Made) {
        let (content, moment) = (words(message.get("content"), made), quoted(message, "timestamp"));
        match text(message, "role") {
            Some("assistant") => self.turn(message, calls, content, &moment, made),
            Some("tool" | "function") => self.answer(message, &content, &moment, made),
            Some("system" | "developer") => drop(self.talk.say(Role::System, &content, &moment)),
            Some("user") => drop(self.talk.say(Role::User, &content, &moment)),
            _ => made.note("unknown_role"),
        }
    }

    /// A message of the model.
    fn turn(
        &mut self,
        message: &Value,
        calls: &[Option<Value>],
        mut content: Vec<u8>,
        moment: &[u8],
        made: &mut Made,
    ) {
        self.nameless.clear();
        let at = self.talk.messages.len();
        let mut thought = quoted(message, "reasoning_content");
        if content.is_empty() && calls.is_empty() && !self.reasoning.is_empty() {
            join(&mut content, &std::mem::take(&mut thought));
        }
        self.talk.say(Role::Assistant, &content, moment).reasoning = thought;
        for call in calls {
            match call {
                Some(call) => self.call(at, call),
                None => made.note("unknown_block"),
            }
        }
    }

    fn call(&mut self, at: usize, call: &Value) {
        self.calls += 1;
        let mut id = quoted(call, "id");
        if id.is_empty() {
            id = self.free();
            self.nameless.push_back(id.clone());
        }
        let function = call.get("function").unwrap_or(&Value::Null);
        let arguments = arguments(function.get("arguments"));
        self.talk.call(at, &id, &quoted(function, "name"), arguments.as_bytes());
    }

    /// The id of a call that has none: its number, or the next that no other call has.
    fn free(&mut self) -> Vec<u8> {
        loop {
            let id = format!("call_{}", self.calls).into_bytes();
            if !self.given.contains(&id) {
                return id;
            }
            self.calls += 1;
        }
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

/// The calls of a message, out of which they are taken; none in the place of what is no call.
fn calls(message: &mut Value) -> Vec<Option<Value>> {
    let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
    calls.into_iter().flatten().map(|call| openai::call(call.take())).collect()
}

/// Where a record has a field.
fn place(field: Option<&Field>) -> String {
    let first = field.into_iter().flat_map(Field::choices).next();
    first.map(|choice| choice.path.to_string()).unwrap_or_default()
}

/// Counts what is of another sort than a prompt or a completion that is no text alone has there.
fn half(value: &Value, place: &str, made: &mut Made) {
    match value {
        Value::Array(messages) => expect(messages, place, made),
        other => drop(is_mistyped(Some(other), WORDS, place, made)),
    }
}

/// Counts what is of another sort than messages have there.
fn expect(messages: &[Value], place: &str, made: &mut Made) {
    for (at, message) in messages.iter().enumerate() {
        check_at(format!("{place}[{at}]"), message, &WANTED, made);
    }
}
