//! Detection of the tool that wrote a transcript, by the keys of its first lines or of its document.

use std::borrow::Cow;
use std::io::Read;
use std::path::Path;

use karl_log::cancel::Watch;
use karl_log::detect::{Wishes, keys_of, probe};
use karl_log::error::{self, Error, Result};
use karl_log::format::Format;
use karl_log::format::preset::{
    ALPACA, GENERIC, INSPECT, KARL, KTO, LM_EVAL, NEMO_GYM, OPENRLHF, PRIME_RL, SKYRL, SLIME, SWE_SMITH,
    TAU_BENCH, TAU2, TINKER, TRL, VERIFIERS, VERL,
};
use karl_log::framing::{Lines, Piece, ValueEnd, Window};
use karl_log::input::source::Source;
use karl_log::json::project::{PathTree, ScanFault, scan};
use karl_log::json::reference_parser;
use serde_json::Value;

/// Supported kind of transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TranscriptKind {
    /// Claude Code, from its own folder or as stream-json: sessions span files.
    ClaudeCode,
    /// Files with one session each.
    Alone(Alone),
    /// Files of one product, over which its sessions are spread.
    Pooled(Pool),
    /// Log in which each record is a rollout.
    Rollouts(&'static Format),
}

/// Kind with one session per file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alone {
    /// Rollouts of Codex.
    Codex,
    /// Runs of SWE-agent.
    SweAgent,
    /// Trials in ATIF.
    Atif,
    /// Runs of mini-swe-agent.
    MiniSweAgent,
    /// Sessions of Pi.
    Pi,
    /// Chats of Gemini CLI.
    Gemini,
    /// Sessions of Copilot CLI.
    Copilot,
    /// Output and transcripts of Cursor's agent.
    Cursor,
    /// Sessions in the format of the Hugging Face Hub.
    Sts,
    /// Traces of verifiers 1.0.
    Traces,
}

impl Alone {
    /// Return whether a session is made of all lines of a file.
    pub(super) const fn is_lines(self) -> bool {
        matches!(self, Self::Pi | Self::Gemini | Self::Copilot | Self::Cursor | Self::Sts | Self::Traces)
    }
}

/// Product whose sessions are spread over several files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Database or storage of opencode.
    OpenCode,
    /// Spans of OpenTelemetry.
    Otlp,
    /// Observations of Langfuse.
    Langfuse,
    /// Events of `OpenHands`.
    OpenHands,
}

impl Pool {
    /// Every pool.
    pub const ALL: [Self; 4] = [Self::OpenCode, Self::Otlp, Self::Langfuse, Self::OpenHands];
}

impl TranscriptKind {
    /// Every kind.
    pub const ALL: [Self; 32] = [
        Self::ClaudeCode,
        Self::Alone(Alone::Codex),
        Self::Alone(Alone::SweAgent),
        Self::Alone(Alone::MiniSweAgent),
        Self::Alone(Alone::Atif),
        Self::Pooled(Pool::OpenCode),
        Self::Alone(Alone::Pi),
        Self::Alone(Alone::Gemini),
        Self::Alone(Alone::Copilot),
        Self::Alone(Alone::Cursor),
        Self::Alone(Alone::Sts),
        Self::Alone(Alone::Traces),
        Self::Pooled(Pool::Otlp),
        Self::Pooled(Pool::Langfuse),
        Self::Pooled(Pool::OpenHands),
        Self::Rollouts(&TRL),
        Self::Rollouts(&VERL),
        Self::Rollouts(&PRIME_RL),
        Self::Rollouts(&VERIFIERS),
        Self::Rollouts(&TAU_BENCH),
        Self::Rollouts(&NEMO_GYM),
        Self::Rollouts(&TAU2),
        Self::Rollouts(&SWE_SMITH),
        Self::Rollouts(&LM_EVAL),
        Self::Rollouts(&INSPECT),
        Self::Rollouts(&SLIME),
        Self::Rollouts(&SKYRL),
        Self::Rollouts(&TINKER),
        Self::Rollouts(&KTO),
        Self::Rollouts(&ALPACA),
        Self::Rollouts(&OPENRLHF),
        Self::Rollouts(&GENERIC),
    ];

