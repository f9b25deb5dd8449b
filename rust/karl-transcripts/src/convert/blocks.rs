//! Blocks of all products as messages of a trajectory. A block that is not text is left out and counted by its kind.

use karl_log::conversation::blocks::{Block, block, result_text};
use serde_json::Value;

use super::json::{arguments, escaped, join};
use super::message::{Conversation, Role};
use super::report::{EMPTY, LineCounts, NO_TEXT, UNKNOWN_BLOCK};

/// Add what some blocks say: a message of `role`, and one for each result of a call. Return the number of the first
/// new message.
///
/// # Errors
/// Reason why there is no message.
pub(super) fn say_blocks(
    talk: &mut Conversation,
    role: Role,
    blocks: &[Block],
    moment: &[u8],
    counts: &mut LineCounts,
) -> Result<usize, &'static str> {
    let first = talk.messages.len();
    let (mut open, mut is_lost) = (None, false);
    for block in blocks {
        match block {
            Block::Text(text) => {
                let at = message(talk, &mut open, role, moment);
                join(&mut talk.messages[at].content, &escaped(text));
            }
            Block::Thinking(text) if role.is_assistant() => {
                let at = message(talk, &mut open, role, moment);
                join(&mut talk.messages[at].reasoning, &escaped(text));
            }
            Block::Call { id, name, arguments: given } if role.is_assistant() => {
                let at = message(talk, &mut open, role, moment);
                let arguments = arguments(Some(given));
                talk.call(at, &escaped(id), &escaped(name), arguments.as_bytes(), counts);
            }
            Block::Result { id, name, content, success } => {
                open = None;
                answer(talk, id, name, content, *success, moment, counts);
            }
            Block::Other(kind) => {
                counts.leave_out(NO_TEXT, kind.as_bytes());
                is_lost = true;
            }
            Block::Thinking(_) | Block::Call { .. } => {
                counts.leave_out(UNKNOWN_BLOCK, role.name().as_bytes());
                is_lost = true;
            }
            Block::Empty => {}
        }
    }
    let reason = if is_lost { NO_TEXT } else { EMPTY };
    if talk.messages.len() > first { Ok(first) } else { Err(reason) }
}

/// Return the number of the message that is being written, after beginning one if there is none.
fn message(talk: &mut Conversation, open: &mut Option<usize>, role: Role, moment: &[u8]) -> usize {
    *open.get_or_insert_with(|| {
        talk.say(role, b"", moment);
        talk.messages.len() - 1
    })
}

/// Add the result of a call; one whose call is not there keeps its place.
pub(super) fn answer(
    talk: &mut Conversation,
    id: &str,
    name: &str,
    content: &Value,
    success: Option<bool>,
    moment: &[u8],
    counts: &mut LineCounts,
) {
    let (id, text) = (escaped(id), words_of(content, counts));
    if talk.waits(&id) {
        talk.answer(&id, &text, success, moment, counts);
        return;
    }
    counts.note("orphan_result");
    talk.result(&id, &text, success, moment);
    if let Some(result) = talk.messages.last_mut() {
        result.name = escaped(name);
    }
}

/// Return the text of a result as the content of a JSON string; blocks that are not text are left out and counted.
pub(super) fn words_of(content: &Value, counts: &mut LineCounts) -> Vec<u8> {
    let supported = match content {
        Value::Array(parts) => {
            let is_text = |part: &&Value| match block(part) {
                Block::Other(kind) if part.get("type").is_some() || part.get("inlineData").is_some() => {
                    counts.leave_out(NO_TEXT, kind.as_bytes());
                    false
                }
                _ => true,
            };
            Value::Array(parts.iter().filter(is_text).cloned().collect())
        }
        other => other.clone(),
    };
    if supported.as_array().is_some_and(Vec::is_empty) {
        return Vec::new();
    }
    match result_text(&supported) {
        Ok(text) => escaped(&text),
        Err(kind) => {
            counts.leave_out(NO_TEXT, kind.as_bytes());
            Vec::new()
        }
    }
}
