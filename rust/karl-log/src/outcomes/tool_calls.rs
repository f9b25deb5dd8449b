//! Tool calls of a trajectory with their results, and the work in them: edited files and commits.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::edits::{EditedFile, edits};
use super::processes::{CommandResult, ProcessCall, follow};
use super::session::{FileEdit, NamedCommit, SessionWork};
use super::shell::{CommandLine, command, shell_edits};
use super::trajectory::{Text, ToolCall, Trajectory};
use crate::time::milliseconds;

/// Tool call, with its result.
#[derive(Debug)]
pub(crate) struct Ran<'t> {
    pub(crate) id: &'t str,
    /// Index of its message.
    pub(crate) message: usize,
    /// Index of the message with its result.
    pub(crate) answer: Option<usize>,
    /// Seconds since 1970.
    pub(crate) time: Option<i64>,
    /// What it did.
    pub(crate) action: Action,
    /// Text of its result; empty without one.
    pub(crate) output: &'t str,
    /// True if the tool succeeded; `None` if unknown.
    pub(crate) success: Option<bool>,
    /// Result of its command, with the later output of the process.
    pub(super) result: CommandResult<'t>,
}

/// Action of a tool call.
#[derive(Debug)]
pub(crate) enum Action {
    /// Edit of files.
    Edit(Vec<EditedFile>),
    /// Command line of a shell.
    Shell(CommandLine),
    /// Look at a process that an earlier call started, or its end.
    Process(ProcessCall),
    /// Anything else.
    Other,
}

/// Texts in place of a result if the user refused the call or stopped it.
const REFUSED: [&str; 4] = [
    "The user doesn't want to proceed with this tool use",
    "The user doesn't want to take this action",
    "[Request interrupted by user",
    "aborted by user",
];

/// Texts in place of a result if a rule or the tool refused the call.
const NOT_RUN: [&str; 2] = ["Permission for this tool use was denied", "<tool_use_error>"];

impl Ran<'_> {
    /// Return whether the user refused or stopped the call.
    pub(super) fn is_refused_by_user(&self) -> bool {
        self.begins(&REFUSED)
    }

    /// Return whether the call was never executed.
    pub(super) fn is_refused(&self) -> bool {
        self.begins(&REFUSED) || self.begins(&NOT_RUN)
    }

    fn begins(&self, texts: &[&str]) -> bool {
        let output = self.output.trim_start();
        texts.iter().any(|text| output.starts_with(text))
    }
}

/// Return the calls of a trajectory in order.
pub(crate) fn calls<'t>(trajectory: &'t Trajectory<'_>) -> Vec<Ran<'t>> {
    let mut answers: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, message) in trajectory.messages.iter().enumerate() {
        if let Some(call) = message.tool_call_id.some() {
            answers.entry(call).or_default().push(at);
        }
    }
    let mut ran = Vec::new();
    for (at, message) in trajectory.messages.iter().enumerate() {
        for call in &message.tool_calls {
            let id = call.id.as_str();
            // Some tools use an id again once its call is answered.
            let answer = answers.get(id).and_then(|places| places.iter().find(|&&place| place > at));
            let result = answer.map(|&place| &trajectory.messages[place]);
            ran.push(Ran {
                id,
                message: at,
                answer: answer.copied(),
                time: seconds(&message.timestamp),
                action: action(call),
                output: result.map_or("", |result| result.content.as_str()),
                success: result.and_then(|result| result.success),
                result: CommandResult::default(),
            });
        }
    }
    follow(trajectory, &mut ran);
    ran
}

fn action(call: &ToolCall<'_>) -> Action {
    let Ok(arguments) = serde_json::from_str::<Value>(call.function.arguments.as_str()) else {
        return Action::Other;
    };
    let edits = edits(&arguments);
    if !edits.is_empty() {
        return Action::Edit(edits);
    }
    if let Some(text) = command(&arguments) {
        return Action::Shell(CommandLine::parse(&text));
    }
    ProcessCall::of(call.function.name.as_str(), &arguments).map_or(Action::Other, Action::Process)
}

/// Return a moment in seconds since 1970.
pub(super) fn seconds(moment: &Text<'_>) -> Option<i64> {
    milliseconds(moment.as_str().as_bytes()).map(|moment| moment.div_euclid(1000))
}

/// Return the work in the calls of a trajectory.
pub(super) fn work(trajectory: &Trajectory<'_>, calls: &[Ran<'_>]) -> SessionWork {
    let source = &trajectory.source;
    let mut work = SessionWork {
        id: trajectory.id.as_str().to_owned(),
        directory: source.cwd.as_ref().map(Into::into),
        start: seconds(&trajectory.started_at),
        end: seconds(&trajectory.ended_at),
        trailers: source.session_id.iter().cloned().collect(),
        ..SessionWork::default()
    };
    for ran in calls.iter().filter(|ran| !ran.is_refused()) {
        let (edits, commits) = match &ran.action {
            Action::Edit(edits) if ran.success != Some(false) => (edits.clone(), Vec::new()),
            Action::Shell(line) => {
                let edits = line.steps.iter().flat_map(|step| shell_edits(step, &ran.result.output));
                (edits.filter(|edit| !edit.path.is_empty()).collect(), commits(line, ran))
            }
            _ => continue,
        };
        work.named_commits.extend(commits);
        work.edits.extend(edits.into_iter().map(|edit| FileEdit {
            path: edit.path,
            added: edit.added,
            removed: edit.removed,
            deletes: edit.deletes,
            call: ran.id.to_owned(),
            message: ran.message,
            time: ran.time,
        }));
    }
    work
}

/// Line that `git commit` prints, `[main 1a2b3c4] Subject`, and `git rebase --continue`,
/// `[detached HEAD 1a2b3c4] Subject`.
static COMMITTED: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?m)^\[[^\]\n]* ([0-9a-f]{7,40})\] (.*?)\r?$").ok());

/// Return the commits that the output of a command line names.
fn commits(line: &CommandLine, ran: &Ran<'_>) -> Vec<NamedCommit> {
    let makes = |words: &[String]| {
        let verbs = ["commit", "cherry-pick", "revert", "merge", "am", "rebase"];
        words.first().is_some_and(|word| word == "git")
            && words.iter().any(|word| verbs.contains(&word.as_str()))
    };
    if !line.steps.iter().any(|step| makes(&step.words)) {
        return Vec::new();
    }
    let Some(pattern) = COMMITTED.as_ref() else { return Vec::new() };
    let named = pattern.captures_iter(&ran.result.output).map(|found| NamedCommit {
        hash: found[1].to_owned(),
        subject: found[2].to_owned(),
        call: ran.id.to_owned(),
    });
    named.collect()
}
