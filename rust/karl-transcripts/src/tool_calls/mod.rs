//! Tool calls of a trajectory with their results, and the work in them: edited files and commits.

pub(crate) mod edits;
pub(crate) mod processes;
pub(crate) mod shell;
pub(crate) mod trajectory;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::LazyLock;

use karl_log::time::milliseconds;
use regex::Regex;
use serde_json::Value;

use self::edits::edits;
use self::processes::{Action, CommandResult, ExecutedCall, ProcessCall, follow};
use self::shell::{CommandLine, command, shell_edits};
use self::trajectory::{Text, ToolCall, Trajectory};

/// Return the calls of a trajectory in order.
pub(crate) fn calls<'t>(trajectory: &'t Trajectory<'_>) -> Vec<ExecutedCall<'t>> {
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
            ran.push(ExecutedCall {
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

/// Work of one session.
#[derive(Clone, Debug, Default)]
pub struct SessionWork {
    /// Id of the session.
    pub id: String,
    /// Working directory.
    pub directory: Option<PathBuf>,
    /// Time of the first entry, in seconds since 1970.
    pub start: Option<i64>,
    /// Time of the last entry, in seconds since 1970.
    pub end: Option<i64>,
    /// Edits of files, in the order of the transcript.
    pub edits: Vec<FileEdit>,
    /// Commits that the output of `git commit` names.
    pub named_commits: Vec<NamedCommit>,
    /// Ids of sessions and checkpoints that a trailer of a commit may name.
    pub trailers: Vec<String>,
}

/// Edit of one file.
#[derive(Clone, Debug, Default)]
pub struct FileEdit {
    /// Path as the tool call has it.
    pub path: String,
    /// Lines written.
    pub added: Vec<String>,
    /// Lines removed, where the call has them.
    pub removed: Vec<String>,
    /// True if the file, or a folder of that name, was deleted.
    pub deletes: bool,
    /// Id of the tool call.
    pub call: String,
    /// Index of the call's message in the trajectory.
    pub message: usize,
    /// Time, in seconds since 1970.
    pub time: Option<i64>,
}

/// Commit that the output of `git commit` names.
#[derive(Clone, Debug, Default)]
pub struct NamedCommit {
    /// Hash, often abbreviated.
    pub hash: String,
    /// First line of the message.
    pub subject: String,
    /// Id of the tool call.
    pub call: String,
}

/// Return the work in the calls of a trajectory.
pub(super) fn collect_work(trajectory: &Trajectory<'_>, calls: &[ExecutedCall<'_>]) -> SessionWork {
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
fn commits(line: &CommandLine, ran: &ExecutedCall<'_>) -> Vec<NamedCommit> {
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