    /// Return the name used in options and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Alone(Alone::Codex) => "codex",
            Self::Alone(Alone::SweAgent) => "swe-agent",
            Self::Alone(Alone::Atif) => "atif",
            Self::Pooled(Pool::OpenCode) => "opencode",
            Self::Pooled(Pool::Otlp) => "otlp",
            Self::Pooled(Pool::Langfuse) => "langfuse",
            Self::Pooled(Pool::OpenHands) => "openhands",
            Self::Alone(Alone::Pi) => "pi",
            Self::Alone(Alone::Gemini) => "gemini-cli",
            Self::Alone(Alone::Copilot) => "copilot-cli",
            Self::Alone(Alone::Cursor) => "cursor",
            Self::Alone(Alone::Traces) => "verifiers-traces",
            Self::Alone(Alone::Sts) => "sts",
            Self::Alone(Alone::MiniSweAgent) => "mini-swe-agent",
            Self::Rollouts(format) => format.name,
        }
    }

    /// Return a description in one line.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::ClaudeCode => {
                "Claude Code: ~/.claude/projects, or what --output-format stream-json printed"
            }
            Self::Alone(Alone::Codex) => "Codex: ~/.codex/sessions",
            Self::Alone(Alone::SweAgent) => "SWE-agent: .traj",
            Self::Alone(Alone::MiniSweAgent) => "mini-swe-agent: .traj.json",
            Self::Alone(Alone::Sts) => {
                "Hugging Face session traces (STS): a header with harness, then messages"
            }
            Self::Pooled(Pool::OpenCode) => {
                "opencode: the archive of collect, ~/.local/share/opencode/storage, or opencode export"
            }
            Self::Pooled(Pool::Otlp) => "OpenTelemetry: spans of GenAI or OpenInference as OTLP JSON",
            Self::Pooled(Pool::OpenHands) => "OpenHands: the folder of a conversation, with its events",
            Self::Pooled(Pool::Langfuse) => "Langfuse: observations, traces and scores, as JSON or lines",
            Self::Alone(Alone::Pi) => "Pi: ~/.pi/agent/sessions",
            Self::Alone(Alone::Gemini) => "Gemini CLI: ~/.gemini/tmp/*/chats",
            Self::Alone(Alone::Traces) => "traces.jsonl of verifiers 1.0 and prime-rl",
            Self::Alone(Alone::Copilot) => "Copilot CLI: ~/.copilot/session-state",
            Self::Alone(Alone::Cursor) => {
                "Cursor: what cursor-agent --output-format stream-json printed, or \
                 ~/.cursor/projects/*/agent-transcripts"
            }
            Self::Alone(Alone::Atif) => "ATIF: Harbor's and Terminal-Bench's agent/trajectory.json",
            Self::Rollouts(format) => format.about,
        }
    }

    /// Return the kind of that name, ignoring case; `_` and `-` are equal.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase().replace('_', "-");
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Return the kind of transcripts with these top-level keys in their lines, or in the document that fills
    /// a file.
    ///
    /// # Errors
    /// What they are, if they are of a tool that is not read.
    pub fn by_keys(
        keys: &[String],
        fills_file: bool,
    ) -> std::result::Result<Option<Self>, Cow<'static, str>> {
        if is_cursor_init(keys) {
            return Ok(Some(Self::Alone(Alone::Cursor)));
        }
        let known = if fills_file { [&LINES[..], &DOCUMENTS] } else { [&LINES[..], &[]] };
        for known in known {
            match by_keys(known, keys) {
                Classified::Transcript(Self::Pooled(Pool::OpenHands)) if !has_event_key(keys) => {}
                Classified::Transcript(kind) => return Ok(Some(kind)),
                Classified::Refused(why) => return Err(why),
                _ => {}
            }
        }
        Ok(None)
    }
}

/// Result of the detection of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Classified {
    /// Supported transcript.
    Transcript(TranscriptKind),
    /// Transcript of an unsupported tool.
    Refused(Cow<'static, str>),
    /// Document that is damaged as a whole, or too long.
    Damaged(Cow<'static, str>),
    /// Output of a conversion.
    Converted,
    /// File that accompanies transcripts.
    EntireMetadata,
    /// None of these.
    Nothing,
}

const OLD_COPILOT: Cow<'static, str> = Cow::Borrowed(
    "a session of Copilot CLI before 0.0.342, which is not read; resume it once in a newer Copilot CLI, which writes it \
     to ~/.copilot/session-state",
);
const OPENHANDS: Cow<'static, str> = Cow::Borrowed(
    "results of OpenHands, whose history holds events and not messages; what its model was asked and \
     answered is in its llm_completions folder: karl-fast sample --prompt messages --completion response",
);
const OPENHANDS_EVENTS: Cow<'static, str> = Cow::Borrowed(
    "events of OpenHands, which are not messages; what its model was asked and answered is in its \
     llm_completions folder: karl-fast sample --prompt messages --completion response",
);

