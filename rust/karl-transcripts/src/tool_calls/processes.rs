//! Processes that outlive the call that started them: their later output, and how they ended.
//!
//! Codex returns from `exec_command` with `Process running with session ID 4711`, and the rest comes from
//! `write_stdin`. Claude Code returns from a background shell with its id and the file of its output; the rest
//! comes from `BashOutput`, `TaskOutput`, the file, and a notification. A process that is not known to have
//! ended says nothing: what it printed so far may be followed by a failure.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::edits::EditedFile;
use super::shell::CommandLine;
use super::trajectory::Trajectory;

/// Tool call, with its result.
#[derive(Debug)]
pub(crate) struct ExecutedCall<'t> {
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
    pub(crate) result: CommandResult<'t>,
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

impl ExecutedCall<'_> {
    /// Return whether the user refused or stopped the call.
    pub(crate) fn is_refused_by_user(&self) -> bool {
        self.begins(&REFUSED)
    }

    /// Return whether the call was never executed.
    pub(crate) fn is_refused(&self) -> bool {
        self.begins(&REFUSED) || self.begins(&NOT_RUN)
    }

    fn begins(&self, texts: &[&str]) -> bool {
        let output = self.output.trim_start();
        texts.iter().any(|text| output.starts_with(text))
    }
}

/// Result of a command, with what its process gave to later calls.
#[derive(Debug, Default)]
pub(crate) struct CommandResult<'t> {
    /// Text of the output, without what the tool wrote around it.
    pub(crate) output: Cow<'t, str>,
    /// True if the command succeeded; `None` if unknown.
    pub(crate) success: Option<bool>,
    /// Exit status.
    pub(crate) code: Option<i64>,
    /// True if the process was stopped, or was still running when it was last seen.
    pub(crate) unfinished: bool,
}

/// Call about a process that another one started.
#[derive(Debug)]
pub(crate) struct ProcessCall {
    /// Id of the process, or path of a file that may be its output.
    process: String,
    /// True if the call ends the process.
    stops: bool,
    /// True if the call reads a file, from its beginning.
    reads: bool,
}

/// Keys of a process's id in the arguments of a call.
const IDS: [&str; 5] = ["session_id", "bash_id", "shell_id", "task_id", "process_id"];

/// Keys of the path of a file that is read.
const FILES: [&str; 3] = ["file_path", "absolute_path", "path"];

/// Character that a terminal takes for Ctrl-C.
const INTERRUPT: char = '\u{3}';

impl ProcessCall {
    /// Return the call of a tool about a process or a file.
    pub(super) fn of(tool: &str, arguments: &Value) -> Option<Self> {
        let text = |key: &&str| match arguments.get(key)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        if let Some(process) = IDS.iter().find_map(text) {
            let typed = arguments.get("chars").and_then(Value::as_str).unwrap_or_default();
            let name = tool.to_ascii_lowercase();
            let stops = ["kill", "stop"].iter().any(|verb| name.contains(verb)) || typed.contains(INTERRUPT);
            return Some(Self { process, stops, reads: false });
        }
        let from_the_beginning = arguments.get("offset").is_none_or(|offset| offset.as_i64() == Some(0));
        let path = FILES.iter().find_map(text).filter(|_| from_the_beginning)?;
        Some(Self { process: path, stops: false, reads: true })
    }
}

/// Part of the output of a process.
#[derive(Debug, Default)]
struct Part<'t> {
    output: Cow<'t, str>,
    success: Option<bool>,
    code: Option<i64>,
    state: State,
    /// Names under which later calls mean the process.
    names: Vec<String>,
}

/// State of a process as a result says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Unsaid,
    Running,
    Ended,
    Stopped,
}

/// Set the result of every command.
pub(super) fn follow<'t>(trajectory: &'t Trajectory<'_>, calls: &mut [ExecutedCall<'t>]) {
    let mut processes: HashMap<String, usize> = HashMap::new();
    for at in 0..calls.len() {
        let (output, success) = (calls[at].output, calls[at].success);
        match later_part(&calls[at], &processes) {
            Some((process, part)) => calls[process].result.add(part),
            None if matches!(calls[at].action, Action::Shell(_)) => {
                let part = part(output, success);
                processes.extend(part.names.iter().map(|name| (name.clone(), at)));
                calls[at].result = CommandResult {
                    output: part.output,
                    success: part.success,
                    code: part.code,
                    unfinished: matches!(part.state, State::Running | State::Stopped),
                };
            }
            None => {}
        }
    }
    for message in &trajectory.messages {
        for (name, part) in notifications(message.content.as_str()) {
            if let Some(&process) = processes.get(&name) {
                calls[process].result.add(part);
            }
        }
    }
}

