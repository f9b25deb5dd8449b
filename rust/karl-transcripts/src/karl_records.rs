//! KARL's records from transcripts, as its four taps write them.
//!
//! ```text
//! transcripts ──► convert ──► prompts ──► record ──────────────► reward, if asked for ──► output
//!                 protected   and their   calls, counts, time,
//!                             calls       next prompt's annotation
//! ```
//!
//! A record is one prompt with the tool calls that followed it: the taps open a buffer at a prompt, add each
//! call, and write the record when the agent stops. The last tap annotates a record at the next prompt; here
//! that prompt is in the transcript too. A prompt without a tool call has no record.
//!
//! Reference: Diomandeee/karl, `karl/trajectory_tap.py`, commits 7d5ef32 and c41d1c5.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::Path;

use karl_log::atomic_output::{OutputKind, OutputTarget};
use karl_log::cancel::Watch;
use karl_log::error::{Error, Result};
use karl_log::format::Component;
use karl_log::input::source::Source;
use karl_log::karl_rewards::Raw;
use karl_log::time::milliseconds;
use karl_reward::{SCORES, Version, round4, score};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::convert::run::target_of;
use crate::convert::{ConvertSettings, Rate, RecordCounts, Report, convert_to};
use crate::outcomes::next_turn::{NextTurn, Verdict, is_written_by_tool, judge, matches, next_turns};
use crate::outcomes::{Outcome, checks};
use crate::tool_calls::calls;
use crate::tool_calls::edits::edits;
use crate::tool_calls::processes::{ExecutedCall, exit_code};
use crate::tool_calls::shell::command;
use crate::tool_calls::trajectory::{ToolCall, Trajectory, TrajectoryMessage, with};

/// File of KARL's records that were all made here, also an empty one. KARL's own store is never replaced.
const KIND: OutputKind = OutputKind {
    names: None,
    is_ours,
    edited: |_| Ok(None),
    foreign: "is not a file of KARL's records that convert wrote",
};

/// Look at the place of a file of records before any work is done.
///
/// # Errors
/// As [`OutputTarget::look`]; [`Error::Io`] if its folder does not exist.
pub fn target(path: &Path, force: bool) -> Result<OutputTarget> {
    target_of(path, &KIND, force)
}

/// Convert transcripts to KARL's records, completely or not at all. A record has a reward if the settings ask
/// for KARL's; without one, KARL's `backfill_rewards` computes it.
///
/// # Errors
/// As [`convert()`](crate::convert::convert), and [`Error::Layout`] if there is no tool call.
pub fn convert_to_karl(
    sources: Vec<Source>,
    target: &OutputTarget,
    settings: &ConvertSettings,
    watch: &Watch,
) -> Result<Report> {
    let scored = match settings.rate {
        Rate::Karl(version, weights) => Some((version, weights)),
        Rate::Log | Rate::Result => None,
    };
    let settings = ConvertSettings { rate: Rate::Log, ..settings.clone() };
    let reshape = |line: &[u8], out: &mut Vec<u8>| records(line, scored, out);
    convert_to(sources, target, &settings, Some(&reshape), watch)
}

/// Write the records of a trajectory; `None` if it is none.
fn records(line: &[u8], scored: Option<(Version, [f64; 3])>, out: &mut Vec<u8>) -> Option<RecordCounts> {
    with(line, |trajectory| {
        let mut counts = RecordCounts::default();
        let calls = calls(trajectory);
        let session = RecordedSession::new(trajectory, &calls);
        for (number, prompt) in prompts(&trajectory.messages).iter().enumerate() {
            match session.record(number, prompt, scored) {
                None => counts.without_calls += 1,
                Some(record) => {
                    counts.written += 1;
                    counts.rewarded += u64::from(record["outcome"]["reward_score"].is_number());
                    out.extend_from_slice(record.to_string().as_bytes());
                    out.push(b'\n');
                }
            }
        }
        counts
    })
}

