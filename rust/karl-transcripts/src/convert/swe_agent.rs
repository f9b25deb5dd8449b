//! SWE-agent: one `.traj` document per run. Its `history` is the conversation; `trajectory` repeats it by
//! step.
//!
//! The task is the name of the file, because older files have no field for it. Its success is not in the
//! document but in SWE-bench's report, which SWE-agent writes as `results.json` to the folder of a batch.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use karl_log::detect::read_sidecar;
use karl_log::json::reference_parser;
use serde_json::Value;

use super::json::{
    JsonType, JsonTypes, LIST, NUMBER, OBJECT, TEXT, WORDS, arguments, check, escaped, list, pick, quoted,
    source, text, words,
};
use super::message::{Conversation, Role};
use super::report::LineCounts;
use super::run::{Head, Tokens};

/// Extensions of packed files.
const PACKED: [&str; 3] = [".gz", ".zst", ".zstd"];

/// Paths of a document with the expected types.
const WANTED: [(&str, JsonTypes); 16] = [
    ("environment", TEXT),
    ("history", LIST),
    ("history[]", OBJECT),
    ("history[].role", TEXT),
    ("history[].content", WORDS),
    ("history[].tool_calls", LIST),
    ("history[].tool_calls[]", OBJECT),
    ("history[].tool_calls[].id", TEXT),
    ("history[].tool_calls[].function", OBJECT),
    ("history[].tool_calls[].function.name", TEXT),
    ("history[].tool_calls[].function.arguments", &[JsonType::Text, JsonType::Object]),
    ("history[].tool_call_ids", LIST),
    ("history[].tool_call_ids[]", TEXT),
    ("info", OBJECT),
    ("info.model_stats.tokens_sent", NUMBER),
    ("info.model_stats.tokens_received", NUMBER),
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
    let mut talk = Conversation::default();
    let model = model(document);
    for message in list(document, "history") {
        // A demonstration is part of the prompt; the run begins after it.
        if message.get("is_demo") == Some(&Value::Bool(true)) {
            counts.note("demonstration");
            continue;
        }
        say(message, &model, &mut talk, counts);
    }
    let instance = task(file);
    let info = document.get("info").unwrap_or(&Value::Null);
    let mut more = pick(document, &["environment"]);
    more.extend(pick(info, &["exit_status", "submission", "swe_agent_version"]));
    more.extend(
        info.get("model_stats").map(|stats| pick(stats, &["instance_cost", "api_calls"])).unwrap_or_default(),
    );
    let count = |key: &str| info.pointer(&format!("/model_stats/{key}")).and_then(Value::as_u64);
    let head = Head {
        id: format!("{instance}/{:016x}", digest >> 64),
        reward: verdicts.of(Path::new(file), &instance, counts),
        group: Some(instance),
        tokens: Tokens { input: count("tokens_sent"), output: count("tokens_received"), ..Tokens::default() },
        source: source("swe-agent", file, more),
        ..Head::default()
    };
    (head, talk)
}

/// Return the task in the name of a file, packed or not.
pub(super) fn task(file: &str) -> String {
    let plain = PACKED.iter().find_map(|suffix| file.strip_suffix(suffix)).unwrap_or(file);
    Path::new(plain).file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Return the model of a run, which newer files name in their replay settings: an object, or its text.
fn model(document: &Value) -> Vec<u8> {
    let settings = match document.get("replay_config") {
        Some(Value::String(text)) => reference_parser::parse(text.as_bytes()).ok().map(Cow::Owned),
        settings => settings.map(Cow::Borrowed),
    };
    let name = settings.as_deref().and_then(|settings| settings.pointer("/agent/model/name")?.as_str());
    name.map(escaped).unwrap_or_default()
}

fn say(message: &Value, model: &[u8], talk: &mut Conversation, counts: &mut LineCounts) {
    let content = words(message.get("content"), counts).unwrap_or_default();
    if content.is_empty() && list(message, "tool_calls").is_empty() && text(message, "role") != Some("tool") {
        return counts.note("empty_message");
    }
    match text(message, "role") {
        Some("system") => drop(talk.say(Role::System, &content, b"")),
        Some("assistant") => {
            let at = talk.messages.len();
            talk.say(Role::Assistant, &content, b"").model = model.to_vec();
            for call in list(message, "tool_calls") {
                let function = call.get("function").unwrap_or(&Value::Null);
                let arguments = arguments(function.get("arguments"));
                talk.call(at, &quoted(call, "id"), &quoted(function, "name"), arguments.as_bytes(), counts);
            }
        }
        Some("tool") => {
            let id = list(message, "tool_call_ids").first().and_then(Value::as_str).unwrap_or_default();
            let id = escaped(id);
            if talk.waits(&id) {
                talk.answer(&id, &content, None, b"", counts);
            } else {
                counts.note("orphan_result");
            }
        }
        Some("user") => drop(talk.say(Role::User, &content, b"")),
        _ => counts.note("unknown_role"),
    }
}

/// Name of the file.
const NAME: &str = "results.json";

/// Reports read so far.
#[derive(Default)]
pub(super) struct SweBenchReports(Mutex<HashMap<PathBuf, Option<Arc<SweBenchReport>>>>);

/// Tasks in a report.
struct SweBenchReport {
    solved: HashSet<String>,
    failed: HashSet<String>,
}

impl SweBenchReports {
    /// Return 1 if the report beside a run, or one folder up, lists its task as solved, else 0. None without
    /// a report, and for a task that is not in it; an unreadable report is noted.
    pub(super) fn of(&self, file: &Path, instance: &str, counts: &mut LineCounts) -> Option<f64> {
        // Standard input has no such place.
        let own = file.parent().filter(|_| file != Path::new("-"));
        let folders = [own, own.and_then(Path::parent)].into_iter().flatten();
        let path = folders.map(|folder| folder.join(NAME)).find(|path| path.exists())?;
        let Some(report) = self.read(path) else {
            counts.note("report_unread");
            return None;
        };
        let judged = |reward, tasks: &HashSet<String>| tasks.contains(instance).then_some(reward);
        judged(1.0, &report.solved).or_else(|| judged(0.0, &report.failed))
    }

    fn read(&self, path: PathBuf) -> Option<Arc<SweBenchReport>> {
        // Held while it is read: the other threads would read the same one.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(path).or_insert_with_key(|path| SweBenchReport::read(path).map(Arc::new)).clone()
    }
}

impl SweBenchReport {
    fn read(path: &Path) -> Option<Self> {
        let whole = reference_parser::parse(&read_sidecar(path).ok()?).ok()?;
        let tasks = |keys: &[&str]| {
            keys.iter()
                .flat_map(|key| list(&whole, key))
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        };
        Some(Self { solved: tasks(&["resolved_ids"]), failed: tasks(&["unresolved_ids", "empty_patch_ids"]) })
    }
}
