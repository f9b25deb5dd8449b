//! Outcome of one trajectory from its own text, and the verdicts of graders and benchmarks: in the log, and in reports
//! beside it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use karl_log::error::{Error, Result};
use karl_log::format::Component;
use karl_log::json::reference_parser;
use serde_json::Value;

use super::checks::{CHECKS, checks};
use super::next_turn::{self, Verdict, next_turns};
use super::outcome::{Evidence, Outcome};
use crate::tool_calls::processes::ExecutedCall;
use crate::tool_calls::trajectory::{Trajectory, TrajectoryMessage};

/// Outcome of a trajectory by its own text.
pub(super) struct TranscriptOutcome {
    pub(super) outcome: Outcome,
    /// Times of the runs behind `tests`, `build` and `lint`.
    pub(super) checked: [Option<i64>; CHECKS.len()],
}

/// Return the components that the transcript itself shows.
pub(super) fn judge(trajectory: &Trajectory<'_>, calls: &[ExecutedCall<'_>]) -> TranscriptOutcome {
    let mut outcome = Outcome::default();
    by_benchmark(trajectory, &mut outcome);
    let directory = trajectory.source.cwd.as_deref().map(Path::new);
    let checked = checks(calls, directory, &mut outcome);
    set_interrupted(trajectory, calls, &mut outcome);
    set_corrected(trajectory, &mut outcome);
    TranscriptOutcome { outcome, checked }
}

/// Formats of benchmarks, whose rewards are verdicts.
const BENCHMARKS: [&str; 3] = ["swe-agent", "atif", "tau-bench"];

/// Set `verified` from the reward of a benchmark's own log.
pub(super) fn by_benchmark(trajectory: &Trajectory<'_>, outcome: &mut Outcome) {
    let format = trajectory.source.format.as_deref().unwrap_or_default();
    // A reward between 0 and 1 is not a verdict.
    let verdict = trajectory.reward.filter(|reward| [0.0, 1.0].contains(reward));
    if let (true, Some(value)) = (BENCHMARKS.contains(&format), verdict) {
        let why = format!("reward of {format} in the log");
        outcome.set(Component::Verified, value, Evidence { why, ..Evidence::default() });
    }
}

/// Set `interrupted`: the user stopped a turn, or refused a call.
fn set_interrupted(trajectory: &Trajectory<'_>, calls: &[ExecutedCall<'_>], outcome: &mut Outcome) {
    let refused = calls.iter().find(|ran| ran.is_refused_by_user());
    let stopped = trajectory.messages.iter().position(|message| message.interrupted);
    let (value, evidence) = match (refused, stopped) {
        (Some(ran), _) => (
            1.0,
            Evidence {
                message: Some(ran.message),
                call: Some(ran.id.to_owned()),
                why: "the user refused the call or stopped it".to_owned(),
                ..Evidence::default()
            },
        ),
        (None, Some(message)) => (
            1.0,
            Evidence {
                message: Some(message),
                why: "the user stopped the turn after this message".to_owned(),
                ..Evidence::default()
            },
        ),
        // Without any message nothing could be stopped.
        (None, None) if trajectory.messages.is_empty() => return,
        (None, None) => (
            0.0,
            Evidence { why: "no turn was stopped and no call refused".to_owned(), ..Evidence::default() },
        ),
    };
    outcome.set(Component::Interrupted, value, evidence);
}

/// Set `corrected`: 1 if a following turn of the user corrects the work, 0 if one goes on and none corrects.
fn set_corrected(trajectory: &Trajectory<'_>, outcome: &mut Outcome) {
    // The turns of a sub-agent's user are its parent's.
    if trajectory.parent.is_some() {
        return;
    }
    // Commands, and other agents in the user's name, do not judge.
    let words = |message: &'_ TrajectoryMessage<'_>| message.role.as_str() != "user" || message.is_of_user();
    let texts = trajectory
        .messages
        .iter()
        .map(|message| (message.role.as_str(), if words(message) { message.content.as_str() } else { "" }));
    let mut judged: Vec<_> = next_turns(texts)
        .into_iter()
        .filter_map(|turn| next_turn::judge(&turn.text, &turn.before).map(|found| (turn.message, found)))
        .collect();
    judged.sort_by_key(|(message, found)| (found.verdict != Verdict::Corrects, *message));
    if let Some((message, found)) = judged.first() {
        let corrects = found.verdict == Verdict::Corrects;
        let what = if corrects { "corrects the work" } else { "goes on" };
        let why = format!("the user's turn {what} (rule {})", found.rule);
        let evidence = Evidence { message: Some(*message), why, ..Evidence::default() };
        outcome.set(Component::Corrected, f64::from(u8::from(corrects)), evidence);
    }
}

