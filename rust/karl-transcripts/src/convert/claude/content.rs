//! Message blocks of Anthropic's API in transcripts.

use std::collections::{HashMap, HashSet};

use karl_log::json::project::elements;
use karl_log::json::reference_parser;
use serde_json::{Map, Value};

use super::row::{ClaudeLine, LeftOut, Row, hash};
use super::user_text::{COMMAND, PromptQueue, is_caveat, is_expanded, reason_not_prompt, sender, words_of};
use crate::convert::json::{FLAG, NUMBER, ObjectKeys, TEXT, WORDS, escape, expect, inside, join};
use crate::convert::message::{Conversation, Following, Role};
use crate::convert::report::{
    DAMAGED, EMPTY, INTERRUPTION, LineCounts, NO_TEXT, OTHER_BRANCH, UNKNOWN_BLOCK,
};
use crate::convert::run::Tokens;

/// Tools that call sub-agents, under all their names.
const CALLERS: [&[u8]; 2] = [b"Task", b"Agent"];

/// One thread while its lines are read.
pub(super) struct ClaudeConversation {
    pub(super) conversation: Conversation,
    pub(super) queue: PromptQueue,
    /// Call that a sub-agent works for: by the sub-agent's name, and by its prompt.
    pub(super) agents: HashMap<u64, Vec<u8>>,
    pub(super) prompts: HashMap<u64, Vec<Vec<u8>>>,
    /// First prompt, by a user or by the caller of a sub-agent.
    pub(super) asked: Option<u64>,
    /// True after a command whose expansion may be the next line.
    pub(super) expands: bool,
    /// Tokens of each request, by the key of its message and how many requests of that key came before.
    usage: HashMap<(u64, usize), [Option<u64>; 4]>,
    requests: HashMap<u64, usize>,
    /// Blocks of the model by their message, time and text.
    blocks: HashSet<u64>,
    message: ObjectKeys,
    block: ObjectKeys,
    input: ObjectKeys,
}

impl ClaudeConversation {
    pub(super) fn new() -> Self {
        let keys =
            ["content", "model", "stop_reason", "usage.input_tokens", "usage.cache_creation_input_tokens"];
        Self {
            conversation: Conversation::default(),
            queue: PromptQueue::new(),
            agents: HashMap::new(),
            prompts: HashMap::new(),
            asked: None,
            expands: false,
            usage: HashMap::new(),
            requests: HashMap::new(),
            blocks: HashSet::new(),
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
        counts: &mut LineCounts,
    ) -> std::result::Result<(), &'static str> {
        let message = line.message(counts)?;
        let [content, model, stop_reason, usage @ ..]: [Option<&[u8]>; 7] =
            self.message.of(message).ok_or(DAMAGED)?;
        expect(content, WORDS, "message.content", counts);
        expect(model, TEXT, "message.model", counts);
        for count in usage {
            expect(count, NUMBER, "message.usage", counts);
        }
        let content = content.ok_or(EMPTY)?;
        self.expands = false;
        let key = if row.message == 0 { row.id } else { row.message };
        if row.message != 0 && self.is_copied(key, content, line.timestamp) {
            return Err(COPIED);
        }
        let speech = Speech { key, counts: usage.map(number), model, timestamp: line.timestamp };
        if !inside(content).is_empty() || elements(content).next().is_none() {
            let at = self.turn(&speech, false);
            if let Some(message) = self.conversation.messages.get_mut(at) {
                join(&mut message.content, inside(content));
            }
        }
        for block in elements(content) {
            self.speak(&speech, block, counts);
        }
        if stop_reason.is_some_and(|reason| reason.first() == Some(&b'"')) {
            self.conversation.end(key);
        }
        Ok(())
    }

    /// Return whether the same message said all of a line at the same moment: a compaction writes the messages that
    /// it keeps again, some versions under new ids.
    fn is_copied(&mut self, key: u64, content: &[u8], timestamp: &[u8]) -> bool {
        let mut is_copy = !timestamp.is_empty() && elements(content).next().is_some();
        for block in elements(content) {
            let block = [&key.to_le_bytes()[..], timestamp, block].concat();
            is_copy &= !self.blocks.insert(hash(&block));
        }
        is_copy
    }