const CURSOR_RESULT: Cow<'static, str> = Cow::Borrowed(
    "the result of a run of Cursor's agent, which has its answer and neither the prompt nor the calls of tools; \
     cursor-agent --print --output-format stream-json prints all of them",
);
const TINKER_SUMMARIES: Cow<'static, str> = Cow::Borrowed(
    "rollout summaries of tinker-cookbook, which have rewards and lengths but no text; the texts of its evaluations are \
     in their trajectories.jsonl, which is read",
);

/// Keys of a conversation in records that no other format claims; the second is `ShareGPT`'s.
pub(super) const MESSAGES: [&str; 2] = ["messages", "conversations"];

/// Maximum number of lines examined for one that identifies the kind.
const LINES_PROBED: usize = 100;

/// Kinds of lines, by sets of top-level keys that must all be present.
const LINES: [(&[&str], Classified); 34] = [
    (&["karl_fast_trajectory"], Classified::Converted),
    (
        &["type", "subtype", "call_id", "tool_call"],
        Classified::Transcript(TranscriptKind::Alone(Alone::Cursor)),
    ),
    (&["type", "result", "session_id", "request_id", "duration_api_ms"], Classified::Refused(CURSOR_RESULT)),
    (&["type", "sessionId", "uuid"], Classified::Transcript(TranscriptKind::ClaudeCode)),
    (&["type", "sessionId", "message"], Classified::Transcript(TranscriptKind::ClaudeCode)),
    (&["type", "sessionId", "operation"], Classified::Transcript(TranscriptKind::ClaudeCode)),
    (&["type", "session_id", "uuid"], Classified::Transcript(TranscriptKind::ClaudeCode)),
    (&["type", "session_id", "message"], Classified::Transcript(TranscriptKind::ClaudeCode)),
    (&["type", "session_id", "subtype"], Classified::Transcript(TranscriptKind::ClaudeCode)),
    (&["type", "messageId", "snapshot"], Classified::Transcript(TranscriptKind::ClaudeCode)),
    (&["type", "summary", "leafUuid"], Classified::Transcript(TranscriptKind::ClaudeCode)),
    (&["timestamp", "type", "payload"], Classified::Transcript(TranscriptKind::Alone(Alone::Codex))),
    (&["type", "data", "id", "timestamp"], Classified::Transcript(TranscriptKind::Alone(Alone::Copilot))),
    (&["type", "harness", "id"], Classified::Transcript(TranscriptKind::Alone(Alone::Sts))),
    (&["type", "id", "timestamp", "cwd"], Classified::Transcript(TranscriptKind::Alone(Alone::Pi))),
    (&["sessionId", "projectHash", "messages"], Classified::Transcript(TranscriptKind::Alone(Alone::Gemini))),
    (&["sessionId", "projectHash"], Classified::Transcript(TranscriptKind::Alone(Alone::Gemini))),
    (&["opencode_table", "row"], Classified::Transcript(TranscriptKind::Pooled(Pool::OpenCode))),
    (
        &["id", "task", "agent", "nodes", "rewards"],
        Classified::Transcript(TranscriptKind::Alone(Alone::Traces)),
    ),
    (&["resourceSpans"], Classified::Transcript(TranscriptKind::Pooled(Pool::Otlp))),
    (&["resource_spans"], Classified::Transcript(TranscriptKind::Pooled(Pool::Otlp))),
    (
        &["name", "context", "attributes", "parent_id"],
        Classified::Transcript(TranscriptKind::Pooled(Pool::Otlp)),
    ),
    (&["traceId", "type", "input", "output"], Classified::Transcript(TranscriptKind::Pooled(Pool::Langfuse))),
    (
        &["trace_id", "type", "input", "output"],
        Classified::Transcript(TranscriptKind::Pooled(Pool::Langfuse)),
    ),
    (
        &["traceId", "name", "value", "dataType"],
        Classified::Transcript(TranscriptKind::Pooled(Pool::Langfuse)),
    ),
    (
        &["trace_id", "name", "value", "data_type"],
        Classified::Transcript(TranscriptKind::Pooled(Pool::Langfuse)),
    ),
    (&["id", "observations", "scores"], Classified::Transcript(TranscriptKind::Pooled(Pool::Langfuse))),
    (
        &["sessionID", "messageID", "id", "type"],
        Classified::Transcript(TranscriptKind::Pooled(Pool::OpenCode)),
    ),
    (&["id", "timestamp", "source", "kind"], Classified::Transcript(TranscriptKind::Pooled(Pool::OpenHands))),
    (&["instance_id", "history", "test_result"], Classified::Refused(OPENHANDS)),
    (&["instance_id", "history", "instruction"], Classified::Refused(OPENHANDS)),
    (&["timestamp", "source", "action", "args"], Classified::Refused(OPENHANDS_EVENTS)),
    (&["split", "iteration", "group_idx", "traj_idx", "total_reward"], Classified::Refused(TINKER_SUMMARIES)),
    (&["role", "message"], Classified::Transcript(TranscriptKind::Alone(Alone::Cursor))),
];

