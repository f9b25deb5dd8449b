//! Path of a Codex session through its items, which identifies files of one session.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use karl_log::time::milliseconds;
use serde_json::Value;

use crate::convert::json::{pick, text};
use crate::convert::lineage::hash_of;
use crate::convert::lineage::{Trace, hash};
use crate::convert::report::INTERRUPTION;

/// Content keys of an item; a session that is written again has new timestamps and may have new item ids.
const SAID: [&str; 10] =
    ["type", "role", "content", "summary", "name", "arguments", "input", "action", "call_id", "output"];

/// Minimum length of a globally unique call id.
const UNIQUE: usize = 12;

/// Elements that Codex writes in the user's or the developer's name, by the names of their tags
/// (`codex-rs/core/src/context`, and their older forms).
const INJECTED: [&str; 33] = [
    "app-context",
    "apps_instructions",
    "codex_internal_context",
    "collaboration_mode",
    "context_window",
    "context_window_guidance",
    "environment_context",
    "environments_instructions",
    "exec_policy_amendment",
    "goal_context",
    "hook_context",
    "hook_prompt",
    "instructions",
    "model_switch",
    "multi_agent_mode",
    "permissions",
    "permissions_instructions",
    "personality_spec",
    "plugins_instructions",
    "realtime_conversation",
    "recommended_plugins",
    "rollout_budget",
    "skill",
    "skills_instructions",
    "subagent_notification",
    "task_model_guidance",
    "token_budget",
    "turn_aborted",
    "user_instructions",
    "user_shell_cmd",
    "user_shell_command",
    "world_state",
    "automation_info",
];

/// Beginning of the names of elements with the state of another program, such as a browser.
const EXTERNAL: &str = "external_";

/// Element of a turn that the user interrupted.
const ABORTED: &str = "turn_aborted";

/// Heading of the project's instructions.
const PROJECT: &str = "# AGENTS.md instructions";

/// Warnings that older versions wrote in the user's name.
const WARNINGS: [&str; 3] = [
    "Warning: The maximum number of unified exec processes you can keep open is ",
    "Warning: Your account was flagged for potentially high-risk cyber activity",
    "Warning: apply_patch was requested via ",
];

/// Reason for texts that the tool wrote.
pub(super) const META: &str = "meta";

/// Return the content that the speaker of a message wrote, or the reason why there is none.
pub(super) fn own_content(item: &Value) -> Result<Cow<'_, Value>, &'static str> {
    let content = item.get("content").unwrap_or(&Value::Null);
    if text(item, "role") == Some("assistant") {
        return Ok(Cow::Borrowed(content));
    }
    let Value::Array(parts) = content else {
        return content.as_str().and_then(injection).map_or(Ok(Cow::Borrowed(content)), Err);
    };
    let kinds = kinds(item, parts.len());
    let reasons: Vec<_> =
        parts.iter().enumerate().map(|(at, part)| part_injection(part, kinds, at)).collect();
    let first = reasons.iter().flatten().copied().find(|reason| *reason == INTERRUPTION);
    let Some(reason) = first.or_else(|| reasons.iter().flatten().copied().next()) else {
        return Ok(Cow::Borrowed(content));
    };
    let own: Vec<Value> = parts
        .iter()
        .zip(&reasons)
        .filter(|(_, reason)| reason.is_none())
        .map(|(part, _)| part.clone())
        .collect();
    if own.is_empty() { Err(reason) } else { Ok(Cow::Owned(Value::Array(own))) }
}

/// Return the kinds that newer versions write for each part of a message.
fn kinds(item: &Value, parts: usize) -> Option<&[Value]> {
    let kinds = item.pointer("/internal_chat_message_metadata_passthrough/content_item_kinds")?.as_array()?;
    (kinds.len() == parts).then_some(kinds)
}

fn part_injection(part: &Value, kinds: Option<&[Value]>, at: usize) -> Option<&'static str> {
    let words = text(part, "text")?;
    match kinds.and_then(|kinds| kinds[at].as_str()) {
        Some(kind) if kind.starts_with("user.") => None,
        // Instructions of a model or a developer are the system prompt.
        Some(kind) if kind.contains("base_instructions") || kind.contains("developer_instructions") => None,
        Some(_) => Some(injection(words).unwrap_or(META)),
        None => injection(words),
    }
}