    /// Return the place of the message that a block belongs to.
    ///
    /// Lines with one id are one message, also around the results of its parallel calls. Where a gateway repeats an
    /// id, what stands behind another message, or with other tokens behind a result, is a message of its own.
    fn turn(&mut self, speech: &Speech<'_>, is_call: bool) -> usize {
        let Speech { key, counts, model, timestamp } = *speech;
        let request = self.requests.get(&key).copied();
        let before = request.and_then(|request| self.usage.get(&(key, request)));
        let differs = before.is_some_and(|before| before[..3] != counts[..3]);
        let is_next = match self.conversation.following(key) {
            None | Some(Following::Nothing) => false,
            Some(Following::Results) => !is_call || differs,
            Some(Following::Message) => true,
        };
        if is_next {
            self.conversation.close(key);
        }
        let request = request.map_or(0, |request| request + usize::from(is_next && differs));
        self.requests.insert(key, request);
        let most = self.usage.entry((key, request)).or_default();
        most.iter_mut().zip(counts).for_each(|(most, count)| *most = (*most).max(count));
        let at = self.conversation.turn(key, timestamp);
        if let Some(message) = self.conversation.messages.get_mut(at) {
            message.model = model.map_or(&b""[..], inside).to_vec();
        }
        at
    }

    /// Add a block to the model's message.
    fn speak(&mut self, speech: &Speech<'_>, block: &[u8], counts: &mut LineCounts) {
        let Some(found) = self.block.of(block) else { return counts.leave_out(UNKNOWN_BLOCK, b"") };
        let [kind, text, thinking, id, name, input, call, content, is_error]: [Option<&[u8]>; 9] = found;
        for (field, raw) in
            [("type", kind), ("text", text), ("thinking", thinking), ("id", id), ("name", name)]
        {
            expect(raw, TEXT, field, counts);
        }
        let of = |raw: Option<&'_ [u8]>| raw.map_or_else(Vec::new, |raw| inside(raw).to_vec());
        match kind.map(inside) {
            Some(b"text") if text.is_some() => {
                let at = self.turn(speech, false);
                if let Some(message) = self.conversation.messages.get_mut(at) {
                    join(&mut message.content, &of(text));
                }
            }
            Some(b"thinking") if thinking.is_some() => {
                let at = self.turn(speech, false);
                if let Some(message) = self.conversation.messages.get_mut(at) {
                    join(&mut message.reasoning, &of(thinking));
                }
            }
            Some(b"tool_use" | b"server_tool_use" | b"mcp_tool_use") if input.is_some() => {
                let at = self.turn(speech, true);
                self.call(at, of(id), &of(name), input.unwrap_or_default(), counts);
            }
            Some(kind) if is_result(kind) && call.is_some() => {
                self.server_result(
                    speech,
                    call.unwrap_or_default(),
                    content.unwrap_or_default(),
                    is_error,
                    counts,
                );
            }
            kind => {
                counts.leave_out(UNKNOWN_BLOCK, kind.unwrap_or_default());
                if !self.requests.contains_key(&speech.key) {
                    self.turn(speech, false);
                }
            }
        }
    }

    /// Add the result of a call that the model's provider ran; what the model says next is another message.
    fn server_result(
        &mut self,
        speech: &Speech<'_>,
        call: &[u8],
        content: &[u8],
        is_error: Option<&[u8]>,
        counts: &mut LineCounts,
    ) {
        if !self.conversation.waits(inside(call)) {
            return counts.note(ORPHAN);
        }
        let (text, success) = (text(content, counts), server_tool_success(content, is_error));
        self.conversation.answer(inside(call), &text, success, speech.timestamp, counts);
        self.conversation.close(speech.key);
    }

    fn call(&mut self, at: usize, id: Vec<u8>, name: &[u8], input: &[u8], counts: &mut LineCounts) {
        self.conversation.call(at, &id, name, input, counts);
        if CALLERS.contains(&name)
            && let Some([Some(prompt)]) = self.input.of(input)
        {
            self.prompts.entry(hash(inside(prompt))).or_default().push(id);
        }
    }