/// Return whether every record of a file is one of ours.
fn is_ours(path: &Path) -> Result<bool> {
    #[derive(Deserialize)]
    struct Record {
        channel: String,
    }
    let io = |error| Error::io("read", path, error);
    let lines = BufReader::new(File::open(path).map_err(io)?).split(b'\n');
    for line in lines {
        let record = serde_json::from_slice::<Record>(&line.map_err(io)?);
        if !record.is_ok_and(|record| record.channel == CHANNEL) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Prompt of a user, and the work on it.
#[derive(Debug, PartialEq, Eq)]
struct Prompt {
    /// Words of the user; empty if the session begins with the agent.
    text: String,
    /// Messages from the prompt to the next.
    messages: Range<usize>,
    /// Annotation by the next prompt.
    annotation: Annotation,
}

/// Return the prompts of a session in order. A turn that a tool wrote in the user's name belongs to the prompt
/// before it.
fn prompts(messages: &[TrajectoryMessage<'_>]) -> Vec<Prompt> {
    let texts = messages.iter().map(|message| (message.role.as_str(), message.content.as_str()));
    let turns: Vec<_> =
        next_turns(texts).into_iter().filter(|turn| !is_written_by_tool(&turn.text)).collect();
    let starts: Vec<usize> = [0].into_iter().chain(turns.iter().map(|turn| turn.message)).collect();
    let ends = starts.iter().skip(1).copied().chain([messages.len()]);
    let found: Vec<(String, Range<usize>)> =
        starts.iter().zip(ends).map(|(&start, end)| (own_text(&messages[start..end]), start..end)).collect();
    let texts: Vec<String> = found.iter().map(|(text, _)| text.clone()).collect();
    let annotate = |at: usize| Annotation::by(&texts[at], turns.get(at));
    found
        .into_iter()
        .enumerate()
        .map(|(at, (text, messages))| Prompt { text, messages, annotation: annotate(at) })
        .collect()
}

/// Return the words of the user in some messages.
fn own_text(messages: &[TrajectoryMessage<'_>]) -> String {
    let own = messages.iter().filter(|message| message.role.as_str() == "user");
    let texts = own.map(|message| message.content.as_str()).filter(|text| !is_written_by_tool(text));
    texts.collect::<Vec<_>>().join("\n")
}

/// Name of the rule for turns that ask to take the work back.
const UNDO: &str = "undo";

/// Signals of the next prompt; `None` is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Annotation {
    /// True if it corrects the work.
    correction: Option<bool>,
    /// True if it takes the work back, or makes the same request again.
    redo: Option<bool>,
    /// True if there is a next prompt. The end of a transcript does not show that the session ended.
    continued: Option<bool>,
}

impl Annotation {
    /// Annotate the work on a prompt by the turn after it.
    fn by(prompt: &str, next: Option<&NextTurn>) -> Self {
        let Some(next) = next else { return Self::default() };
        let verdict = judge(&next.text, &next.before).map(|judgement| judgement.verdict);
        let corrects = verdict.map(|verdict| verdict == Verdict::Corrects);
        let again = words(prompt) == words(&next.text);
        let undoes = || matches(&next.text, &next.before).iter().any(|rule| rule.name == UNDO);
        let redo = match corrects {
            _ if again => Some(true),
            Some(true) if undoes() => Some(true),
            Some(false) => Some(false),
            _ => None,
        };
        Self { correction: corrects, redo, continued: Some(true) }
    }
}

/// Return the words of a prompt, without case and marks.
fn words(prompt: &str) -> Vec<String> {
    let words = prompt.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// Channel of the records, which tells them from those of KARL's taps (`live`) and its extractor (`backfill`).
const CHANNEL: &str = "karl-fast";

/// Maximum length of a prompt in characters, and of a record's list of events.
const PROMPT_LENGTH: usize = 500;
const EVENTS: usize = 50;

/// Baseline of an advantage in a store without rewards.
const BASELINE: f64 = 0.5;

/// Session that the records are made of.
struct RecordedSession<'t> {
    trajectory: &'t Trajectory<'t>,
    calls: Vec<&'t ToolCall<'t>>,
    /// Result of each call.
    ran: &'t [ExecutedCall<'t>],
}

/// Calls that followed a prompt, and their results.
#[derive(Clone, Copy)]
struct PromptCalls<'s> {
    calls: &'s [&'s ToolCall<'s>],
    ran: &'s [ExecutedCall<'s>],
}

