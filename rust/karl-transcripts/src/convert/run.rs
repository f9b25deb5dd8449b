//! Run of a conversion: its settings, a trajectory as a line of the canonical format, and the file that work units of
//! all threads write, completely or not at all, with its lines in order. The manual's page `trajectory` defines the
//! format.

use super::message::Message;
use super::report::{LineCounts, RecordCounts};
use super::tool_kind::TranscriptKind;
use karl_log::atomic_output::{OutputKind, OutputTarget};
use karl_log::error::{Error, Result, without_path};
use karl_log::karl_rewards::Raw;
use karl_log::parallel::share;
use karl_log::time::milliseconds;
use karl_redact::Protection;
use karl_redact::secrets::SecretCounts;
use karl_reward::{Version, score};
use serde_json::{Map, Number, Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use tempfile::NamedTempFile;

/// Settings of a conversion.
#[derive(Clone, Debug)]
pub struct ConvertSettings {
    /// Kind of all files, if it is not to be detected.
    pub kind: Option<TranscriptKind>,
    /// Source of rewards.
    pub rate: Rate,
    /// Maximum length of a line or document in bytes.
    pub max_line_bytes: usize,
    /// Number of threads; at least one is used.
    pub threads: usize,
    /// True to write also the branches of sessions that the user abandoned, each behind its session.
    pub abandoned: bool,
    /// What is replaced in the trajectories.
    pub protection: Protection,
}

/// Source of a trajectory's reward.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Reward in the log, if present.
    Log,
    /// End of the run, if in the log: 1 for success, else 0.
    Result,
    /// KARL's reward of the tool calls; the weights are those of v1.
    Karl(Version, [f64; 3]),
}

/// Start of every line of the format.
pub(super) const MARK: &[u8] = b"{\"karl_fast_trajectory\":";

/// Key of the reward.
const REWARD: &str = "reward";

/// Version of the format.
const VERSION: u8 = 1;

/// Token counts of the log; None if absent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tokens {
    pub(super) input: Option<u64>,
    pub(super) cache_creation: Option<u64>,
    pub(super) cache_read: Option<u64>,
    pub(super) output: Option<u64>,
}

/// Fields of a line besides its messages.
#[derive(Clone, Debug, Default)]
pub(super) struct Head {
    pub(super) id: String,
    pub(super) group: Option<String>,
    pub(super) reward: Option<f64>,
    pub(super) policy_version: Option<Value>,
    /// Parent trajectory, and its tool call that started this one.
    pub(super) parent: Option<(String, Option<String>)>,
    /// Session that it belongs to, shared with sub-agents and forks.
    pub(super) session: Option<String>,
    pub(super) tokens: Tokens,
    pub(super) source: Map<String, Value>,
    pub(super) tools: Option<Value>,
    /// Model, if no message names it.
    pub(super) model: Option<String>,
}

/// Write a line; count it and its messages.
pub(super) fn write(
    head: Head,
    messages: &[Message],
    rate: Rate,
    out: &mut Vec<u8>,
    counts: &mut LineCounts,
) {
    let (start, mut reward) = (out.len(), 0..0);
    let (sub_agent, mut rewarded) = (head.parent.is_some(), head.reward.is_some_and(f64::is_finite));
    let model = messages.iter().map(|message| &message.model[..]).find(|model| !model.is_empty());
    let fields = fields(head, messages, model.unwrap_or_default());
    out.extend_from_slice(MARK);
    out.extend_from_slice(VERSION.to_string().as_bytes());
    for (key, value) in &fields {
        let (from, value) = (out.len(), value.to_string());
        out.extend_from_slice(format!(",\"{key}\":{value}").as_bytes());
        if *key == REWARD {
            reward = from.max(out.len() - value.len())..out.len();
        }
    }
    out.extend_from_slice(b",\"messages\":[");
    for (at, message) in messages.iter().enumerate() {
        out.extend_from_slice(if at == 0 { b"" } else { b"," });
        message.write(model.unwrap_or_default(), out);
        *counts.messages.entry(message.role.name()).or_default() += 1;
    }
    out.extend_from_slice(b"]}");
    if let Rate::Karl(version, weights) = rate {
        let rated = Raw::of(&out[start..]).and_then(|line| score(&line, version, weights));
        let rated = number(rated.ok().map(|rated| rated.score));
        rewarded = rated.is_number();
        out.splice(reward, rated.to_string().into_bytes());
    }
    out.push(b'\n');
    counts.trajectories += 1;
    counts.sub_agents += u64::from(sub_agent);
    counts.rewarded += u64::from(rewarded);
}