/// Return the reason why a text is not its speaker's: it is one element that the tool wrote, or begins with one
/// that is not closed. An element with words behind it was quoted by the speaker.
fn injection(words: &str) -> Option<&'static str> {
    let words = words.trim();
    if WARNINGS.iter().any(|warning| words.starts_with(warning)) && !words.contains('\n') {
        return Some(META);
    }
    let (tag, end) = if words.starts_with(PROJECT) {
        (PROJECT.to_owned(), "</instructions>".to_owned())
    } else {
        let inside = words.strip_prefix('<')?;
        let tag = inside[..inside.find([' ', '>', '\n'])?].to_ascii_lowercase();
        let end = format!("</{tag}");
        (tag, end)
    };
    let is_known = tag == PROJECT || INJECTED.contains(&&*tag) || tag.starts_with(EXTERNAL);
    let lower = words.to_ascii_lowercase();
    let rest = lower.rfind(&end).and_then(|at| lower[at..].split_once('>')).map_or("", |(_, rest)| rest);
    (is_known && rest.trim().is_empty()).then_some(if tag == ABORTED { INTERRUPTION } else { META })
}

/// Return the hash of a line's contribution to a conversation; None if it adds nothing, or only text that
/// every session repeats.
pub(super) fn item(line: &Value) -> Option<u64> {
    let item = line.get("payload").filter(|_| text(line, "type") == Some("response_item"))?;
    let counts = match text(item, "type")? {
        "message" => matches!(text(item, "role"), Some("user" | "assistant")) && own_content(item).is_ok(),
        "reasoning" | "function_call" | "custom_tool_call" | "local_shell_call" => true,
        kind => kind.ends_with("_call_output"),
    };
    counts.then(|| content_hash(item))
}

/// Return the hash of what an item says.
fn content_hash(item: &Value) -> u64 {
    hash_of(&Value::Object(pick(item, &SAID)))
}

/// Return whether a line is an event that takes turns back.
pub(super) fn takes_back(line: &Value) -> bool {
    let kind = line.get("payload").and_then(|event| text(event, "type"));
    text(line, "type") == Some("event_msg") && kind == Some("thread_rolled_back")
}

/// Items of a file, to find those that it holds twice: a file and its copy may be written into one.
#[derive(Default)]
pub(super) struct SeenItems {
    items: HashSet<u64>,
    id: Option<String>,
    /// Whether the file has a copy of another session's lines, which have one time.
    is_fork: bool,
}

impl SeenItems {
    /// Return whether the item of a line was seen before, with the same time.
    pub(super) fn again(&mut self, line: &Value) -> bool {
        let payload = line.get("payload").unwrap_or(&Value::Null);
        if text(line, "type") == Some("session_meta") {
            let id = text(payload, "id");
            self.is_fork |= self.id.as_deref().is_some_and(|first| Some(first) != id);
            self.id = self.id.take().or_else(|| id.map(str::to_owned));
        }
        let counts = text(line, "type") == Some("response_item") || takes_back(line);
        let Some(moment) = text(line, "timestamp").filter(|_| counts && !self.is_fork) else { return false };
        let ordinal = line.get("ordinal").and_then(Value::as_u64).unwrap_or_default();
        let key =
            [&content_hash(payload).to_le_bytes()[..], &ordinal.to_le_bytes(), moment.as_bytes()].concat();
        !self.items.insert(hash("line", &key))
    }
}

/// Place of a line in its file.
#[derive(Clone, Copy, Debug)]
pub(in crate::convert) struct LinePlace {
    /// Number of the line in its thread; only newer files have it.
    pub(in crate::convert) ordinal: Option<u64>,
    pub(in crate::convert) offset: u64,
}

impl LinePlace {
    pub(in crate::convert) fn of(line: &Value, offset: u64) -> Self {
        Self { ordinal: line.get("ordinal").and_then(Value::as_u64), offset }
    }
}

/// End of the part of a file that another one goes on from.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::convert) struct HistoryEnd {
    ordinal: Option<u64>,
    offset: Option<u64>,
}

impl HistoryEnd {
    /// Return whether a line is before it.
    pub(in crate::convert) fn is_after(&self, place: LinePlace) -> bool {
        match (self.ordinal.zip(place.ordinal), self.offset) {
            (Some((end, ordinal)), _) => ordinal < end,
            (None, Some(end)) => place.offset < end,
            (None, None) => false,
        }
    }
}

/// File that a rollout goes on from.
#[derive(Clone, Debug)]
struct HistoryBase {
    rollout: String,
    end: HistoryEnd,
}

/// Relation of a file to other files, besides its items.
#[derive(Debug, Default)]
pub(in crate::convert) struct RolloutHistory {
    /// Id in the file's name. A thread whose turns were taken back has several files.
    rollout: Option<String>,
    /// Session that started this one, a sub-agent's.
    parent: Option<String>,
    base: Option<HistoryBase>,
    places: Vec<LinePlace>,
}