impl<'t> RecordedSession<'t> {
    /// Take a trajectory, and the results of its calls in their order.
    fn new(trajectory: &'t Trajectory<'t>, ran: &'t [ExecutedCall<'t>]) -> Self {
        let calls = trajectory.messages.iter().flat_map(|message| &message.tool_calls);
        Self { trajectory, calls: calls.collect(), ran }
    }

    /// Return the record of a prompt, with its reward if it is asked for; `None` without a tool call.
    fn record(&self, number: usize, prompt: &Prompt, scored: Option<(Version, [f64; 3])>) -> Option<Value> {
        let work = self.calls_after(prompt).filter(|work| !work.calls.is_empty())?;
        let id = self.trajectory.id.as_str();
        let source = &self.trajectory.source;
        let timing = self.timing(prompt);
        let counted = CallCounts::of(work);
        let mut record = json!({
            "id": format!("traj_{id}_{number}"),
            "session_id": id,
            "channel": CHANNEL,
            "recorded_at": timing["ended_at"],
            "skill": {"name": null, "domain": null},
            "context": {
                "prompt_text": prompt.text.chars().take(PROMPT_LENGTH).collect::<String>(),
                "cwd": source.cwd,
                "git_repo": source.git["repository_url"].as_str().map(repository_name),
            },
            "trajectory": self.trajectory(work, &counted),
            "outcome": outcome(prompt.annotation, self.build(work)),
            "timing": timing,
            "quality": counted.quality(),
        });
        if let Some((version, weights)) = scored {
            rate(&mut record, version, weights);
        }
        Some(record)
    }

    fn calls_after(&self, prompt: &Prompt) -> Option<PromptCalls<'_>> {
        let before = |end: usize| self.ran.partition_point(|ran| ran.message < end);
        let places = before(prompt.messages.start)..before(prompt.messages.end);
        Some(PromptCalls { calls: self.calls.get(places.clone())?, ran: self.ran.get(places)? })
    }

    fn trajectory(&self, work: PromptCalls<'_>, counted: &CallCounts) -> Value {
        let calls = work.calls.iter().zip(work.ran).take(EVENTS);
        let events = calls.map(|(call, ran)| event(call, ran, &self.trajectory.messages));
        json!({
            "tool_sequence": counted.names,
            "tool_counts": counted.tools,
            "total_tools": counted.names.len(),
            "successes": counted.successes,
            "failures": counted.failures,
            "bash_errors": counted.bash_errors,
            "events": events.collect::<Vec<_>>(),
        })
    }

    /// Return whether the last build after the last edit passed.
    fn build(&self, work: PromptCalls<'_>) -> Option<bool> {
        let directory = self.trajectory.source.cwd.as_deref().map(Path::new);
        let mut outcome = Outcome::default();
        checks(work.ran, directory, &mut outcome);
        outcome.get(Component::Build).map(|passed| passed > 0.0)
    }

    fn timing(&self, prompt: &Prompt) -> Value {
        let messages = &self.trajectory.messages[prompt.messages.clone()];
        let mut moments = messages.iter().filter_map(|message| message.timestamp.some());
        let first = moments.next();
        let last = moments.next_back().or(first);
        let span = || Some(milliseconds(last?.as_bytes())? - milliseconds(first?.as_bytes())?);
        json!({
            "started_at": utc(first.unwrap_or_default()),
            "ended_at": utc(last.unwrap_or_default()),
            "duration_s": span().map(|span| span as f64 / 1000.0),
        })
    }
}