/// Kinds of documents, by keys.
const DOCUMENTS: [(&[&str], Classified); 21] = [
    (&["sessionId", "projectHash", "messages"], Classified::Transcript(TranscriptKind::Alone(Alone::Gemini))),
    (&["sessionId", "startTime", "messages"], Classified::Transcript(TranscriptKind::Alone(Alone::Gemini))),
    (&["sessionId", "startTime", "chatMessages"], Classified::Refused(OLD_COPILOT)),
    (
        &["sessionID", "messageID", "id", "type"],
        Classified::Transcript(TranscriptKind::Pooled(Pool::OpenCode)),
    ),
    (&["resourceSpans"], Classified::Transcript(TranscriptKind::Pooled(Pool::Otlp))),
    (&["resource_spans"], Classified::Transcript(TranscriptKind::Pooled(Pool::Otlp))),
    (
        &["name", "context", "attributes", "parent_id"],
        Classified::Transcript(TranscriptKind::Pooled(Pool::Otlp)),
    ),
    (&["traceId", "type", "input", "output"], Classified::Transcript(TranscriptKind::Pooled(Pool::Langfuse))),
    (
        &["trace_id", "type", "input", "output"],
        Classified::Transcript(TranscriptKind::Pooled(Pool::Langfuse)),
    ),
    (&["id", "observations", "scores"], Classified::Transcript(TranscriptKind::Pooled(Pool::Langfuse))),
    (&["id", "sessionID", "role", "time"], Classified::Transcript(TranscriptKind::Pooled(Pool::OpenCode))),
    (
        &["id", "projectID", "directory", "time"],
        Classified::Transcript(TranscriptKind::Pooled(Pool::OpenCode)),
    ),
    (&["id", "timestamp", "source", "kind"], Classified::Transcript(TranscriptKind::Pooled(Pool::OpenHands))),
    (&["id", "agent", "workspace", "persistence_dir"], Classified::EntireMetadata),
    (&["checkpoint_id"], Classified::EntireMetadata),
    (&["task_name", "verifier_result"], Classified::EntireMetadata),
    (&["resolved_ids"], Classified::EntireMetadata),
    (&["agentType", "toolUseId"], Classified::EntireMetadata),
    (&["schema_version", "steps"], Classified::Transcript(TranscriptKind::Alone(Alone::Atif))),
    (
        &["info", "messages", "trajectory_format"],
        Classified::Transcript(TranscriptKind::Alone(Alone::MiniSweAgent)),
    ),
    (&["history", "trajectory", "info"], Classified::Transcript(TranscriptKind::Alone(Alone::SweAgent))),
];

/// Detect a file by its beginning.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn classify(source: &Source, limit: usize, watch: &Watch) -> Result<Classified> {
    for look in [by_lines, document] {
        match look(source, limit, watch)? {
            Classified::Nothing => {}
            // A log with a damaged first record, or one long array, looks like a damaged document.
            damaged @ Classified::Damaged(_) => {
                let told = rollouts(source, limit, watch)?;
                return Ok(if told == Classified::Nothing { damaged } else { told });
            }
            told => return Ok(told),
        }
    }
    rollouts(source, limit, watch)
}

