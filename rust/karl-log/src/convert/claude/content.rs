//! Message blocks of Anthropic's API in transcripts.

use std::collections::HashMap;

use super::line::ClaudeLine;
use super::row::{Row, hash};
use super::user_text::{said, words_of};
use crate::convert::json::{inside, join};
use crate::convert::json_type::{FLAG, NUMBER, TEXT, WORDS, expect};
use crate::convert::lines::ObjectKeys;
use crate::convert::message::{Conversation, Role};
use crate::convert::record::Tokens;
use crate::convert::report::{DAMAGED, EMPTY, INTERRUPTION, Made, NO_TEXT, OTHER_BRANCH, UNKNOWN_BLOCK};
use crate::json::elements::elements;

/// Tools that call sub-agents, under all their names.
const CALLERS: [&[u8]; 2] = [b"Task", b"Agent"];

/// One thread while its lines are read.
pub(super) struct ClaudeConversation {
    pub(super) conversation: Conversation,
    /// Call that a sub-agent works for: by the sub-agent's name, and by its prompt.
    pub(super) agents: HashMap<u64, Vec<u8>>,
    pub(super) prompts: HashMap<u64, Vec<u8>>,
    /// First prompt, by a user or by the caller of a sub-agent.
    pub(super) asked: Option<u64>,
    usage: HashMap<u64, [Option<u64>; 4]>,
    message: ObjectKeys,
    block: ObjectKeys,
    input: ObjectKeys,
}

impl ClaudeConversation {
    pub(super) fn new() -> Self {
        let keys = ["content", "model", "usage.input_tokens", "usage.cache_creation_input_tokens"];
        Self {
            conversation: Conversation::default(),
            agents: HashMap::new(),
            prompts: HashMap::new(),
            asked: None,
            usage: HashMap::new(),
            message: ObjectKeys::new(
                &[&keys[..], &["usage.cache_read_input_tokens", "usage.output_tokens"]].concat(),
            ),
            block: ObjectKeys::new(&[
                "type",
                "text",
                "thinking",
                "id",
                "name",
                "input",
                "tool_use_id",
                "content",
                "is_error",
            ]),
            input: ObjectKeys::new(&["prompt"]),
        }
    }