/// Counts of the calls of a record.
struct CallCounts {
    names: Vec<String>,
    tools: Map<String, Value>,
    successes: usize,
    failures: usize,
    bash_errors: usize,
}

impl CallCounts {
    fn of(work: PromptCalls<'_>) -> Self {
        let names: Vec<String> = work.calls.iter().map(|call| tool_name(call)).collect();
        let with = |success| work.ran.iter().filter(|ran| ran.success == Some(success)).count();
        let failed_commands =
            work.ran.iter().zip(&names).filter(|(ran, name)| *name == BASH && ran.success == Some(false));
        Self {
            tools: tool_counts(&names),
            successes: with(true),
            failures: with(false),
            bash_errors: failed_commands.count(),
            names,
        }
    }

    /// Return KARL's grade of a session. A transcript marks no call as a correction.
    fn quality(&self) -> Value {
        let share = |count: usize| count as f64 / self.names.len() as f64;
        let error_rate = share(self.failures + self.bash_errors);
        let grade = match error_rate {
            rate if rate > 0.3 => "low",
            rate if rate > 0.15 => "medium",
            _ => "high",
        };
        json!({
            "grade": grade,
            "success_rate": round3(share(self.successes)),
            "error_rate": round3(error_rate),
            "correction_count": 0,
            "tool_diversity": self.tools.len(),
        })
    }
}

fn outcome(annotation: Annotation, build: Option<bool>) -> Value {
    let Annotation { correction, redo, continued } = annotation;
    let annotated = correction.or(redo).or(continued).or(build).is_some();
    json!({
        "annotation_status": if annotated { "annotated" } else { "pending" },
        "correction_detected": correction,
        "build_success": build,
        "redo_detected": redo,
        "session_continued": continued,
        "reward_score": null,
    })
}

/// Write the reward into a record, with the keys and the baseline of KARL's `backfill_rewards`.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole component is a count")]
fn rate(record: &mut Value, version: Version, weights: [f64; 3]) {
    let text = record.to_string();
    let Ok(reward) = Raw::of(text.as_bytes()).and_then(|raw| score(&raw, version, weights)) else { return };
    let components = reward.components.iter().map(|one| {
        let value = if one.whole { json!(one.value as u64) } else { json!(one.value) };
        (one.name.to_owned(), value)
    });
    let outcome = &mut record["outcome"];
    outcome["reward_score"] = json!(reward.score);
    outcome["reward_components"] = Value::Object(components.collect());
    for (name, score) in SCORES.iter().zip(&reward.signals) {
        outcome[*name] = json!(score);
    }
    outcome["advantage"] = json!(round4(reward.score - BASELINE));
    outcome["annotation_status"] = json!("scored");
}

/// Return a number rounded as Python's `round(number, 3)`.
fn round3(number: f64) -> f64 {
    format!("{number:.3}").parse().unwrap_or(number)
}

/// Return the name in the address of a repository.
fn repository_name(address: &str) -> &str {
    let name = address.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or(address);
    name.strip_suffix(".git").unwrap_or(name)
}

/// Parameters that an event keeps, and their maximum length in characters.
const KEY_PARAMS: [&str; 6] = ["file_path", "command", "pattern", "query", "url", "description"];
const PARAM_LENGTH: usize = 200;

/// Tool that runs a command, in KARL's words.
const BASH: &str = "Bash";

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
fn tool_name(call: &ToolCall<'_>) -> String {
    let name = call.function.name.some().unwrap_or("?");
    NAMES.iter().find(|(known, _)| *known == name).map_or(name, |(_, karl)| karl).to_owned()
}

