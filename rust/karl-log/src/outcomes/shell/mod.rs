//! Command lines of shell calls: simple commands, how they are joined, and what they write to files.

mod line;
mod program;
mod words;
mod writes;

pub(super) use self::line::CommandLine;
pub(super) use self::program::program;
pub(super) use self::writes::shell_edits;

use serde_json::Value;

/// Keys of a command in the arguments of a shell tool.
const KEYS: [&str; 4] = ["command", "cmd", "script", "commands"];

/// Return the command text of a shell call; `None` if it is no shell call. Codex has a list of words, mostly
/// `["bash", "-lc", "text"]`.
pub(crate) fn command(arguments: &Value) -> Option<String> {
    let command = KEYS.iter().find_map(|key| arguments.get(key))?;
    match command {
        // A path stands beside the commands of editors: `{"command": "view", "path": "a.py"}`.
        Value::String(text) if arguments.get("path").is_none() => Some(text.clone()),
        Value::Array(words) => {
            let words: Vec<&str> = words.iter().map(Value::as_str).collect::<Option<_>>()?;
            Some(match words[..] {
                [shell, flag, text] if shell.ends_with("sh") && flag.starts_with('-') => text.to_owned(),
                _ => words.join(" "),
            })
        }
        _ => None,
    }
}