    /// Return the tokens of all messages; of a message with differing lines, the maximum.
    pub(super) fn tokens(&self) -> Tokens {
        let mut sums = [None; 4];
        for counts in self.usage.values() {
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum = sum.or(count.map(|_| 0)).map(|sum: u64| sum.saturating_add(count.unwrap_or_default()));
            }
        }
        let [input, cache_creation, cache_read, output] = sums;
        Tokens { input, cache_creation, cache_read, output }
    }

    /// Read a line of the model's message; return the reason if nothing of it is used.
    pub(super) fn assistant(
        &mut self,
        row: &Row,
        line: &ClaudeLine<'_>,
        made: &mut Made,
    ) -> Result<(), &'static str> {
        let message = line.message(made)?;
        let [content, model, counts @ ..]: [Option<&[u8]>; 6] = self.message.of(message).ok_or(DAMAGED)?;
        expect(content, WORDS, "message.content", made);
        expect(model, TEXT, "message.model", made);
        for count in counts {
            expect(count, NUMBER, "message.usage", made);
        }
        let content = content.ok_or(EMPTY)?;
        let key = if row.message == 0 { row.id } else { row.message };
        let at = self.conversation.turn(key, line.timestamp);
        self.count(key, counts);
        if let Some(message) = self.conversation.messages.get_mut(at) {
            message.model = model.map_or(&b""[..], inside).to_vec();
            join(&mut message.content, inside(content));
        }
        for block in elements(content) {
            self.speak(at, block, made);
        }
        Ok(())
    }

    fn count(&mut self, key: u64, counts: [Option<&[u8]>; 4]) {
        let most = self.usage.entry(key).or_default();
        for (most, count) in most.iter_mut().zip(counts) {
            let count = count.and_then(|count| std::str::from_utf8(count).ok()?.parse().ok());
            *most = (*most).max(count);
        }
    }

    /// Add a block to the model's message at `at`.
    fn speak(&mut self, at: usize, block: &[u8], made: &mut Made) {
        let Some(found) = self.block.of(block) else { return made.leave_out(UNKNOWN_BLOCK, b"") };
        let [kind, text, thinking, id, name, input, ..]: [Option<&[u8]>; 9] = found;
        for (field, raw) in
            [("type", kind), ("text", text), ("thinking", thinking), ("id", id), ("name", name)]
        {
            expect(raw, TEXT, field, made);
        }
        let of = |raw: Option<&'_ [u8]>| raw.map_or_else(Vec::new, |raw| inside(raw).to_vec());
        let message = self.conversation.messages.get_mut(at);
        match (kind.map(inside), message) {
            (Some(b"text"), Some(message)) if text.is_some() => join(&mut message.content, &of(text)),
            (Some(b"thinking"), Some(message)) if thinking.is_some() => {
                join(&mut message.reasoning, &of(thinking));
            }
            (Some(b"tool_use" | b"server_tool_use" | b"mcp_tool_use"), _) if input.is_some() => {
                self.call(at, of(id), &of(name), input.unwrap_or_default(), made);
            }
            (kind, _) => made.leave_out(UNKNOWN_BLOCK, kind.unwrap_or_default()),
        }
    }

    fn call(&mut self, at: usize, id: Vec<u8>, name: &[u8], input: &[u8], made: &mut Made) {
        self.conversation.call(at, &id, name, input, made);
        if CALLERS.contains(&name)
            && let Some([Some(prompt)]) = self.input.of(input)
        {
            self.prompts.insert(hash(inside(prompt)), id);
        }
    }

    /// Read a user's line: a prompt, if the line is on the branch, and results of pending calls.
    pub(super) fn user(
        &mut self,
        line: &ClaudeLine<'_>,
        on_branch: bool,
        made: &mut Made,
    ) -> Result<(), &'static str> {
        let message = line.message(made)?;
        let [content, ..]: [Option<&[u8]>; 6] = self.message.of(message).ok_or(DAMAGED)?;
        expect(content, WORDS, "message.content", made);
        let content = content.ok_or(EMPTY)?;
        match (content.first(), on_branch) {
            (Some(b'['), _) => self.heard(content, line, on_branch, made),
            (_, true) => self.prompt(inside(content), content, line.timestamp),
            (_, false) => Err(OTHER_BRANCH),
        }
    }

    /// Read the blocks of a user's line.
    fn heard(
        &mut self,
        content: &[u8],
        line: &ClaudeLine<'_>,
        on_branch: bool,
        made: &mut Made,
    ) -> Result<(), &'static str> {
        let mut fate = Err(if on_branch { EMPTY } else { OTHER_BRANCH });
        let mut text = Vec::new();
        for block in elements(content) {
            let Some([kind, words, _, _, _, _, call, result, is_error]) = self.block.of(block) else {
                made.leave_out(UNKNOWN_BLOCK, b"");
                continue;
            };
            for (field, raw) in [("type", kind), ("text", words), ("tool_use_id", call)] {
                expect(raw, TEXT, field, made);
            }
            match kind.map_or(&b""[..], inside) {
                b"tool_result" if self.result(call, result, is_error, line, made) => fate = Ok(()),
                b"tool_result" => fate = fate.map_err(|other| if on_branch { ORPHAN } else { other }),
                kind if on_branch => {
                    let why = words_of(kind, words.unwrap_or_default(), &mut text, made);
                    self.note_interruption(why.unwrap_or_default());
                    fate = fate.map_err(|other| why.unwrap_or(other));
                }
                _ => {}
            }
        }
        if text.is_empty() {
            return fate;
        }
        self.ask(&text, line.timestamp);
        Ok(())
    }

    fn prompt(&mut self, text: &[u8], quoted: &[u8], timestamp: &[u8]) -> Result<(), &'static str> {
        if let Some(reason) = said(quoted) {
            self.note_interruption(reason);
            return Err(reason);
        }
        self.ask(text, timestamp);
        Ok(())
    }

    fn note_interruption(&mut self, reason: &str) {
        if reason == INTERRUPTION {
            self.conversation.interrupt();
        }
    }

    fn ask(&mut self, text: &[u8], timestamp: &[u8]) {
        self.asked.get_or_insert_with(|| hash(text));
        self.conversation.say(Role::User, text, timestamp);
    }

    /// Add a result, if its call is pending; return whether it was.
    fn result(
        &mut self,
        call: Option<&[u8]>,
        content: Option<&[u8]>,
        is_error: Option<&[u8]>,
        line: &ClaudeLine<'_>,
        made: &mut Made,
    ) -> bool {
        let call = call.map_or(&b""[..], inside);
        if !self.conversation.waits(call) {
            return false;
        }
        expect(content, WORDS, "content", made);
        expect(is_error, FLAG, "is_error", made);
        let content = content.unwrap_or_default();
        let mut text = inside(content).to_vec();
        for block in elements(content) {
            let Some([kind, words, ..]) = self.block.of::<9>(block) else {
                made.leave_out(UNKNOWN_BLOCK, b"");
                continue;
            };
            match kind.map_or(&b""[..], inside) {
                b"text" if words.is_some() => join(&mut text, words.map_or(&b""[..], inside)),
                kind => made.leave_out(NO_TEXT, kind),
            }
        }
        if !line.result_agent.is_empty() {
            self.agents.insert(hash(line.result_agent), call.to_vec());
        }
        self.conversation.answer(call, &text, success(is_error, line.result), line.timestamp, made);
        true
    }
}

const ORPHAN: &str = "orphan_result";

/// Return whether a call succeeded. An error result is marked; a failed tool has a text in place of its own
/// result, and a successful one has an object or a list.
fn success(is_error: Option<&[u8]>, result: Option<&[u8]>) -> Option<bool> {
    match (is_error, result) {
        (Some(b"true"), _) => Some(false),
        (_, Some(text)) if text.starts_with(b"\"Error") => Some(false),
        (Some(b"false"), _) | (_, Some([b'{' | b'[', ..])) => Some(true),
        _ => None,
    }
}
