//! Messages of a trajectory under construction, as JSON text.

use std::collections::HashMap;

use super::json::escape;
use super::report::LineCounts;

/// Speaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    System,
    User,
    Assistant,
    Tool,
}

impl Role {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

    pub(super) fn is_assistant(self) -> bool {
        self == Self::Assistant
    }
}

/// One message. Texts are the contents of JSON strings.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) role: Role,
    pub(super) content: Vec<u8>,
    pub(super) reasoning: Vec<u8>,
    pub(super) model: Vec<u8>,
    pub(super) timestamp: Vec<u8>,
    /// Name of the speaker, if the log names one.
    pub(super) name: Vec<u8>,
    /// Error of a call beside the text of its result.
    pub(super) error: Vec<u8>,
    /// True if the log excludes it from training.
    pub(super) unlearned: bool,
    /// Sender, if it is in the user's name and the user did not type it: `command`, `channel`, `peer`.
    pub(super) origin: Vec<u8>,
    end: MessageEnd,
    /// Number of tool calls, and their objects separated by commas.
    pub(super) calls: usize,
    written_calls: Vec<u8>,
    answer: Option<Answer>,
}

/// What is known of the end of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageEnd {
    Unknown,
    /// The log says why the model stopped.
    Whole,
    /// The user stopped the model after it.
    Interrupted,
    /// The connection broke inside it.
    Cut,
}

/// Fields of a message that is the result of a call.
#[derive(Clone, Debug)]
struct Answer {
    call: Vec<u8>,
    name: Vec<u8>,
    success: Option<bool>,
}

impl Answer {
    /// Return the name under which its call is counted.
    fn outcome(&self) -> &'static str {
        match self.success {
            Some(true) => "succeeded",
            Some(false) => "failed",
            None => "unknown",
        }
    }
}

impl Message {
    pub(super) fn new(role: Role, content: &[u8], timestamp: &[u8]) -> Self {
        Self {
            role,
            content: content.to_vec(),
            reasoning: Vec::new(),
            model: Vec::new(),
            timestamp: timestamp.to_vec(),
            name: Vec::new(),
            error: Vec::new(),
            unlearned: false,
            origin: Vec::new(),
            end: MessageEnd::Unknown,
            calls: 0,
            written_calls: Vec::new(),
            answer: None,
        }
    }

    /// Return whether it has a text, reasoning or a call.
    fn says(&self) -> bool {
        !self.content.is_empty() || !self.reasoning.is_empty() || self.calls > 0
    }

    /// Add a tool call; `arguments` is a JSON value, which is written as a string.
    fn call(&mut self, id: &[u8], name: &[u8], arguments: &[u8]) {
        let out = &mut self.written_calls;
        out.extend_from_slice(if self.calls == 0 { b"{\"id\":\"" } else { b",{\"id\":\"" });
        out.extend_from_slice(id);
        out.extend_from_slice(b"\",\"type\":\"function\",\"function\":{\"name\":\"");
        out.extend_from_slice(name);
        out.extend_from_slice(b"\",\"arguments\":\"");
        escape(arguments, out);
        out.extend_from_slice(b"\"}}");
        self.calls += 1;
    }

    /// Write it as an object, with its model if that differs from the trajectory's.
    pub(super) fn write(&self, model: &[u8], out: &mut Vec<u8>) {
        let mut field = |key: &str, text: &[u8]| {
            out.extend_from_slice(key.as_bytes());
            out.extend_from_slice(text);
            out.push(b'"');
        };
        field("{\"role\":\"", self.role.name().as_bytes());
        let (call, called) =
            self.answer.as_ref().map_or((&[][..], &[][..]), |answer| (&answer.call, &answer.name));
        let name = if called.is_empty() { &self.name } else { called };
        for (key, text) in [(",\"tool_call_id\":\"", call), (",\"name\":\"", name)] {
            if !text.is_empty() {
                field(key, text);
            }
        }
        field(",\"content\":\"", &self.content);
        for (key, text) in [
            (",\"error\":\"", &self.error),
            (",\"reasoning_content\":\"", &self.reasoning),
            (",\"timestamp\":\"", &self.timestamp),
        ] {
            if !text.is_empty() {
                field(key, text);
            }
        }
        if !self.model.is_empty() && self.model != model {
            field(",\"model\":\"", &self.model);
        }
        if !self.origin.is_empty() {
            field(",\"origin\":\"", &self.origin);
        }
        if self.unlearned {
            out.extend_from_slice(b",\"weight\":0");
        }
        if self.end == MessageEnd::Interrupted {
            out.extend_from_slice(b",\"interrupted\":true");
        }
        if self.end == MessageEnd::Cut {
            out.extend_from_slice(b",\"cut\":true");
        }
        if self.calls > 0 {
            out.extend_from_slice(b",\"tool_calls\":[");
            out.extend_from_slice(&self.written_calls);
            out.push(b']');
        }
        if let Some(answer) = &self.answer {
            out.extend_from_slice(b",\"success\":");
            out.extend_from_slice(json_bool(answer.success).as_bytes());
        }
        out.push(b'}');
    }
}

