//! Command lines of shell calls: simple commands, how they are joined, and what they write to files.

mod line;
pub(crate) mod program;
mod words;
mod writes;

pub(crate) use self::line::{CommandLine, SimpleCommand};
pub(crate) use self::program::program;
use self::program::shell_text;
pub(crate) use self::writes::{TreeChange, shell_edits, tree_change};

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
            let text = shell_text(&words).map(str::to_owned);
            Some(text.unwrap_or_else(|| words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")))
        }
        _ => None,
    }
}

/// Return a word as a shell takes it for one.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,@%+".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn commands_of_every_form_by_hand() {
        for (arguments, wanted) in [
            (json!({"command": "pytest -q"}), Some("pytest -q")),
            (json!({"cmd": "pytest", "yield_time_ms": 1000}), Some("pytest")),
            (json!({"command": ["bash", "-lc", "cd a && pytest"]}), Some("cd a && pytest")),
            (json!({"command": ["/bin/zsh", "-l", "-c", "pytest"]}), Some("pytest")),
            (json!({"command": ["powershell.exe", "-NoProfile", "-Command", "npm test"]}), Some("npm test")),
            (json!({"command": ["cmd.exe", "/c", "npm test"]}), Some("npm test")),
            (json!({"command": ["pytest", "-k", "a and b", "it's"]}), Some("pytest -k 'a and b' 'it'\\''s'")),
            (json!({"command": "view", "path": "a.py"}), None),
            (json!({"command": ["a", 1]}), None),
        ] {
            assert_eq!(command(&arguments).as_deref(), wanted, "{arguments}");
        }
    }
}
