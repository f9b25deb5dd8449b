//! Tool calls of a trajectory with their results, and the work in them: edited files and commits.

pub(crate) mod edits;
pub(crate) mod processes;
pub mod session;
pub(crate) mod shell;
pub(crate) mod trajectory;

use std::collections::HashMap;
use std::sync::LazyLock;

use karl_log::time::milliseconds;
use regex::Regex;
use serde_json::Value;

use self::edits::edits;
use self::processes::{Action, CommandResult, ProcessCall, Ran, follow};
use self::session::{FileEdit, NamedCommit, SessionWork};
use self::shell::{CommandLine, command, shell_edits};
use self::trajectory::{Text, ToolCall, Trajectory};

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