/// Return the keys between the mark and the messages, in order.
fn fields(head: Head, messages: &[Message], model: &[u8]) -> Vec<(&'static str, Value)> {
    let mut moments =
        messages.iter().map(|message| &message.timestamp[..]).filter(|moment| !moment.is_empty());
    let first = moments.next();
    let last = moments.next_back().or(first);
    let turns = messages.iter().filter(|message| message.role.is_assistant()).count();
    let calls: usize = messages.iter().map(|message| message.calls).sum();
    let parent = head.parent.map_or(Value::Null, |(id, call)| json!({"id": id, "tool_call_id": call}));
    let tokens = head.tokens;
    let mut fields = vec![
        ("id", head.id.into()),
        ("group", head.group.into()),
        (REWARD, number(head.reward)),
        ("model", head.model.map_or_else(|| text(Some(model)), Value::from)),
        ("policy_version", head.policy_version.unwrap_or_default()),
        ("parent", parent),
        ("session", head.session.into()),
        ("started_at", text(first)),
        ("ended_at", text(last)),
        ("duration_seconds", seconds(first, last)),
        ("turns", turns.into()),
        ("tool_calls", calls.into()),
        (
            "tokens",
            json!({"input": tokens.input, "cache_creation": tokens.cache_creation,
                "cache_read": tokens.cache_read, "output": tokens.output}),
        ),
        ("source", Value::Object(head.source)),
    ];
    fields.extend(head.tools.map(|tools| ("tools", tools)));
    fields
}

/// Return the content of a JSON string as a value; null if empty.
fn text(inside: Option<&[u8]>) -> Value {
    let quoted = |inside: &[u8]| [b"\"", inside, b"\""].concat();
    inside
        .filter(|inside| !inside.is_empty())
        .and_then(|inside| serde_json::from_slice(&quoted(inside)).ok())
        .unwrap_or_default()
}

/// Return the seconds between two timestamps.
fn seconds(first: Option<&[u8]>, last: Option<&[u8]>) -> Value {
    let span = || Some(milliseconds(last?)? - milliseconds(first?)?);
    number(span().map(|span| span as f64 / 1000.0))
}

/// Return a number; null if it is missing or not finite.
fn number(value: Option<f64>) -> Value {
    value.and_then(Number::from_f64).map_or(Value::Null, Value::Number)
}

/// Writer of the lines that are made of one trajectory; `None` if it has values of other types than it needs.
pub(crate) type Reshape<'a> = dyn Fn(&[u8], &mut Vec<u8>) -> Option<RecordCounts> + Sync + 'a;

/// Run every unit on some thread and write its lines; return the merged account.
///
/// # Errors
/// First failure in the order of the units.
pub(crate) fn run(
    count: usize,
    threads: usize,
    output: &Output<'_>,
    reshape: Option<&Reshape<'_>>,
    unit: impl Fn(usize) -> Result<(Vec<u8>, LineCounts)> + Sync,
) -> Result<LineCounts> {
    merge_accounts(share(count, threads, |queue| {
        let mut all = LineCounts::default();
        while let Some(at) = queue.take() {
            let done = unit(at).and_then(|(lines, mut counts)| {
                // The whole texts are protected: a reshaped line has pieces, in which a secret is not recognised.
                let lines = output.protected(lines, &mut counts.secrets);
                let lines = match reshape {
                    Some(reshape) => reshape_lines(&lines, reshape, &mut counts),
                    None => lines,
                };
                if !output.redacts() {
                    counts.count_secrets(&lines);
                }
                output.put_protected(at, lines)?;
                Ok(counts)
            });
            match done {
                Ok(counts) => all.add(counts),
                Err(error) => {
                    output.fail();
                    return Err((at, error));
                }
            }
        }
        Ok(all)
    }))
}

/// Return the lines made of some trajectories; count them.
fn reshape_lines(lines: &[u8], reshape: &Reshape<'_>, counts: &mut LineCounts) -> Vec<u8> {
    let mut out = Vec::new();
    counts.rewarded = 0;
    for line in lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let Some(records) = reshape(line, &mut out) else {
            counts.note("no_trajectory");
            continue;
        };
        counts.records += records.written;
        counts.rewarded += records.rewarded;
        counts.notes_of("prompt_without_calls", records.without_calls);
    }
    out
}

/// Merge the accounts of all threads, or return the error. A thread stopped by another's failure reports only
/// an interruption.
fn merge_accounts(done: Vec<std::result::Result<LineCounts, (usize, Error)>>) -> Result<LineCounts> {
    let (mut all, mut failures) = (LineCounts::default(), Vec::new());
    for part in done {
        match part {
            Ok(counts) => all.add(counts),
            Err(failure) => failures.push(failure),
        }
    }
    let first = failures.into_iter().min_by_key(|(at, error)| (matches!(error, Error::Interrupted), *at));
    first.map_or(Ok(all), |(_, error)| Err(error))
}

/// Maximum bytes of lines that wait for earlier ones.
const WAITING: usize = 64 << 20;

/// Bytes per write.
const BLOCK: usize = 1 << 18;

/// Look at the place of a file of trajectories before any work is done.
///
/// # Errors
/// As [`OutputTarget::look`]; [`Error::Io`] if its folder does not exist.
pub fn target(path: &Path, force: bool) -> Result<OutputTarget> {
    target_of(path, &KIND, force)
}

