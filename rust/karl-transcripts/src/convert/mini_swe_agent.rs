//! mini-swe-agent: one `.traj.json` document per run. Its messages are those of the model's interface: of chat
//! completions, or whole responses of `OpenAI`'s Responses interface, whose items are messages here.
//!
//! The task is the `instance_id` of a benchmark, or the name of the file. Its success is in SWE-bench's report, as for
//! SWE-agent. The form is that of `DefaultAgent.serialize`, `trajectory_format` mini-swe-agent-1 and -1.1.

use std::path::Path;

use karl_log::conversation::RecordedTrajectory;
use karl_log::time::timestamp;
use serde_json::{Value, json};

use super::chat::ChatMessages;
use super::json::{JsonTypes, LIST, NUMBER, OBJECT, TEXT, check, list, pick, source, text};
use super::message::Conversation;
use super::report::LineCounts;
use super::run::Head;
use super::swe_agent::{SweBenchReports, task};

/// Paths of a document with the expected types.
const WANTED: [(&str, JsonTypes); 9] = [
    ("instance_id", TEXT),
    ("trajectory_format", TEXT),
    ("messages", LIST),
    ("messages[]", OBJECT),
    ("messages[].extra", OBJECT),
    ("info", OBJECT),
    ("info.exit_status", TEXT),
    ("info.model_stats.api_calls", NUMBER),
    ("info.config.model.model_name", TEXT),
];

/// Read the trajectory of a document; `digest` is the hash of its bytes.
pub(super) fn read(
    document: &Value,
    file: &str,
    digest: u128,
    verdicts: &SweBenchReports,
    counts: &mut LineCounts,
) -> (Head, Conversation) {
    check(document, &WANTED, counts);
    let messages = list(document, "messages").iter().flat_map(items).collect();
    let recorded = RecordedTrajectory::Chat { system: None, messages, tools: None };
    let mut chat = ChatMessages::default();
    if let Err(flaw) = chat.add_message(recorded, "", counts) {
        counts.note(flaw.name());
        chat = ChatMessages::default();
    }
    let name = task(file);
    let name = name.strip_suffix(".traj").unwrap_or(&name);
    let instance = text(document, "instance_id").unwrap_or(name).to_owned();
    let info = document.get("info").unwrap_or(&Value::Null);
    let mut more = pick(info, &["exit_status", "submission", "mini_version", "model_stats"]);
    more.extend(pick(document, &["trajectory_format"]));
    let head = Head {
        id: format!("{instance}/{:016x}", digest >> 64),
        reward: verdicts.of(Path::new(file), &instance, counts),
        group: Some(instance),
        model: info.pointer("/config/model/model_name").and_then(Value::as_str).map(str::to_owned),
        source: source("mini-swe-agent", file, more),
        ..Head::default()
    };
    (head, chat.talk)
}

/// Return a message with its time, or the items of a response.
fn items(message: &Value) -> Vec<Value> {
    if text(message, "object") == Some("response") {
        return list(message, "output").to_vec();
    }
    let mut message = message.clone();
    let time = written_at(&message);
    if let (Some(time), Some(fields)) = (time, message.as_object_mut()) {
        fields.insert("timestamp".to_owned(), json!(time));
    }
    vec![message]
}

/// Return the time of a message, in seconds since 1970 in the log.
#[allow(
    clippy::cast_possible_truncation,
    reason = "a time is rounded down to milliseconds; one beyond them all is cut"
)]
fn written_at(message: &Value) -> Option<String> {
    let seconds = message.pointer("/extra/timestamp")?.as_f64()?;
    timestamp((seconds * 1000.0) as i64).filter(|_| seconds > 0.0)
}
