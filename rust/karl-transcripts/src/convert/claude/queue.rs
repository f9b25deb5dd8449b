//! Prompts that the user typed while the agent worked.
//!
//! ```text
//! enqueue ──► dequeue   the user's next line is the prompt
//!         ──► popAll    taken back into the input
//!         ──► remove    read by the model before its next message: a `queued_command` has the text, and in
//!                       older versions the enqueued line alone
//! ```
//!
//! The reason of a removal is there from 2.1.246 on (`absorbed_mid_turn`). Versions that write attachments write one
//! for every prompt that the model reads, so that a removal without either was a prompt taken back.

use std::collections::{HashMap, VecDeque};

use karl_log::json::project::elements;

use super::row::{LeftOut, NOTIFIERS, Row, SENDERS, hash};
use super::user_text::{COMMAND, NOTIFICATION, said, words_of};
use crate::convert::json::{inside, sound};
use crate::convert::json_type::{TEXT, WORDS, expect};
use crate::convert::lines::ObjectKeys;
use crate::convert::message::Conversation;
use crate::convert::report::{DAMAGED, EMPTY, Made, OTHER_BRANCH, UNKNOWN_BLOCK};

/// Reason for lines of the queue that give no prompt: a copy of one, or one that was taken back.
const QUEUE: &str = "queue_operation";

/// Reason for an attached command of an unknown mode.
const UNKNOWN_MODE: &str = "unknown_queued_command";

/// Prompts that wait, while the lines of a thread are read.
pub(super) struct PromptQueue {
    waiting: VecDeque<Vec<u8>>,
    /// Attached prompts whose removal is yet to come.
    attached: HashMap<u64, u32>,
    /// True if this version writes attachments.
    pub(super) attaches: bool,
    line: ObjectKeys,
    block: ObjectKeys,
}

impl PromptQueue {
    pub(super) fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            attached: HashMap::new(),
            attaches: false,
            line: ObjectKeys::new(&[
                "operation",
                "content",
                "reason",
                "attachment.prompt",
                "attachment.commandMode",
                "attachment.origin.kind",
                "attachment.isMeta",
            ]),
            block: ObjectKeys::new(&["type", "text"]),
        }
    }

    /// Read a line of the queue, or an attached prompt; add what the model reads to the conversation. Return the
    /// reason if that is nothing.
    pub(super) fn read(
        &mut self,
        row: &Row,
        text: &[u8],
        talk: &mut Conversation,
        timestamp: &[u8],
        on_branch: bool,
        made: &mut Made,
    ) -> Result<(), &'static str> {
        let [operation, content, reason, prompt, kind, origin, meta]: [Option<&[u8]>; 7] =
            self.line.of(text).ok_or(DAMAGED)?;
        if operation.is_none() {
            self.attaches = true;
            expect(prompt, WORDS, "attachment.prompt", made);
            expect(kind, TEXT, "attachment.commandMode", made);
            return self.attachment(row, [prompt, kind, origin, meta], talk, timestamp, on_branch, made);
        }
        expect(content, WORDS, "content", made);
        let removed = match operation.map(inside) {
            Some(b"enqueue") => {
                self.waiting.push_back(content.unwrap_or_default().to_vec());
                return Err(QUEUE);
            }
            Some(b"dequeue" | b"remove") => self.take(content),
            Some(b"popAll") => {
                self.waiting.clear();
                return Err(QUEUE);
            }
            _ => return Err(QUEUE),
        };
        let is_read = match reason.map(inside) {
            _ if operation.map(inside) == Some(b"dequeue") => false,
            Some(b"absorbed_mid_turn") => true,
            Some(_) => false,
            None => !self.attaches,
        };
        if !is_read {
            return Err(QUEUE);
        }
        self.removal(&removed, talk, timestamp, on_branch, made)
    }

    /// Take the prompt with that text from the queue; without a text, the first one.
    fn take(&mut self, content: Option<&[u8]>) -> Vec<u8> {
        let place = match content {
            Some(content) => self.waiting.iter().position(|waiting| waiting == content),
            None => Some(0),
        };
        let taken = place.and_then(|at| self.waiting.remove(at));
        content.map(<[u8]>::to_vec).or(taken).unwrap_or_default()
    }

    fn removal(
        &mut self,
        content: &[u8],
        talk: &mut Conversation,
        timestamp: &[u8],
        on_branch: bool,
        made: &mut Made,
    ) -> Result<(), &'static str> {
        let words = self.words(content, made)?;
        match self.attached.get_mut(&hash(&words)) {
            Some(count) if *count > 0 => {
                *count -= 1;
                return Err(QUEUE);
            }
            _ if !on_branch => return Err(OTHER_BRANCH),
            _ => {}
        }
        talk.queue(&words, timestamp);
        Ok(())
    }

    fn attachment(
        &mut self,
        row: &Row,
        [prompt, kind, origin, meta]: [Option<&[u8]>; 4],
        talk: &mut Conversation,
        timestamp: &[u8],
        on_branch: bool,
        made: &mut Made,
    ) -> Result<(), &'static str> {
        let words = self.words(prompt.unwrap_or_default(), made)?;
        if !talk.unqueue(&words) {
            *self.attached.entry(hash(&words)).or_default() += 1;
        }
        let is = |known: &[&[u8]]| origin.is_some_and(|origin| known.contains(&inside(origin)));
        match (row.left_out, kind.map(inside)) {
            (Some(why), _) => return Err(why.name()),
            _ if is(&NOTIFIERS) => return Err(NOTIFICATION),
            _ if meta == Some(b"true") && !is(&SENDERS) => return Err(LeftOut::Meta.name()),
            (None, Some(b"task-notification")) => return Err(NOTIFICATION),
            (None, Some(b"bash")) => return Err(COMMAND),
            (None, Some(b"prompt") | None) => {}
            (None, Some(_)) => return Err(UNKNOWN_MODE),
        }
        if !on_branch {
            return Err(OTHER_BRANCH);
        }
        talk.queue(&words, timestamp).origin = sender(origin.map_or(&b""[..], inside)).to_vec();
        Ok(())
    }

    /// Return the text of a prompt, or the reason if it is none.
    fn words(&mut self, content: &[u8], made: &mut Made) -> Result<Vec<u8>, &'static str> {
        let content = sound(content).ok_or(if content.is_empty() { EMPTY } else { DAMAGED })?;
        if content.first() == Some(&b'"') {
            return said(&content).map_or_else(|| Ok(inside(&content).to_vec()), Err);
        }
        let (mut text, mut reason) = (Vec::new(), EMPTY);
        for block in elements(&content) {
            let Some([kind, words]) = self.block.of(block) else {
                made.leave_out(UNKNOWN_BLOCK, b"");
                continue;
            };
            let why = words_of(kind.map_or(&b""[..], inside), words.unwrap_or_default(), &mut text, made);
            reason = why.unwrap_or(reason);
        }
        if text.is_empty() { Err(reason) } else { Ok(text) }
    }
}

/// Return the sender of a message to name; nothing for the user.
pub(super) fn sender(origin: &[u8]) -> &[u8] {
    if origin == b"human" { b"" } else { origin }
}
