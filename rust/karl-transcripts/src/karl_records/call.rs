//! Tool call as an event of a record.

use serde_json::{Map, Value, json};

use crate::tool_calls::edits::edits;
use crate::tool_calls::processes::{Ran, exit_code};
use crate::tool_calls::shell::command;
use crate::tool_calls::trajectory::{ToolCall, TrajectoryMessage};

/// Parameters that an event keeps, and their maximum length in characters.
const KEY_PARAMS: [&str; 6] = ["file_path", "command", "pattern", "query", "url", "description"];
const PARAM_LENGTH: usize = 200;

/// Tool that runs a command, in KARL's words.
pub(super) const BASH: &str = "Bash";

/// Names of tools by Codex and others, and KARL's for them.
const NAMES: [(&str, &str); 17] = [
    ("exec_command", BASH),
    ("shell_command", BASH),
    ("shell", BASH),
    ("local_shell", BASH),
    ("container.exec", BASH),
    ("apply_patch", "Edit"),
    ("apply_diff", "Edit"),
    ("read_file", "Read"),
    ("cat_file", "Read"),
    ("write_file", "Write"),
    ("create_file", "Write"),
    ("search_files", "Grep"),
    ("ripgrep", "Grep"),
    ("list_files", "Glob"),
    ("find_files", "Glob"),
    ("run_shell_command", BASH),
    ("bash", BASH),
];

/// Return KARL's name of a tool.
pub(super) fn tool_name(call: &ToolCall<'_>) -> String {
    let name = call.function.name.some().unwrap_or("?");
    NAMES.iter().find(|(known, _)| *known == name).map_or(name, |(_, karl)| karl).to_owned()
}

/// Return the event of a call, with KARL's keys.
pub(super) fn event(call: &ToolCall<'_>, ran: &Ran<'_>, messages: &[TrajectoryMessage<'_>]) -> Value {
    let (name, original) = (tool_name(call), call.function.name.as_str());
    let moment = &messages[ran.answer.unwrap_or(ran.message)].timestamp;
    let mut event = Map::new();
    event.insert("tool_name".to_owned(), name.as_str().into());
    if name != original {
        event.insert("original_name".to_owned(), original.into());
    }
    event.insert("key_params".to_owned(), Value::Object(key_params(call)));
    event.insert("success".to_owned(), ran.success.into());
    event.insert("exit_code".to_owned(), exit_status(&name, ran).into());
    event.insert("duration_ms".to_owned(), Value::Null);
    event.insert("ts".to_owned(), utc(moment.as_str()).into());
    Value::Object(event)
}

/// Return the exit status of a command; `None` if it is unknown, or if it is no command.
fn exit_status(name: &str, ran: &Ran<'_>) -> Option<i64> {
    match ran.success {
        Some(true) if name == BASH => Some(0),
        Some(false) if name == BASH => exit_code(ran.output).filter(|&code| code != 0),
        _ => None,
    }
}

/// Return the kept parameters of a call. The command of a shell and the path of an edit may have other names.
fn key_params(call: &ToolCall<'_>) -> Map<String, Value> {
    let arguments: Value = serde_json::from_str(call.function.arguments.as_str()).unwrap_or_default();
    let derived = |key: &str| match key {
        "command" => command(&arguments),
        "file_path" => edits(&arguments).into_iter().next().map(|edit| edit.path),
        _ => None,
    };
    let value = |key: &str| match arguments.get(key) {
        Some(Value::String(text)) => Some(text.clone()),
        found => derived(key).or_else(|| found.map(Value::to_string)),
    };
    let kept = KEY_PARAMS.iter().filter_map(|&key| Some((key.to_owned(), value(key)?)));
    kept.map(|(key, text)| (key, text.chars().take(PARAM_LENGTH).collect::<String>().into())).collect()
}

/// Return a moment with its zone as Python's `isoformat` writes it, which older readers need.
pub(super) fn utc(moment: &str) -> String {
    moment.strip_suffix('Z').map_or_else(|| moment.to_owned(), |moment| format!("{moment}+00:00"))
}

/// Return the counts of tools by name, in the order of their first calls.
pub(super) fn tool_counts(names: &[String]) -> Map<String, Value> {
    let mut counts: Vec<(&String, u64)> = Vec::new();
    for name in names {
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    counts.into_iter().map(|(name, count)| (name.clone(), json!(count))).collect()
}