/// Keys of SWE-bench's reports, and the verdicts on the tasks that they list.
const LISTS: [(&str, f64); 3] = [("resolved_ids", 1.0), ("unresolved_ids", 0.0), ("empty_patch_ids", 0.0)];

/// Keys of the session or task of a row, and of its verdict.
const IDS: [&str; 4] = ["id", "session_id", "instance_id", "task_id"];
const VERDICTS: [&str; 4] = ["verified", "resolved", "passed", "success"];

/// Verdicts of reports by session or task, with the file of each.
#[derive(Debug, Default)]
pub(super) struct GraderVerdicts(HashMap<String, (f64, String)>);

impl GraderVerdicts {
    /// Read reports: one of SWE-bench, or rows with an id and a verdict, in lines or a list.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Layout`] for a file without any verdict.
    pub(super) fn read(paths: &[PathBuf]) -> Result<Self> {
        let mut verdicts = Self::default();
        for path in paths {
            let text = std::fs::read(path).map_err(|error| Error::io("read", path, error))?;
            let found = Self::of(&text);
            if found.is_empty() {
                let problem = "no verdict in it: wanted a report of SWE-bench, or rows like \
                               {\"id\": \"SESSION\", \"verified\": true}";
                return Err(Error::Layout { path: path.clone(), problem: problem.to_owned() });
            }
            let file = path.display().to_string();
            verdicts.0.extend(found.into_iter().map(|(id, value)| (id, (value, file.clone()))));
        }
        Ok(verdicts)
    }

    fn of(text: &[u8]) -> Vec<(String, f64)> {
        match reference_parser::parse(text) {
            Ok(Value::Array(rows)) => rows.iter().filter_map(row_verdict).collect(),
            Ok(whole) if LISTS.iter().any(|(key, _)| whole.get(*key).is_some()) => report_verdicts(&whole),
            Ok(one) => row_verdict(&one).into_iter().collect(),
            Err(_) => {
                let lines =
                    text.split(|&byte| byte == b'\n').filter_map(|line| reference_parser::parse(line).ok());
                lines.filter_map(|line| row_verdict(&line)).collect()
            }
        }
    }

    /// Set `verified` of a session by its id or task.
    pub(super) fn set(&self, names: &[&str], outcome: &mut Outcome) {
        if let Some((value, file)) = names.iter().find_map(|name| self.0.get(*name)) {
            let why = "report of a grader".to_owned();
            let evidence = Evidence { file: Some(file.clone()), why, ..Evidence::default() };
            outcome.set(Component::Verified, *value, evidence);
        }
    }
}

fn report_verdicts(report: &Value) -> Vec<(String, f64)> {
    let ids = |key: &str| report.get(key).and_then(Value::as_array).into_iter().flatten();
    let all = LISTS.iter().flat_map(|&(key, value)| ids(key).map(move |id| (id, value)));
    all.filter_map(|(id, value)| Some((id.as_str()?.to_owned(), value))).collect()
}

/// Return the id and the verdict of a row: true or false, 1 or 0.
fn row_verdict(row: &Value) -> Option<(String, f64)> {
    let id = IDS.iter().find_map(|key| row.get(*key)?.as_str())?;
    let verdict = VERDICTS.iter().find_map(|key| match row.get(*key)? {
        Value::Bool(passed) => Some(f64::from(*passed)),
        number => number.as_f64().filter(|number| [0.0, 1.0].contains(number)),
    })?;
    Some((id.to_owned(), verdict))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_by_hand() {
        let of = |text: &str| {
            let mut found = GraderVerdicts::of(text.as_bytes());
            found.sort_by(|one, other| one.0.cmp(&other.0));
            found
        };
        let wanted = [("a".to_owned(), 1.0), ("b".to_owned(), 0.0)];
        assert_eq!(of(r#"{"resolved_ids": ["a"], "unresolved_ids": ["b"]}"#), wanted);
        assert_eq!(of(r#"[{"id": "a", "verified": true}, {"instance_id": "b", "resolved": 0}]"#), wanted);
        assert_eq!(of("{\"id\": \"a\", \"verified\": 1.0}\n{\"id\": \"b\", \"passed\": false}\n"), wanted);
        for text in ["", "[]", "{}", r#"{"id": "a", "verified": 0.5}"#, r#"{"id": "a", "verified": "yes"}"#] {
            assert!(of(text).is_empty(), "{text}");
        }
    }
}