/// Part of a conversation that is in other files.
#[derive(Debug, Default)]
pub(in crate::convert) struct Inheritance {
    /// Files to read before the own one, in order, each up to its end.
    pub(in crate::convert) before: Vec<(usize, HistoryEnd)>,
    /// Whether a file before it is not among those that are read.
    pub(in crate::convert) is_cut: bool,
    /// Items at the beginning of a sub-agent's file that are its session's.
    pub(in crate::convert) copied: usize,
    /// End of the part that a later file of the thread goes on from: what follows was taken back.
    pub(in crate::convert) superseded: Option<HistoryEnd>,
}

/// Path of a session through its items, to compare it with others.
#[derive(Default)]
pub(in crate::convert) struct ItemTrail {
    trace: Trace,
    history: RolloutHistory,
    seen: SeenItems,
}

impl ItemTrail {
    /// Begin the path of a file.
    pub(in crate::convert) fn new(file: &str) -> Self {
        let history = RolloutHistory { rollout: rollout_id(file), ..RolloutHistory::default() };
        Self { history, ..Self::default() }
    }

    /// Read a line at an offset.
    pub(in crate::convert) fn line(&mut self, line: &Value, offset: u64) {
        if self.seen.again(line) {
            return;
        }
        let (trace, payload) = (&mut self.trace, line.get("payload").unwrap_or(&Value::Null));
        if text(line, "type") == Some("session_meta") && trace.id.is_none() {
            trace.id = text(payload, "id").map(str::to_owned);
            trace.forked_from = text(payload, "forked_from_id").map(str::to_owned);
            self.history.parent = parent(payload);
            self.history.base = base(payload);
        }
        let Some(item) = item(line) else { return };
        if let Some(moment) = text(line, "timestamp").and_then(|moment| milliseconds(moment.as_bytes())) {
            trace.begun = if trace.items.is_empty() { moment } else { trace.begun };
            trace.ended = moment;
        }
        trace.items.push(item);
        self.history.places.push(LinePlace::of(line, offset));
        let answers = text(payload, "type").is_some_and(|kind| kind.ends_with("_output"));
        // A sub-agent may hold the results of its session, which it is not.
        let is_own = self.history.parent.is_none();
        if is_own && answers && text(payload, "call_id").is_some_and(|id| id.len() >= UNIQUE) {
            trace.links.push(item);
        }
    }

    /// Return the trace, and the relation to other files.
    pub(in crate::convert) fn end(mut self) -> (Trace, RolloutHistory) {
        let trace = &mut self.trace;
        let forked_from = trace.forked_from.as_ref().filter(|_| self.history.parent.is_none());
        let names = [trace.id.as_ref(), forked_from].into_iter().flatten();
        trace.links.extend(names.map(|name| hash("session", name.as_bytes())));
        let all: Vec<u8> = trace.items.iter().flat_map(|item| item.to_le_bytes()).collect();
        trace.whole = hash("items", &all);
        if trace.id.is_none() {
            trace.links.push(trace.whole);
        }
        trace.continues = true;
        (self.trace, self.history)
    }
}

/// Return the session that started a sub-agent. Its call is not named.
pub(super) fn parent(meta: &Value) -> Option<String> {
    let agent = meta.pointer("/source/subagent");
    let spawned = agent.and_then(|agent| agent.pointer("/thread_spawn/parent_thread_id"));
    let forked = agent.and_then(|_| meta.get("forked_from_id"));
    let mut names = [meta.get("parent_thread_id"), spawned, forked].into_iter().flatten();
    names.find_map(Value::as_str).map(str::to_owned)
}

/// Return the file that a rollout goes on from, in place of a copy of it.
fn base(meta: &Value) -> Option<HistoryBase> {
    let base = meta.get("history_base")?;
    let number = |key: &str| base.get(key).and_then(Value::as_u64);
    let end = HistoryEnd { ordinal: number("end_ordinal_exclusive"), offset: number("end_byte_offset") };
    Some(HistoryBase { rollout: text(base, "thread_id")?.to_owned(), end })
}

/// Return the id at the end of a rollout's name, `rollout-TIME-ID.jsonl`.
fn rollout_id(file: &str) -> Option<String> {
    let name = file.rsplit(['/', '\\']).next()?;
    let stem = name.split_once(".jsonl").map_or(name, |(stem, _)| stem);
    let id = stem.get(stem.len().checked_sub(36)?..)?;
    let is_uuid = id.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    is_uuid.then(|| id.to_owned())
}

