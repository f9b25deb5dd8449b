//! The messages of a trajectory while they are put together, in pieces of JSON text.

use std::collections::HashMap;

use super::json::escape;
use super::report::Made;

/// Who speaks.
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

/// One message. Texts are the insides of JSON strings.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) role: Role,
    pub(super) content: Vec<u8>,
    pub(super) reasoning: Vec<u8>,
    pub(super) model: Vec<u8>,
    pub(super) timestamp: Vec<u8>,
    /// Whether the log says that a trainer is not to learn it.
    pub(super) unlearned: bool,
    /// How many calls of tools it holds, and their objects with commas between them.
    pub(super) calls: usize,
    written_calls: Vec<u8>,
    answer: Option<Answer>,
}

/// What makes a message the result of a call.
#[derive(Debug)]
struct Answer {
    call: Vec<u8>,
    name: Vec<u8>,
    success: Option<bool>,
}

impl Message {
    pub(super) fn new(role: Role, content: &[u8], timestamp: &[u8]) -> Self {
        Self {
            role,
            content: content.to_vec(),
            reasoning: Vec::new(),
            model: Vec::new(),
            timestamp: timestamp.to_vec(),
            unlearned: false,
            calls: 0,
            written_calls: Vec::new(),
            answer: None,
        }
    }

    /// Whether it holds a text, a thought or a call.
    fn says(&self) -> bool {
        !self.content.is_empty() || !self.reasoning.is_empty() || self.calls > 0
    }

    /// Adds a call of a tool; `arguments` is a JSON value, which is written as the text that it is.
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

    /// Writes it as an object; its model too where that is not the trajectory's.
    pub(super) fn write(&self, model: &[u8], out: &mut Vec<u8>) {
        let mut field = |key: &str, text: &[u8]| {
            out.extend_from_slice(key.as_bytes());
            out.extend_from_slice(text);
            out.push(b'"');
        };
        field("{\"role\":\"", self.role.name().as_bytes());
        if let Some(answer) = &self.answer {
            let known = [(",\"tool_call_id\":\"", &answer.call), (",\"name\":\"", &answer.name)];
            known.iter().filter(|(_, text)| !text.is_empty()).for_each(|(key, text)| field(key, text));
        }
        field(",\"content\":\"", &self.content);
        for (key, text) in
            [(",\"reasoning_content\":\"", &self.reasoning), (",\"timestamp\":\"", &self.timestamp)]
        {
            if !text.is_empty() {
                field(key, text);
            }
        }
        if !self.model.is_empty() && self.model != model {
            field(",\"model\":\"", &self.model);
        }
        if self.unlearned {
            out.extend_from_slice(b",\"weight\":0");
        }
        if self.calls > 0 {
            out.extend_from_slice(b",\"tool_calls\":[");
            out.extend_from_slice(&self.written_calls);
            out.push(b']');
        }
        if let Some(answer) = &self.answer {
            out.extend_from_slice(b",\"success\":");
            out.extend_from_slice(said(answer.success).as_bytes());
        }
        out.push(b'}');
    }
}

fn said(success: Option<bool>) -> &'static str {
    match success {
        Some(true) => "true",
        Some(false) => "false",
        None => "null",
    }
}

/// A call of a tool.
#[derive(Debug)]
struct Call {
    name: Vec<u8>,
    /// The message that it is in.
    at: usize,
    answered: bool,
}

/// The messages of one trajectory in their order, with the calls that wait for their results.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    pub(super) messages: Vec<Message>,
    /// The last call of each id.
    calls: HashMap<Vec<u8>, Call>,
    /// Where the message lies that has this key.
    keyed: HashMap<u64, usize>,
}

impl Conversation {
    /// Adds a message.
    pub(super) fn say(&mut self, role: Role, content: &[u8], timestamp: &[u8]) -> &mut Message {
        let at = self.messages.len();
        self.messages.push(Message::new(role, content, timestamp));
        &mut self.messages[at]
    }

    /// The place of the model's message of that key: several lines make one message.
    pub(super) fn turn(&mut self, key: u64, timestamp: &[u8]) -> usize {
        *self.keyed.entry(key).or_insert_with(|| {
            self.messages.push(Message::new(Role::Assistant, b"", timestamp));
            self.messages.len() - 1
        })
    }

    /// Adds a call of a tool to the message at `at`, which does not hold it yet. Some tools use an id again once its call
    /// is answered. A call that names no tool is counted and left out.
    pub(super) fn call(&mut self, at: usize, id: &[u8], name: &[u8], arguments: &[u8], made: &mut Made) {
        if name.is_empty() {
            return made.note("call_without_name");
        }
        let known = self.calls.get(id).is_some_and(|call| !call.answered || call.at == at);
        if let (false, Some(message)) = (known, self.messages.get_mut(at)) {
            message.call(id, name, arguments);
            self.calls.insert(id.to_vec(), Call { name: name.to_vec(), at, answered: false });
        }
    }

    /// Whether a call of that id waits for its result.
    pub(super) fn waits(&self, id: &[u8]) -> bool {
        self.calls.get(id).is_some_and(|call| !call.answered)
    }

    /// Adds the result of a call that waits for one.
    pub(super) fn answer(
        &mut self,
        id: &[u8],
        content: &[u8],
        success: Option<bool>,
        timestamp: &[u8],
        made: &mut Made,
    ) {
        let Some(call) = self.calls.get_mut(id) else { return };
        call.answered = true;
        let answer = Answer { call: id.to_vec(), name: call.name.clone(), success };
        let told = match success {
            Some(true) => "succeeded",
            Some(false) => "failed",
            None => "unknown",
        };
        *made.calls.entry(told).or_default() += 1;
        self.say(Role::Tool, content, timestamp).answer = Some(answer);
    }

    /// Adds a result that no call waits for: what it says stays in the conversation.
    pub(super) fn result(&mut self, id: &[u8], content: &[u8], success: Option<bool>, timestamp: &[u8]) {
        let answer = Answer { call: id.to_vec(), name: Vec::new(), success };
        self.say(Role::Tool, content, timestamp).answer = Some(answer);
    }

    /// How many calls wait for their result.
    pub(super) fn unanswered(&self) -> u64 {
        self.calls.values().filter(|call| !call.answered).count() as u64
    }

    /// Removes messages of the model that say nothing: blocks that are not read may have been all of them.
    pub(super) fn finish(&mut self, made: &mut Made) {
        let before = self.messages.len();
        self.messages.retain(|message| !message.role.is_assistant() || message.says());
        made.notes_of("empty_message", (before - self.messages.len()) as u64);
    }
}