/// Return what a call adds to a process that runs.
fn later_part<'t>(call: &ExecutedCall<'t>, processes: &HashMap<String, usize>) -> Option<(usize, Part<'t>)> {
    match &call.action {
        Action::Process(about) => {
            let &process = processes.get(&about.process)?;
            let mut added = part(call.output, call.success);
            if about.reads {
                added = Part { output: without_numbers(call.output).into(), ..Part::default() };
            } else if about.stops && call.success != Some(false) {
                added.state = State::Stopped;
            } else if added.state == State::Unsaid {
                // A message of the tool, as for a process that it does not know.
                added = Part::default();
            }
            Some((process, added))
        }
        Action::Shell(line) => {
            let &process = processes.get(read_file(line)?)?;
            Some((process, Part { output: call.output.into(), ..Part::default() }))
        }
        _ => None,
    }
}

/// Return the file that a command line reads to its end, if it does nothing else.
fn read_file(line: &CommandLine) -> Option<&str> {
    let is_reading = |name: &str| matches!(name, "cat" | "tail" | "sleep");
    let words = line.steps.iter().map(|step| &step.words);
    let mut read = None;
    for words in words {
        let name = words.first().filter(|name| is_reading(name))?;
        read = words.last().filter(|_| name != "sleep").or(read);
    }
    read.map(String::as_str)
}

impl<'t> CommandResult<'t> {
    /// Add a part of the output, and how the process ended if the part says so.
    fn add(&mut self, part: Part<'t>) {
        // A file, and `TaskOutput`, have the output from its beginning.
        let known = self.output.trim_end();
        if part.output.starts_with(known) {
            self.output = part.output;
        } else if !part.output.trim().is_empty() && !known.ends_with(part.output.trim_end()) {
            self.output.to_mut().push_str(&part.output);
        }
        match part.state {
            State::Unsaid => {}
            State::Running | State::Stopped => self.unfinished = true,
            State::Ended => {
                self.unfinished = false;
                (self.success, self.code) = (part.success, part.code);
            }
        }
    }
}

/// Read the result of a shell call.
fn part(text: &str, success: Option<bool>) -> Part<'_> {
    codex(text, success).or_else(|| tagged(text)).or_else(|| background(text)).unwrap_or_else(|| Part {
        output: text.into(),
        success,
        code: exit_code(text),
        ..Part::default()
    })
}

/// Most lines in front of an output of Codex.
const CODEX_LINES: usize = 8;

/// Beginnings of these lines.
const CODEX: [&str; 7] = [
    "Chunk ID: ",
    "Wall time: ",
    "Exit code: ",
    "Process exited with code ",
    "Process running with session ID ",
    "Original token count: ",
    "Total output lines: ",
];

/// Read a result of Codex: lines about the process, and its output behind `Output:`.
fn codex(text: &str, success: Option<bool>) -> Option<Part<'_>> {
    let is_about = |line: &str| CODEX.iter().any(|begin| line.starts_with(begin));
    if !is_about(text) {
        return None;
    }
    let mut part = Part { success, ..Part::default() };
    let mut at = 0;
    for line in text.split_inclusive('\n').take(CODEX_LINES) {
        let content = line.trim_end();
        if content != "Output:" && !is_about(line) {
            break;
        }
        at += line.len();
        if content == "Output:" {
            break;
        }
        if let Some(id) = content.strip_prefix("Process running with session ID ") {
            part.names.push(id.to_owned());
            part.state = State::Running;
        }
        let code =
            ["Exit code: ", "Process exited with code "].iter().find_map(|key| content.strip_prefix(key));
        if let Some(code) = code.and_then(|code| code.trim().parse().ok()) {
            (part.code, part.success, part.state) = (Some(code), Some(code == 0), State::Ended);
        }
    }
    part.output = text[at..].into();
    Some(part)
}