    /// Read a user's line: a prompt, if the line is on the branch, and results of pending calls.
    pub(super) fn user(
        &mut self,
        line: &ClaudeLine<'_>,
        on_branch: bool,
        counts: &mut LineCounts,
    ) -> std::result::Result<(), &'static str> {
        let message = line.message(counts)?;
        let content = self.content(message, counts)?;
        self.expands &= !on_branch;
        match (content.first(), on_branch) {
            (Some(b'['), _) => self.heard(content, line, on_branch, counts),
            (_, true) => self.prompt(inside(content), content, line),
            (_, false) => Err(OTHER_BRANCH),
        }
    }

    /// Read the blocks of a user's line.
    fn heard(
        &mut self,
        content: &[u8],
        line: &ClaudeLine<'_>,
        on_branch: bool,
        counts: &mut LineCounts,
    ) -> std::result::Result<(), &'static str> {
        let mut fate = Err(if on_branch { EMPTY } else { OTHER_BRANCH });
        let mut text = Vec::new();
        for block in elements(content) {
            let Some([kind, words, _, _, _, _, call, result, is_error]) = self.block.of(block) else {
                counts.leave_out(UNKNOWN_BLOCK, b"");
                continue;
            };
            for (field, raw) in [("type", kind), ("text", words), ("tool_use_id", call)] {
                expect(raw, TEXT, field, counts);
            }
            match kind.map_or(&b""[..], inside) {
                b"tool_result" if self.result(call, result, is_error, line, counts) => fate = Ok(()),
                b"tool_result" => fate = fate.map_err(|other| if on_branch { ORPHAN } else { other }),
                kind if on_branch => {
                    let why = words_of(kind, words.unwrap_or_default(), &mut text, counts);
                    self.note(why, words.unwrap_or_default());
                    fate = fate.map_err(|other| why.unwrap_or(other));
                }
                _ => {}
            }
        }
        if text.is_empty() {
            return fate;
        }
        self.ask(&text, line, sender(line.facts.origin));
        Ok(())
    }

    fn content<'m>(
        &mut self,
        message: &'m [u8],
        counts: &mut LineCounts,
    ) -> std::result::Result<&'m [u8], &'static str> {
        let [content, ..]: [Option<&[u8]>; 7] = self.message.of(message).ok_or(DAMAGED)?;
        expect(content, WORDS, "message.content", counts);
        content.ok_or(EMPTY)
    }

    fn prompt(
        &mut self,
        text: &[u8],
        quoted: &[u8],
        line: &ClaudeLine<'_>,
    ) -> std::result::Result<(), &'static str> {
        let why = reason_not_prompt(quoted);
        self.note(why, quoted);
        if let Some(reason) = why {
            return Err(reason);
        }
        self.ask(text, line, sender(line.facts.origin));
        Ok(())
    }

    /// Read a line that the tool inserted: what a command of the user was expanded to, or input through a channel.
    /// Return the reason if it is neither.
    pub(super) fn inserted(
        &mut self,
        line: &ClaudeLine<'_>,
        counts: &mut LineCounts,
    ) -> std::result::Result<(), &'static str> {
        let message = line.message(counts)?;
        let content = self.content(message, counts)?;
        let mut text = Vec::new();
        if content.first() == Some(&b'"') && reason_not_prompt(content).is_none() && !is_caveat(content) {
            text.extend_from_slice(inside(content));
        }
        for block in elements(content) {
            if let Some([kind, words, ..]) = self.block.of::<9>(block)
                && !words.is_some_and(is_caveat)
            {
                words_of(kind.map_or(&b""[..], inside), words.unwrap_or_default(), &mut text, counts);
            }
        }
        if text.starts_with(CHANNEL) {
            self.ask(&text, line, b"channel");
        } else if self.expands && !text.is_empty() {
            self.ask(&text, line, COMMAND.as_bytes());
        } else {
            return Err(LeftOut::Meta.name());
        }
        Ok(())
    }

    /// Note what a text that is not a prompt says of the lines around it.
    fn note(&mut self, why: Option<&str>, quoted: &[u8]) {
        match why {
            Some(INTERRUPTION) => self.conversation.interrupt(),
            Some(COMMAND) => self.expands = is_expanded(quoted),
            _ => {}
        }
    }

    fn ask(&mut self, text: &[u8], line: &ClaudeLine<'_>, origin: &[u8]) {
        self.asked.get_or_insert_with(|| hash(text));
        // The queue told of the same prompt before.
        self.conversation.unqueue(text);
        self.conversation.say(Role::User, text, line.timestamp).origin = origin.to_vec();
    }

    /// Add a result, if its call is pending; return whether it was.
    fn result(
        &mut self,
        call: Option<&[u8]>,
        content: Option<&[u8]>,
        is_error: Option<&[u8]>,
        line: &ClaudeLine<'_>,
        counts: &mut LineCounts,
    ) -> bool {
        let call = call.map_or(&b""[..], inside);
        if !self.conversation.waits(call) {
            return false;
        }
        expect(content, WORDS, "content", counts);
        expect(is_error, FLAG, "is_error", counts);
        let content = content.unwrap_or_default();
        let mut text = inside(content).to_vec();
        for block in elements(content) {
            let Some([kind, words, ..]) = self.block.of::<9>(block) else {
                counts.leave_out(UNKNOWN_BLOCK, b"");
                continue;
            };
            match kind.map_or(&b""[..], inside) {
                b"text" if words.is_some() => join(&mut text, words.map_or(&b""[..], inside)),
                kind => counts.leave_out(NO_TEXT, kind),
            }
        }
        if !line.result_agent.is_empty() {
            self.agents.insert(hash(line.result_agent), call.to_vec());
        }
        self.conversation.answer(call, &text, success(is_error, line.result), line.timestamp, counts);
        true
    }
}

const ORPHAN: &str = "orphan_result";

/// Start of input through a channel, as the content of a JSON string.
const CHANNEL: &[u8] = b"<channel ";