/// Detect a log of rollouts, with a conversation or a prompt and its completion in its records.
fn rollouts(source: &Source, limit: usize, watch: &Watch) -> Result<Classified> {
    let wishes = Wishes { max_line_bytes: limit, ..Wishes::default() };
    let input = match probe(source.clone(), &wishes, watch) {
        Err(Error::Layout { .. } | Error::Document { .. }) => return Ok(Classified::Nothing),
        Err(Error::ByName { holder, .. }) if source.optional => {
            return Ok(Classified::Refused(error::by_name(&holder).into()));
        }
        input => input?,
    };
    // An array of records that are not rollouts.
    let listed = match by_keys(&LINES, &input.keys) {
        // Lines and documents were judged by their values.
        Classified::Transcript(TranscriptKind::Pooled(Pool::OpenHands)) => {
            first_element(source, limit, watch)?.map_or(Classified::Nothing, |text| by_record(&LINES, &text))
        }
        listed => listed,
    };
    if matches!(listed, Classified::Refused(_) | Classified::Transcript(TranscriptKind::Pooled(_))) {
        return Ok(listed);
    }
    let has = |wanted: &str| input.keys.iter().any(|key| key == wanted);
    let kind = TranscriptKind::Rollouts(input.format);
    Ok(match input.format.name {
        name if name == KARL.name => {
            Classified::Refused("a store of KARL, which is scored and sampled as it is".into())
        }
        name if name == GENERIC.name
            && !(MESSAGES.iter().any(|key| has(key)) || (has("prompt") && has("completion"))) =>
        {
            Classified::Nothing
        }
        _ => Classified::Transcript(kind),
    })
}

fn by_lines(source: &Source, limit: usize, watch: &Watch) -> Result<Classified> {
    let io = |error| source.failed("read", error);
    let mut lines = Lines::new(source.undamaged(watch).map_err(io)?, 0, u64::MAX, limit);
    lines.skip_mark().map_err(io)?;
    for _ in 0..LINES_PROBED {
        let Some(piece) = lines.next().map_err(io)? else { break };
        let Piece::Text { bytes, .. } = piece else { continue };
        let record = bytes.trim_ascii_start();
        let Some(keys) = keys_of(record) else { continue };
        if is_cursor_init(&keys) {
            return Ok(Classified::Transcript(TranscriptKind::Alone(Alone::Cursor)));
        }
        let kind = by_record(&LINES, record);
        if kind != Classified::Nothing {
            return Ok(kind);
        }
    }
    Ok(Classified::Nothing)
}

/// Return whether an event begins a run of Cursor's agent: that of Claude Code has the same keys, and its tools.
fn is_cursor_init(keys: &[String]) -> bool {
    let has = |wanted: &&str| keys.iter().any(|key| key == wanted);
    ["type", "subtype", "session_id", "model", "permissionMode"].iter().all(has)
        && !["tools", "uuid", "claude_code_version"].iter().any(has)
}

/// Detect the document that fills a file.
fn document(source: &Source, limit: usize, watch: &Watch) -> Result<Classified> {
    let io = |error| source.failed("read", error);
    let mut window = Window::new(source.undamaged(watch).map_err(io)?, 0);
    window.skip_mark().map_err(io)?;
    if window.peek().map_err(io)? != Some(b'{') {
        return Ok(Classified::Nothing);
    }
    Ok(match window.value(limit).map_err(io)? {
        ValueEnd::Kept(length) => match one(&window.bytes()[..length]) {
            // Demonstrations of SWE-agent have nothing but a history.
            Classified::Nothing if is_traj(&source.name) && has_history(&window.bytes()[..length]) => {
                Classified::Transcript(TranscriptKind::Alone(Alone::SweAgent))
            }
            Classified::Nothing if is_export(&window.bytes()[..length]) => {
                Classified::Transcript(TranscriptKind::Pooled(Pool::OpenCode))
            }
            told => told,
        },
        ValueEnd::Torn(end) => {
            Classified::Damaged(format!("it ends inside the document that it begins, at byte {end}").into())
        }
        ValueEnd::Passed => Classified::Damaged(
            format!("the document that it begins is longer than a line may be, {limit} bytes").into(),
        ),
    })
}