/// Return the event of a call, with KARL's keys.
fn event(call: &ToolCall<'_>, ran: &ExecutedCall<'_>, messages: &[TrajectoryMessage<'_>]) -> Value {
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

/// Return the exit status of a command; `None` if it is unknown, or if it is not a command.
fn exit_status(name: &str, ran: &ExecutedCall<'_>) -> Option<i64> {
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
fn utc(moment: &str) -> String {
    moment.strip_suffix('Z').map_or_else(|| moment.to_owned(), |moment| format!("{moment}+00:00"))
}

/// Return the counts of tools by name, in the order of their first calls.
fn tool_counts(names: &[String]) -> Map<String, Value> {
    let mut counts: Vec<(&String, u64)> = Vec::new();
    for name in names {
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    counts.into_iter().map(|(name, count)| (name.clone(), json!(count))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool_calls::trajectory::with;
    use serde_json::json;

    #[test]
    fn values_of_other_types_are_no_trajectory() {
        let record = |source: serde_json::Value| {
            let messages = json!([{"role": "user", "content": "go"}]);
            let line = json!({"id": "s", "source": source, "messages": messages}).to_string();
            records(line.as_bytes(), None, &mut Vec::new()).map(|counts| counts.without_calls)
        };
        assert_eq!(record(json!({"cwd": "/shop"})), Some(1));
        assert_eq!(record(json!({"cwd": 5})), None);
    }

    #[test]
    fn a_prompt_has_the_messages_up_to_the_next() {
        let says = |role: &str, content: &str| json!({"role": role, "content": content});
        let messages = [
            says("system", "be brief"),
            says("user", "add a test"),
            says("user", "for add"),
            says("assistant", "done"),
            says("user", "<task-notification>the tests are failing</task-notification>"),
            says("assistant", "I look"),
            says("user", "thanks"),
        ];
        let record = json!({"id": "s", "messages": messages}).to_string();
        let found = with(record.as_bytes(), |trajectory| prompts(&trajectory.messages)).unwrap();
        let seen: Vec<_> = found.iter().map(|one| (one.text.as_str(), one.messages.clone())).collect();
        assert_eq!(seen, [("add a test\nfor add", 0..6), ("thanks", 6..7)]);
        assert_eq!([0, 1].map(|at| found[at].annotation.correction), [Some(false), None]);
    }

    #[test]
    fn moments_addresses_and_shares_by_hand() {
        assert_eq!(utc("2026-01-05T09:01:17.000Z"), "2026-01-05T09:01:17.000+00:00");
        assert_eq!([utc(""), utc("2026-01-05T09:01:17+01:00")], ["", "2026-01-05T09:01:17+01:00"]);
        for address in
            ["git@github.com:dev/shop.git", "https://github.com/dev/shop/", "ssh://host/shop.git", "shop"]
        {
            assert_eq!(repository_name(address), "shop", "{address}");
        }
        // As Python rounds: 0.0625 is exact, and goes to the even digit.
        let rounded = [2.0 / 3.0, 0.0625, 0.1875].map(|share| round3(share).to_string());
        assert_eq!(rounded, ["0.667", "0.062", "0.188"]);
    }

    fn by(prompt: &str, next: &str) -> [Option<bool>; 3] {
        let next = NextTurn { message: 2, before: "Done.".to_owned(), text: next.to_owned() };
        let found = Annotation::by(prompt, Some(&next));
        [found.correction, found.redo, found.continued]
    }

    #[test]
    fn the_next_prompt_annotates() {
        let [yes, no] = [Some(true), Some(false)];
        for (next, wanted) in [
            ("it still doesn't work", [yes, None, yes]),
            ("revert that", [yes, yes, yes]),
            ("thanks, looks good", [no, no, yes]),
            ("what does this function return?", [None, None, yes]),
            ("Why is the till SLOW?", [None, yes, yes]),
        ] {
            assert_eq!(by("why is the till slow", next), wanted, "{next}");
        }
        assert_eq!(Annotation::by("why is the till slow", None), Annotation::default());
    }
}