/// Reason for a line that says again what its message said.
const COPIED: &str = "copied_message";

/// Origin of a block of the model.
#[derive(Clone, Copy)]
struct Speech<'l> {
    key: u64,
    counts: [Option<u64>; 4],
    model: Option<&'l [u8]>,
    timestamp: &'l [u8],
}

fn number(raw: Option<&[u8]>) -> Option<u64> {
    raw.and_then(|raw| std::str::from_utf8(raw).ok()?.parse().ok())
}

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

/// End of the kinds of such blocks: `web_search_tool_result`, `mcp_tool_result`.
const KIND: &[u8] = b"_tool_result";

/// Start of keys with content that only the provider can read.
const ENCRYPTED: &str = "encrypted_";

/// Return whether a block of the model's message is the result of a tool.
pub(super) fn is_result(kind: &[u8]) -> bool {
    kind.ends_with(KIND)
}

/// Return the text of a result as the content of a JSON string: its text blocks, and everything else as JSON.
pub(super) fn text(content: &[u8], counts: &mut LineCounts) -> Vec<u8> {
    if content.first() != Some(&b'[') {
        return part(content, counts);
    }
    let mut text = Vec::new();
    elements(content).for_each(|element| join(&mut text, &part(element, counts)));
    text
}

/// Return whether a tool succeeded, as its result says.
pub(super) fn server_tool_success(content: &[u8], is_error: Option<&[u8]>) -> Option<bool> {
    match is_error {
        Some(b"true") => return Some(false),
        Some(b"false") => return Some(true),
        _ => {}
    }
    match reference_parser::parse(content).ok()? {
        Value::Object(result) if kind_of(&result).ends_with("_error") => Some(false),
        Value::Object(result) => Some(result.get("return_code").is_none_or(|code| code == 0)),
        Value::Array(_) => Some(true),
        _ => None,
    }
}

fn kind_of(object: &Map<String, Value>) -> &str {
    object.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn part(raw: &[u8], counts: &mut LineCounts) -> Vec<u8> {
    if raw.first() == Some(&b'"') {
        return inside(raw).to_vec();
    }
    let Ok(mut value) = reference_parser::parse(raw) else { return Vec::new() };
    let mut out = Vec::new();
    match &value {
        Value::Null => return out,
        Value::Object(block) if kind_of(block) == "text" && block.contains_key("text") => {
            escape(block["text"].as_str().unwrap_or_default().as_bytes(), &mut out);
            return out;
        }
        _ => {}
    }
    remove_unreadable(&mut value, counts);
    escape(value.to_string().as_bytes(), &mut out);
    out
}

/// Remove what is not text: encrypted content, and bytes of files in base64.
fn remove_unreadable(value: &mut Value, counts: &mut LineCounts) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(|value| remove_unreadable(value, counts)),
        Value::Object(object) => {
            object.retain(|key, _| !key.starts_with(ENCRYPTED));
            if kind_of(object) == "base64" && object.remove("data").is_some() {
                counts.leave_out(NO_TEXT, b"base64");
            }
            object.values_mut().for_each(|value| remove_unreadable(value, counts));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(content: &str) -> String {
        String::from_utf8(text(content.as_bytes(), &mut LineCounts::default())).unwrap()
    }

    #[test]
    fn what_only_the_provider_can_read_is_left_out() {
        let results =
            r#"[{"type": "web_search_result", "title": "K", "url": "u", "encrypted_content": "x"}]"#;
        assert_eq!(texts(results), r#"{\"type\":\"web_search_result\",\"title\":\"K\",\"url\":\"u\"}"#);
        assert_eq!(texts(r#"[{"type": "text", "text": "a\nb"}, {"type": "text", "text": "c"}]"#), r"a\nb\nc");
        assert_eq!(
            (texts(r#""a\n""#), texts("null"), texts("[]")),
            (r"a\n".into(), String::new(), String::new())
        );
        let file = r#"{"source": {"type": "base64", "data": "AAAA"}}"#;
        assert_eq!(texts(file), r#"{\"source\":{\"type\":\"base64\"}}"#);
    }

    #[test]
    fn a_result_says_whether_the_tool_succeeded() {
        for (content, is_error, wanted) in [
            (
                r#"{"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}"#,
                None,
                Some(false),
            ),
            (r#"{"type": "code_execution_result", "return_code": 1}"#, None, Some(false)),
            (r#"{"type": "code_execution_result", "return_code": 0}"#, None, Some(true)),
            ("[]", None, Some(true)),
            ("[]", Some(&b"true"[..]), Some(false)),
            (r#""text""#, None, None),
        ] {
            assert_eq!(server_tool_success(content.as_bytes(), is_error), wanted, "{content}");
        }
    }
}