/// Return what each rollout has from other files, and add it to the traces. `histories` has the rollouts' files.
pub(in crate::convert) fn inherit(
    traces: &mut [Trace],
    histories: &[Option<RolloutHistory>],
) -> Vec<Inheritance> {
    let mut all: Vec<Inheritance> = Vec::new();
    for at in 0..traces.len() {
        let (before, is_cut) = chain(at, traces, histories);
        let copied = if before.is_empty() { copied(at, traces, histories) } else { 0 };
        all.push(Inheritance { before, is_cut, copied, superseded: None });
    }
    let own: Vec<Vec<u64>> = traces.iter().map(|trace| trace.items.clone()).collect();
    for (at, end) in superseded(traces, histories, &all) {
        all[at].superseded = Some(end);
        traces[at].superseded = true;
    }
    for (at, inheritance) in all.iter().enumerate().filter(|(_, one)| !one.before.is_empty()) {
        let mut items = Vec::new();
        for &(file, end) in &inheritance.before {
            let places = histories[file].iter().flat_map(|history| &history.places);
            items.extend(
                own[file]
                    .iter()
                    .zip(places)
                    .filter(|(_, place)| end.is_after(**place))
                    .map(|(item, _)| *item),
            );
        }
        items.extend(&own[at]);
        let (first, is_agent) =
            (inheritance.before[0].0, histories[at].as_ref().is_some_and(|one| one.parent.is_some()));
        traces[at].items = items;
        traces[at].begun = traces[first].begun;
        if !is_agent {
            for &(file, _) in &inheritance.before {
                let link = hash("file", &file.to_le_bytes());
                traces[file].links.push(link);
                traces[at].links.push(link);
            }
        }
    }
    all
}

/// Return the files that a rollout goes on from, in order, and whether one of them is missing.
fn chain(
    at: usize,
    traces: &[Trace],
    histories: &[Option<RolloutHistory>],
) -> (Vec<(usize, HistoryEnd)>, bool) {
    let (mut chain, mut seen, mut file) = (Vec::new(), vec![at], at);
    while let Some(base) = histories[file].as_ref().and_then(|history| history.base.as_ref()) {
        let named = |&other: &usize| {
            histories[other].as_ref().is_some_and(|history| history.rollout.as_ref() == Some(&base.rollout))
        };
        let of_thread = |&other: &usize| traces[other].id.as_ref() == Some(&base.rollout);
        let others =
            || (0..traces.len()).filter(|other| !seen.contains(other) && histories[*other].is_some());
        let longest =
            |files: Vec<usize>| files.into_iter().rev().max_by_key(|&other| traces[other].items.len());
        let next = longest(others().filter(named).collect())
            .or_else(|| longest(others().filter(of_thread).collect()));
        let Some(next) = next else { return (chain.into_iter().rev().collect(), true) };
        chain.push((next, base.end));
        seen.push(next);
        file = next;
    }
    chain.reverse();
    (chain, false)
}

/// Return the number of items that a sub-agent's file has from its session's, by comparison.
fn copied(at: usize, traces: &[Trace], histories: &[Option<RolloutHistory>]) -> usize {
    let Some(parent) = histories[at].as_ref().and_then(|history| history.parent.as_ref()) else { return 0 };
    let common = |trace: &Trace| {
        trace.items.iter().zip(&traces[at].items).take_while(|(one, other)| one == other).count()
    };
    traces.iter().filter(|trace| trace.id.as_ref() == Some(parent)).map(common).max().unwrap_or_default()
}

/// Return the files of threads whose turns were taken back in a later file, with the end of what stays.
fn superseded(
    traces: &[Trace],
    histories: &[Option<RolloutHistory>],
    all: &[Inheritance],
) -> Vec<(usize, HistoryEnd)> {
    let mut threads: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, trace) in traces.iter().enumerate().filter(|(at, _)| histories[*at].is_some()) {
        threads.entry(trace.id.as_deref().unwrap_or_default()).or_default().push(at);
    }
    let goes_on = |at: usize, files: &[usize]| all[at].before.iter().any(|(file, _)| files.contains(file));
    let mut found = Vec::new();
    for (id, files) in threads {
        let last = files.iter().copied().filter(|&at| goes_on(at, &files)).max_by_key(|&at| traces[at].begun);
        let Some(last) = last.filter(|_| !id.is_empty()) else { continue };
        let end = |at: usize| all[last].before.iter().find(|(file, _)| *file == at).map(|(_, end)| *end);
        let others = files.iter().filter(|&&at| at != last && traces[at].items != traces[last].items);
        found.extend(others.map(|&at| (at, end(at).unwrap_or_default())));
    }
    found
}