/// Look at the place of a file of some kind, as [`target`] does.
///
/// # Errors
/// As [`target`].
pub(crate) fn target_of(path: &Path, kind: &'static OutputKind, force: bool) -> Result<OutputTarget> {
    let target = OutputTarget::look(path, kind, force)?;
    // Its contents are not listed: a folder may be writable without being readable.
    let inside = fs::metadata(target.folder().join("."));
    inside.map(drop).map_err(|error| Error::io("write into the folder", folder(path), error))?;
    Ok(target)
}

/// File of trajectories, also an empty one.
const KIND: OutputKind =
    OutputKind { names: None, is_ours, edited: |_| Ok(None), foreign: "is not a file of trajectories" };

/// Return whether a file begins like an output of this program.
fn is_ours(path: &Path) -> Result<bool> {
    let io = |error| Error::io("read", path, error);
    let mut begin = vec![0; MARK.len()];
    let mut file = BufReader::new(File::open(path).map_err(io)?);
    let enough = file.fill_buf().map_err(io)?.len() >= MARK.len();
    if file.buffer().is_empty() {
        return Ok(true);
    }
    if enough {
        file.read_exact(&mut begin).map_err(io)?;
    }
    Ok(enough && begin == MARK)
}

/// Hidden file beside the target, until it is complete.
pub(crate) struct Output<'t> {
    target: &'t OutputTarget,
    protection: Protection,
    state: Mutex<State>,
    moved: Condvar,
}

struct State {
    file: BufWriter<NamedTempFile>,
    next: usize,
    waiting: BTreeMap<usize, Vec<u8>>,
    held: usize,
    written: u64,
    failed: bool,
}

impl<'t> Output<'t> {
    /// Open the hidden file.
    ///
    /// # Errors
    /// As [`OutputTarget::check`]; [`Error::Io`].
    pub(crate) fn create(target: &'t OutputTarget, protection: Protection) -> Result<Self> {
        target.check()?;
        let file = BufWriter::with_capacity(BLOCK, target.hidden_file()?);
        let state = State { file, next: 0, waiting: BTreeMap::new(), held: 0, written: 0, failed: false };
        Ok(Self { target, protection, state: Mutex::new(state), moved: Condvar::new() })
    }

    /// Take the lines of one work unit, replace what is protected, and wait if too many wait for earlier ones.
    /// Return the number of replaced secrets.
    ///
    /// # Errors
    /// [`Error::Io`] if they cannot be written; [`Error::Interrupted`] if another thread has failed.
    pub(crate) fn put(&self, at: usize, lines: Vec<u8>) -> Result<SecretCounts> {
        let mut secrets = SecretCounts::new();
        let lines = self.protected(lines, &mut secrets);
        self.put_protected(at, lines).map(|()| secrets)
    }

    /// Replace in lines what is protected; add the number of replaced secrets.
    pub(crate) fn protected(&self, lines: Vec<u8>, secrets: &mut SecretCounts) -> Vec<u8> {
        self.protection.applied(lines, secrets)
    }

    /// Take lines as [`put`](Self::put) does; what is protected was replaced before.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub(crate) fn put_protected(&self, at: usize, lines: Vec<u8>) -> Result<()> {
        let mut state = self.lock();
        while at != state.next && state.held + lines.len() > WAITING && !state.failed {
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.failed {
            return Err(Error::Interrupted);
        }
        state.held += lines.len();
        state.waiting.insert(at, lines);
        let wrote =
            state.drain().map_err(|error| Error::io("write", self.target.shown(), without_path(error)));
        self.moved.notify_all();
        wrote
    }

    /// Return whether secrets are replaced.
    pub(crate) fn redacts(&self) -> bool {
        self.protection.redact
    }

    /// Wake the waiting threads: the lines they wait for never come.
    pub(crate) fn fail(&self) {
        self.lock().failed = true;
        self.moved.notify_all();
    }

    /// Sync the file and move it to its place; return its length in bytes.
    ///
    /// # Errors
    /// As [`OutputTarget::put_file`]. The target is then unchanged.
    pub(crate) fn finish(self) -> Result<u64> {
        let io = |error| Error::io("write", self.target.shown(), without_path(error));
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let hidden = state.file.into_inner().map_err(io::IntoInnerError::into_error).map_err(io)?;
        hidden.as_file().sync_all().map_err(io)?;
        let path = hidden.into_temp_path().keep().map_err(|error| io(error.error))?;
        self.target.put_file(path)?;
        Ok(state.written)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn folder(target: &Path) -> &Path {
    target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl State {
    fn drain(&mut self) -> io::Result<()> {
        while let Some(lines) = self.waiting.remove(&self.next) {
            self.file.write_all(&lines)?;
            self.written += lines.len() as u64;
            self.held -= lines.len();
            self.next += 1;
        }
        Ok(())
    }
}
