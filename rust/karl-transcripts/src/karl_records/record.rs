//! One record: a prompt, its tool calls, and their outcome.

use std::path::Path;

use karl_log::format::Component;
use karl_log::karl_rewards::Raw;
use karl_log::time::milliseconds;
use karl_reward::{SCORES, Version, round4, score};
use serde_json::{Map, Value, json};

use super::annotation::Annotation;
use super::call::{BASH, event, tool_counts, tool_name, utc};
use super::prompt::Prompt;
use crate::outcomes::{Outcome, checks};
use crate::tool_calls::processes::Ran;
use crate::tool_calls::trajectory::{ToolCall, Trajectory};

/// Channel of the records, which tells them from those of KARL's taps (`live`) and its extractor (`backfill`).
pub(super) const CHANNEL: &str = "karl-fast";

/// Maximum length of a prompt in characters, and of a record's list of events.
const PROMPT_LENGTH: usize = 500;
const EVENTS: usize = 50;

/// Baseline of an advantage in a store without rewards.
const BASELINE: f64 = 0.5;

/// Session that the records are made of.
pub(super) struct RecordedSession<'t> {
    trajectory: &'t Trajectory<'t>,
    calls: Vec<&'t ToolCall<'t>>,
    /// Result of each call.
    ran: &'t [Ran<'t>],
}

/// Calls that followed a prompt, and their results.
#[derive(Clone, Copy)]
struct Work<'s> {
    calls: &'s [&'s ToolCall<'s>],
    ran: &'s [Ran<'s>],
}

impl<'t> RecordedSession<'t> {
    /// Take a trajectory, and the results of its calls in their order.
    pub(super) fn new(trajectory: &'t Trajectory<'t>, ran: &'t [Ran<'t>]) -> Self {
        let calls = trajectory.messages.iter().flat_map(|message| &message.tool_calls);
        Self { trajectory, calls: calls.collect(), ran }
    }

    /// Return the record of a prompt, with its reward if it is asked for; `None` without a tool call.
    pub(super) fn record(
        &self,
        number: usize,
        prompt: &Prompt,
        scored: Option<(Version, [f64; 3])>,
    ) -> Option<Value> {
        let work = self.work(prompt).filter(|work| !work.calls.is_empty())?;
        let id = self.trajectory.id.as_str();
        let source = &self.trajectory.source;
        let timing = self.timing(prompt);
        let counted = Counted::of(work);
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

    fn work(&self, prompt: &Prompt) -> Option<Work<'_>> {
        let before = |end: usize| self.ran.partition_point(|ran| ran.message < end);
        let places = before(prompt.messages.start)..before(prompt.messages.end);
        Some(Work { calls: self.calls.get(places.clone())?, ran: self.ran.get(places)? })
    }

    fn trajectory(&self, work: Work<'_>, counted: &Counted) -> Value {
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
    fn build(&self, work: Work<'_>) -> Option<bool> {
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
struct Counted {
    names: Vec<String>,
    tools: Map<String, Value>,
    successes: usize,
    failures: usize,
    bash_errors: usize,
}

impl Counted {
    fn of(work: Work<'_>) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
