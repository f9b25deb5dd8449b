//! Texts in the name of the user: prompts, the output of commands, interruptions.

use crate::convert::json::{inside, join};
use crate::convert::report::{EMPTY, INTERRUPTION, Made, NO_TEXT};
use crate::json::unescape::unescape;

/// Texts that the tool writes in the user's name around its own commands.
const COMMANDS: [&str; 7] = [
    "<command-name>",
    "<command-message>",
    "<command-args>",
    "<local-command-",
    "<bash-input>",
    "<bash-stdout>",
    "<bash-stderr>",
];

/// Text in place of a prompt if the user interrupted the model.
const INTERRUPTED: &str = "[Request interrupted by user";

/// Append the text of a block; return the reason if it is not a prompt.
pub(super) fn words_of(
    kind: &[u8],
    words: &[u8],
    text: &mut Vec<u8>,
    made: &mut Made,
) -> Option<&'static str> {
    if kind != b"text" || words.is_empty() {
        made.leave_out(NO_TEXT, kind);
        return Some(NO_TEXT);
    }
    let why = said(words);
    if why.is_none() {
        join(text, inside(words));
    }
    why
}

/// Return the reason why a text is not a user's prompt.
pub(super) fn said(quoted: &[u8]) -> Option<&'static str> {
    let text = unescape(quoted)?;
    let text = text.trim_start();
    if COMMANDS.iter().any(|begin| text.starts_with(begin)) {
        return Some("command");
    }
    if text.is_empty() {
        return Some(EMPTY);
    }
    text.starts_with(INTERRUPTED).then_some(INTERRUPTION)
}
