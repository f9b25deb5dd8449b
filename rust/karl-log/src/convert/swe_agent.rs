//! SWE-agent: one `.traj` document a run. Its `history` is the conversation; `trajectory` tells the same by step.
//!
//! The task is the name of the file, for no field of older files names it. Whether it was solved is not in the document
//! but in SWE-bench's report, which SWE-agent puts as `results.json` into the folder of a batch.

use std::path::Path;

use serde_json::Value;

use super::message::{Conversation, Role};
use super::record::{Head, Tokens};
use super::report::Made;
use super::values::{kept, list, quoted, source, text, words};
use crate::layout::sidecar;
use crate::trusted;

/// The trajectory of a document; `digest` is the hash of its bytes.
pub(super) fn read(document: &Value, file: &str, digest: u128, made: &mut Made) -> (Head, Conversation) {
    let mut talk = Conversation::default();
    for message in list(document, "history") {
        // A demonstration stands in the prompt; the run begins after it.
        if message.get("is_demo") == Some(&Value::Bool(true)) {
            made.note("demonstration");
            continue;
        }
        say(message, &mut talk, made);
    }
    let instance =
        Path::new(file).file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let info = document.get("info").unwrap_or(&Value::Null);
    let mut more = kept(document, &["environment"]);
    more.extend(kept(info, &["exit_status", "submission", "swe_agent_version"]));
    more.extend(
        info.get("model_stats").map(|stats| kept(stats, &["instance_cost", "api_calls"])).unwrap_or_default(),
    );
    let count = |key: &str| info.pointer(&format!("/model_stats/{key}")).and_then(Value::as_u64);
    let head = Head {
        id: format!("{instance}/{:016x}", digest >> 64),
        reward: resolved(Path::new(file), &instance, made),
        group: Some(instance),
        tokens: Tokens { input: count("tokens_sent"), output: count("tokens_received"), ..Tokens::default() },
        source: source("swe-agent", file, more),
        ..Head::default()
    };
    (head, talk)
}

/// Whether the report beside a run, or in the folder above its own, says that its task was solved: 1 or 0. None without a
/// report, and where it was not judged; a report that cannot be read is noted.
fn resolved(file: &Path, instance: &str, made: &mut Made) -> Option<f64> {
    // Standard input has nothing beside it.
    let own = file.parent().filter(|_| file != Path::new("-"));
    let folders = [own, own.and_then(Path::parent)].into_iter().flatten();
    let path = folders.map(|folder| folder.join("results.json")).find(|path| path.exists())?;
    let Some(report) = sidecar::read(&path).ok().and_then(|text| trusted::parse(&text).ok()) else {
        made.note("report_unread");
        return None;
    };
    let says = |key: &str| list(&report, key).iter().any(|id| id.as_str() == Some(instance));
    let judged = |reward, keys: &[&str]| keys.iter().any(|key| says(key)).then_some(reward);
    judged(1.0, &["resolved_ids"]).or_else(|| judged(0.0, &["unresolved_ids", "empty_patch_ids"]))
}

fn say(message: &Value, talk: &mut Conversation, made: &mut Made) {
    let content = words(message.get("content"), made);
    match text(message, "role") {
        Some("system") => drop(talk.say(Role::System, &content, b"")),
        Some("assistant") => {
            let at = talk.messages.len();
            talk.say(Role::Assistant, &content, b"");
            for call in list(message, "tool_calls") {
                let function = call.get("function").unwrap_or(&Value::Null);
                let arguments = text(function, "arguments").unwrap_or("{}");
                talk.call(at, &quoted(call, "id"), &quoted(function, "name"), arguments.as_bytes());
            }
        }
        Some("tool") => {
            let id = list(message, "tool_call_ids").first().and_then(Value::as_str).unwrap_or_default();
            let id = super::json::escaped(id);
            if talk.waits(&id) {
                talk.answer(&id, &content, None, b"", made);
            } else {
                made.note("orphan_result");
            }
        }
        Some("user") => drop(talk.say(Role::User, &content, b"")),
        _ => made.note("unknown_block"),
    }
}