fn json_bool(success: Option<bool>) -> &'static str {
    match success {
        Some(true) => "true",
        Some(false) => "false",
        None => "null",
    }
}

/// Tool call.
#[derive(Debug)]
struct Call {
    name: Vec<u8>,
    /// Message that contains it.
    at: usize,
    answered: bool,
}

/// Messages of one trajectory in order, with the pending calls.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    pub(super) messages: Vec<Message>,
    /// Last call of each id.
    calls: HashMap<Vec<u8>, Call>,
    /// Index of the message with this key.
    keyed: HashMap<u64, usize>,
    /// Prompts that the model reads before its next message: results of its calls may come first.
    queued: Vec<Message>,
}

/// What follows a message of the model in its conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Following {
    Nothing,
    /// Results of tools alone.
    Results,
    /// Another message.
    Message,
}

impl Conversation {
    /// Add a message.
    pub(super) fn say(&mut self, role: Role, content: &[u8], timestamp: &[u8]) -> &mut Message {
        if role == Role::User {
            self.messages.append(&mut self.queued);
        }
        let at = self.messages.len();
        self.messages.push(Message::new(role, content, timestamp));
        &mut self.messages[at]
    }

    /// Add a prompt of the user before the model's next message.
    pub(super) fn queue(&mut self, content: &[u8], timestamp: &[u8]) -> &mut Message {
        let at = self.queued.len();
        self.queued.push(Message::new(Role::User, content, timestamp));
        &mut self.queued[at]
    }

    /// Remove a queued prompt with this text; return whether there was one.
    pub(super) fn unqueue(&mut self, content: &[u8]) -> bool {
        let at = self.queued.iter().position(|message| message.content == content);
        at.map(|at| self.queued.remove(at)).is_some()
    }

    /// Note that the model's message with that key is whole.
    pub(super) fn end(&mut self, key: u64) {
        if let Some(message) = self.keyed.get(&key).and_then(|&at| self.messages.get_mut(at)) {
            message.end = MessageEnd::Whole;
        }
    }

    /// Mark the last message, if it is the model's and not whole: the connection broke inside it, and what the model was about to
    /// say is not known.
    pub(super) fn note_lost_connection(&mut self) {
        if let Some(last) = self.messages.last_mut()
            && last.role.is_assistant()
            && last.end == MessageEnd::Unknown
        {
            last.end = MessageEnd::Cut;
            last.unlearned = true;
        }
    }

    /// Return what follows the model's message with that key; `None` if there is no such message.
    pub(super) fn following(&self, key: u64) -> Option<Following> {
        let later = &self.messages[*self.keyed.get(&key)? + 1..];
        Some(match later {
            [] => Following::Nothing,
            later if later.iter().all(|message| message.role == Role::Tool) => Following::Results,
            _ => Following::Message,
        })
    }

    /// Begin a new message at the next line with that key.
    pub(super) fn close(&mut self, key: u64) {
        self.keyed.remove(&key);
    }

    /// Mark the last message: the user stopped the model after it.
    pub(super) fn interrupt(&mut self) {
        if let Some(last) = self.messages.last_mut() {
            last.end = MessageEnd::Interrupted;
        }
    }