/// Return whether a file has the name of a run of SWE-agent, packed or not.
fn is_traj(name: &str) -> bool {
    let plain = ["gz", "zst", "zstd"].iter().find_map(|packed| name.strip_suffix(packed)?.strip_suffix('.'));
    Path::new(plain.unwrap_or(name)).extension().is_some_and(|end| end == "traj")
}

fn has_history(text: &[u8]) -> bool {
    keys_of(text).is_some_and(|keys| keys.iter().any(|key| key == "history"))
}

/// Return whether a document is of `opencode export`: a session, and its messages with their parts.
fn is_export(text: &[u8]) -> bool {
    let keys = keys_of(text).unwrap_or_default();
    let document = || reference_parser::parse(text).ok();
    let is_message = |document: &Value| document.pointer("/messages/0/info/sessionID").is_some();
    ["info", "messages"].iter().all(|key| keys.iter().any(|own| own == key))
        && document().is_some_and(|document| is_message(&document))
}

/// Detect the kind of a document.
fn one(text: &[u8]) -> Classified {
    match scan(text, &PathTree::default(), &mut []) {
        Err(ScanFault::Malformed(at)) => Classified::Damaged(
            format!("byte {at} cannot stand there: wanted a document or lines of JSON").into(),
        ),
        _ => by_record(&DOCUMENTS, text),
    }
}

/// Return the first element of the array that a file is, if it is one.
fn first_element(source: &Source, limit: usize, watch: &Watch) -> Result<Option<Vec<u8>>> {
    let io = |error| source.failed("read", error);
    let mut stream = source.undamaged(watch).map_err(io)?;
    let mut byte = [0];
    while stream.read(&mut byte).map_err(io)? > 0 && byte != *b"[" {
        let is_mark = b"\xef\xbb\xbf".contains(&byte[0]);
        if !is_mark && !byte[0].is_ascii_whitespace() {
            return Ok(None);
        }
    }
    let mut window = Window::new(stream, 0);
    window.peek().map_err(io)?;
    match window.value(limit).map_err(io)? {
        ValueEnd::Kept(length) => Ok(Some(window.bytes()[..length].to_vec())),
        _ => Ok(None),
    }
}

/// Return the kind of a line or document, by its keys, and by a value where these are those of many logs.
fn by_record(known: &[(&[&str], Classified)], record: &[u8]) -> Classified {
    match keys_of(record).map_or(Classified::Nothing, |keys| by_keys(known, &keys)) {
        Classified::Transcript(TranscriptKind::Pooled(Pool::OpenHands)) if !is_event(record) => {
            Classified::Nothing
        }
        told => told,
    }
}

/// Return whether the kind of an event is the name of one of `OpenHands`' classes of events.
fn is_event(record: &[u8]) -> bool {
    let event = reference_parser::parse(record).unwrap_or_default();
    let kind = event.get("kind").and_then(Value::as_str).unwrap_or_default();
    ["Event", "Observation"].iter().any(|end| kind.ends_with(end))
        || ["Condensation", "CondensationRequest"].contains(&kind)
}

/// Return whether one of some keys is that of an event of `OpenHands` with a part of a conversation.
fn has_event_key(keys: &[String]) -> bool {
    ["system_prompt", "llm_message", "tool_call", "observation"]
        .iter()
        .any(|key| keys.iter().any(|own| own == key))
}

/// Return the kind of lines or documents with these keys. A record with a conversation, or a prompt and its completion, is a
/// rollout, whatever other keys it has, except for what names itself.
fn by_keys(known: &[(&[&str], Classified)], keys: &[String]) -> Classified {
    let has = |wanted: &&str| keys.iter().any(|key| key == wanted);
    let found = known.iter().find(|(wanted, _)| wanted.iter().all(has));
    let told = found.map_or(Classified::Nothing, |(_, told)| told.clone());
    let names_messages = found.is_some_and(|(wanted, _)| wanted.iter().any(|key| MESSAGES.contains(key)));
    let is_rollout = MESSAGES.iter().any(has) || ["prompt", "completion"].iter().all(has);
    match told {
        Classified::Transcript(_) if is_rollout && !names_messages => Classified::Nothing,
        told => told,
    }
}