/// Read a result of `BashOutput` or `TaskOutput`: values between tags.
fn tagged(text: &str) -> Option<Part<'_>> {
    let text = text.trim_start();
    if !["<status>", "<retrieval_status>", "<task_id>", "<shell_id>"].iter().any(|tag| text.starts_with(tag))
    {
        return None;
    }
    let status = tag(text, "status")?;
    let code: Option<i64> = tag(text, "exit_code").and_then(|code| code.trim().parse().ok());
    let outputs: Vec<&str> =
        ["stdout", "stderr", "output", "error"].iter().filter_map(|name| tag(text, name)).collect();
    let (state, ended) = ended(status);
    Some(Part {
        output: outputs
            .iter()
            .fold(String::new(), |text, output| text + "\n" + output.trim_matches('\n'))
            .into(),
        success: code.map(|code| code == 0).or(ended),
        code,
        state,
        names: Vec::new(),
    })
}

/// Return the state that a status names, and whether the process succeeded.
fn ended(status: &str) -> (State, Option<bool>) {
    match status.trim() {
        "completed" => (State::Ended, Some(true)),
        "failed" => (State::Ended, Some(false)),
        "killed" | "stopped" => (State::Stopped, None),
        _ => (State::Running, None),
    }
}

/// Return the text between two tags; up to the last end, since an output may have tags.
fn tag<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    Some(rest.rsplit_once(&format!("</{name}>"))?.0)
}

/// Line that Claude Code writes for a command that goes on in the background.
static BACKGROUND: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?m)^Command (?:running in background|was [a-z -]*backgrounded|did not complete)[^\n]*?\bID: ([\w-]+)[^\n]*$",
    )
    .ok()
});

/// File of its output.
static OUTPUT_FILE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"Output is being written to: (\S+?\.output)\b").ok());

/// Read a result of a command that goes on in the background.
fn background(text: &str) -> Option<Part<'_>> {
    let found = BACKGROUND.as_ref()?.captures(text)?;
    let (line, id) = (found.get(0)?, found.get(1)?);
    let file = OUTPUT_FILE.as_ref().and_then(|pattern| pattern.captures(line.as_str()));
    let file = file.and_then(|file| file.get(1)).map(|file| file.as_str().to_owned());
    Some(Part {
        output: text[..line.start()].into(),
        state: State::Running,
        names: [id.as_str().to_owned()].into_iter().chain(file).collect(),
        ..Part::default()
    })
}

/// Status in the summary of a notification.
static NOTIFIED_CODE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"exit code (\d+)").ok());

/// Return the processes whose end a message of Claude Code notes.
fn notifications(text: &str) -> impl Iterator<Item = (String, Part<'static>)> + '_ {
    text.split("<task-notification>").skip(1).filter_map(|note| {
        let first = |name: &str| Some(tag_first(note, name)?.trim().to_owned());
        let (state, ended) = ended(&first("status")?);
        let summary = first("summary").unwrap_or_default();
        let code = NOTIFIED_CODE.as_ref().and_then(|pattern| pattern.captures(&summary));
        let code = code.and_then(|code| code[1].parse::<i64>().ok());
        let success = code.map(|code| code == 0).or(ended);
        Some((first("task-id")?, Part { success, code, state, ..Part::default() }))
    })
}

/// Return the text between the first tags of a name.
fn tag_first<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0)
}