    /// Return the index of the model's message with that key: several lines make one message.
    pub(super) fn turn(&mut self, key: u64, timestamp: &[u8]) -> usize {
        *self.keyed.entry(key).or_insert_with(|| {
            self.messages.append(&mut self.queued);
            self.messages.push(Message::new(Role::Assistant, b"", timestamp));
            self.messages.len() - 1
        })
    }

    /// Add a tool call to the message at `at`, unless it is there already. Some tools reuse an id once its
    /// call is answered. A call without a tool name is counted and left out.
    pub(super) fn call(
        &mut self,
        at: usize,
        id: &[u8],
        name: &[u8],
        arguments: &[u8],
        counts: &mut LineCounts,
    ) {
        if name.is_empty() {
            return counts.note("call_without_name");
        }
        let known = self.calls.get(id).is_some_and(|call| !call.answered || call.at == at);
        if let (false, Some(message)) = (known, self.messages.get_mut(at)) {
            message.call(id, name, arguments);
            self.calls.insert(id.to_vec(), Call { name: name.to_vec(), at, answered: false });
        }
    }

    /// Return whether a call of that id is pending.
    pub(super) fn waits(&self, id: &[u8]) -> bool {
        self.calls.get(id).is_some_and(|call| !call.answered)
    }

    /// Add the result of a pending call.
    pub(super) fn answer(
        &mut self,
        id: &[u8],
        content: &[u8],
        success: Option<bool>,
        timestamp: &[u8],
        counts: &mut LineCounts,
    ) {
        let Some(call) = self.calls.get_mut(id) else { return };
        call.answered = true;
        let answer = Answer { call: id.to_vec(), name: call.name.clone(), success };
        *counts.calls.entry(answer.outcome()).or_default() += 1;
        self.say(Role::Tool, content, timestamp).answer = Some(answer);
    }

    /// Add a result without a pending call: its text stays in the conversation.
    pub(super) fn result(&mut self, id: &[u8], content: &[u8], success: Option<bool>, timestamp: &[u8]) {
        let answer = Answer { call: id.to_vec(), name: Vec::new(), success };
        self.say(Role::Tool, content, timestamp).answer = Some(answer);
    }

    /// Remove the messages from an index on, with their calls; return them.
    pub(super) fn cut(&mut self, at: usize, counts: &mut LineCounts) -> Vec<Message> {
        let removed = self.messages.split_off(at.min(self.messages.len()));
        self.calls.retain(|_, call| call.at < at);
        self.keyed.retain(|_, message| *message < at);
        for answer in removed.iter().filter_map(|message| message.answer.as_ref()) {
            if answer.name.is_empty() {
                continue;
            }
            if let Some(count) = counts.calls.get_mut(answer.outcome()) {
                *count = count.saturating_sub(1);
            }
            if let Some(call) = self.calls.get_mut(&answer.call) {
                call.answered = false;
            }
        }
        counts.calls.retain(|_, count| *count > 0);
        removed
    }

    /// Exclude the model's messages so far from training: they are the context of what follows.
    pub(super) fn keep_as_context(&mut self) {
        let own = self.messages.iter_mut().filter(|message| message.role.is_assistant());
        own.for_each(|message| message.unlearned = true);
    }

    /// Return the ids of all calls.
    pub(super) fn call_ids(&self) -> impl Iterator<Item = &[u8]> {
        self.calls.keys().map(Vec::as_slice)
    }

    /// Return the number of pending calls.
    pub(super) fn unanswered(&self) -> u64 {
        self.calls.values().filter(|call| !call.answered).count() as u64
    }

    /// Leave the last message out of training: it is learned where it was said first.
    pub(super) fn inherit(&mut self) {
        if let Some(last) = self.messages.last_mut().filter(|last| last.role.is_assistant()) {
            last.unlearned = true;
        }
    }

    /// Remove empty messages of the model: all of their blocks may be unsupported.
    pub(super) fn finish(&mut self, counts: &mut LineCounts) {
        self.messages.append(&mut self.queued);
        let before = self.messages.len();
        self.messages.retain(|message| !message.role.is_assistant() || message.says());
        counts.notes_of("empty_message", (before - self.messages.len()) as u64);
    }
}