/// Return the text of a file without the numbers that a tool writes in front of its lines.
fn without_numbers(text: &str) -> String {
    let line = |line: &str| {
        let digits = line.trim_start().trim_start_matches(|letter: char| letter.is_ascii_digit());
        let is_numbered = digits.len() < line.trim_start().len() && digits.starts_with(['→', '\t']);
        let rest = if is_numbered { digits.trim_start_matches(['→', '\t']) } else { line };
        rest.to_owned()
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Return the exit status in the first line of a result, as Claude Code writes it.
pub(crate) fn exit_code(output: &str) -> Option<i64> {
    let first = output.trim_start().lines().next()?;
    first.strip_prefix("Exit code ").or_else(|| first.strip_prefix("Exit code: "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::calls;
    use super::super::trajectory::with;
    use super::*;

    /// Return the output, the exit status and `unfinished` of the first call.
    fn first(parts: &[(&str, Value, &str)]) -> (String, Option<i64>, bool) {
        let messages = parts.iter().enumerate().flat_map(|(at, (name, arguments, output))| {
            let function = json!({"name": name, "arguments": arguments.to_string()});
            let id = at.to_string();
            if *name == "user" {
                return vec![json!({"role": "user", "content": output})];
            }
            vec![
                json!({"role": "assistant", "content": "", "tool_calls": [{"id": id, "function": function}]}),
                json!({"role": "tool", "tool_call_id": id, "content": output}),
            ]
        });
        let record = json!({"id": "s", "messages": messages.collect::<Vec<_>>()}).to_string();
        let found = with(record.as_bytes(), |trajectory| {
            let calls = calls(trajectory);
            let result = &calls[0].result;
            (result.output.trim().to_owned(), result.code, result.unfinished)
        });
        found.unwrap()
    }

    fn exec(output: &str) -> (&'static str, Value, String) {
        ("exec_command", json!({"cmd": "pytest"}), format!("Chunk ID: a\nWall time: 1.0 seconds\n{output}"))
    }

    #[test]
    fn a_session_of_codex_ends_by_its_last_chunk() {
        let (name, arguments, running) = exec("Process running with session ID 7\nOutput:\n..");
        let (_, _, ended) = exec("Process exited with code 1\nOutput:\n.F\n1 failed\n");
        let poll = json!({"session_id": 7, "chars": ""});
        let other = json!({"session_id": 8, "chars": ""});
        let run = (name, arguments, running.as_str());
        assert_eq!(first(std::slice::from_ref(&run)), ("..".to_owned(), None, true));
        assert_eq!(first(&[run.clone(), ("write_stdin", other, &ended)]), ("..".to_owned(), None, true));
        let whole = "...F\n1 failed".to_owned();
        assert_eq!(
            first(&[run.clone(), ("write_stdin", poll.clone(), &ended)]),
            (whole.clone(), Some(1), false)
        );
        let between = ("write_stdin", poll.clone(), "write_stdin failed: unknown session");
        assert_eq!(first(&[run.clone(), between, ("write_stdin", poll, &ended)]), (whole, Some(1), false));
        let stop = ("write_stdin", json!({"session_id": 7, "chars": "\u{3}"}), ended.as_str());
        assert!(first(&[run, stop]).2);
    }

    #[test]
    fn a_background_shell_of_claude_ends_by_a_tool_a_file_or_a_notification() {
        let text = "Command running in background with ID: b1. Output is being written to: /t/tasks/b1.output. You \
                    will be notified when it completes.";
        let run = ("Bash", json!({"command": "pytest", "run_in_background": true}), text);
        assert_eq!(first(std::slice::from_ref(&run)), (String::new(), None, true));
        let running = "<retrieval_status>timeout</retrieval_status>\n\n<task_id>b1</task_id>\n\n<task_type>local_bash\
                       </task_type>\n\n<status>running</status>\n\n<output>\n4 passed in 1s\n</output>";
        let polled = ("TaskOutput", json!({"task_id": "b1", "block": true}), running);
        assert_eq!(first(&[run.clone(), polled.clone()]), ("4 passed in 1s".to_owned(), None, true));
        let done = "<retrieval_status>success</retrieval_status>\n\n<task_id>b1</task_id>\n\n<status>failed</status>\n\n\
                    <exit_code>1</exit_code>\n\n<output>\n4 passed in 1s\n1 failed in 2s\n</output>";
        let ended = ("TaskOutput", json!({"task_id": "b1"}), done);
        let whole = "4 passed in 1s\n1 failed in 2s".to_owned();
        assert_eq!(first(&[run.clone(), polled, ended]), (whole, Some(1), false));
        let old = "<status>completed</status>\n\n<exit_code>0</exit_code>\n\n<stdout>\n2 passed in 1s\n</stdout>\n\n\
                   <timestamp>2025-08-01T10:00:00Z</timestamp>";
        let bash_output = ("BashOutput", json!({"bash_id": "b1"}), old);
        assert_eq!(first(&[run.clone(), bash_output]), ("2 passed in 1s".to_owned(), Some(0), false));
        let killed = ("KillShell", json!({"shell_id": "b1"}), "Successfully killed shell: b1");
        assert!(first(&[run.clone(), killed]).2);
        let note = "<task-notification>\n<task-id>b1</task-id>\n<status>completed</status>\n<summary>Background command \
                    \"x\" completed (exit code 0)</summary>\n</task-notification>";
        let file = ("Read", json!({"file_path": "/t/tasks/b1.output"}), "     1→2 passed in 1s\n     2→");
        assert_eq!(
            first(&[run.clone(), ("user", json!({}), note), file.clone()]),
            ("2 passed in 1s".to_owned(), Some(0), false)
        );
        assert!(first(&[run.clone(), file]).2);
        let tail = ("Bash", json!({"command": "sleep 5; tail -5 /t/tasks/b1.output"}), "2 passed in 1s");
        assert_eq!(
            first(&[run, tail, ("user", json!({}), note)]),
            ("2 passed in 1s".to_owned(), Some(0), false)
        );
    }
}
