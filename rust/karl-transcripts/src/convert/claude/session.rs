//! Facts about a session from the lines of a thread, and the calls that sub-agents work for.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::Path;

use karl_log::conversation::offered;
use karl_log::detect::read_sidecar;
use karl_log::input::source::Source;
use karl_log::json::reference_parser;
use karl_log::json::unescape::unescape;
use serde_json::{Map, Value, json};

use super::content::ClaudeConversation;
use super::row::{LineFacts, Row, hash};
use crate::convert::TranscriptKind;
use crate::convert::json::{LIST, NUMBER, ObjectKeys, expect};
use crate::convert::report::LineCounts;
use crate::convert::run::Rate;

/// Facts about a thread, as text.
#[derive(Default)]
pub(super) struct SessionMeta {
    pub(super) session: String,
    pub(super) agent: String,
    pub(super) called_by: String,
    pub(super) streamed: bool,
    /// True if its session relays it, in part or whole.
    pub(super) relayed: bool,
    pub(super) source: Map<String, Value>,
    pub(super) files: Vec<usize>,
    pub(super) reward: Option<f64>,
    pub(super) tools: Option<Value>,
}

impl SessionMeta {
    /// Take facts from a line, if still unknown.
    pub(super) fn add_facts(&mut self, facts: &LineFacts<'_>, row: &Row) {
        let text = |inside: &[u8]| unescape(&[b"\"", inside, b"\""].concat()).map(Cow::into_owned);
        for (mine, theirs) in [
            (&mut self.session, facts.session),
            (&mut self.agent, facts.agent),
            (&mut self.called_by, facts.called_by),
        ] {
            if mine.is_empty() && !theirs.is_empty() {
                *mine = text(theirs).unwrap_or_default();
            }
        }
        for (key, theirs) in [("cwd", facts.cwd), ("git_branch", facts.branch), ("version", facts.version)] {
            if !theirs.is_empty() && !self.source.contains_key(key) {
                self.source.extend(text(theirs).map(|text| (key.to_owned(), text.into())));
            }
        }
        self.streamed |= facts.streamed;
        self.relayed |= row.relayed;
        let file = row.spot.input();
        if !self.files.contains(&file) {
            self.files.push(file);
        }
    }

    /// Return the origin of the trajectory.
    pub(super) fn source(&self, sources: &[Source]) -> Map<String, Value> {
        let format = if self.streamed { "claude-code-stream" } else { TranscriptKind::ClaudeCode.name() };
        let name = |name: &String| if name.is_empty() { Value::Null } else { name.clone().into() };
        let files = self.files.iter().map(|&file| Value::from(&*sources[file].name)).collect();
        let mut source = Map::new();
        source.insert("format".to_owned(), format.into());
        source.insert("session_id".to_owned(), name(&self.session));
        source.insert("agent_id".to_owned(), name(&self.agent));
        if self.relayed {
            source.insert("relayed".to_owned(), true.into());
        }
        source.insert("files".to_owned(), Value::Array(files));
        source.extend(self.source.clone());
        source
    }
}

/// Calls of a thread that may have called sub-agents.
pub(super) struct Caller {
    id: String,
    agents: HashMap<u64, Vec<u8>>,
    prompts: HashMap<u64, Vec<Vec<u8>>>,
    calls: HashSet<u64>,
}

impl Caller {
    pub(super) fn new(id: String, talk: ClaudeConversation) -> Self {
        let calls = talk.conversation.call_ids().map(hash).collect();
        Self { id, agents: talk.agents, prompts: talk.prompts, calls }
    }
}

/// Threads of a session that were read, and the calls whose sub-agents are known.
#[derive(Default)]
pub(super) struct Callers {
    all: Vec<Caller>,
    taken: HashSet<Vec<u8>>,
}

impl Callers {
    /// Create the list; calls that a sidecar names are those of its sub-agent.
    pub(super) fn new<'s>(named: impl Iterator<Item = &'s str>) -> Self {
        Self { all: Vec::new(), taken: named.map(|call| call.as_bytes().to_vec()).collect() }
    }

    pub(super) fn push(&mut self, caller: Caller) {
        self.all.push(caller);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Return the thread that called a sub-agent, and its call: by the sidecar of the sub-agent or its own lines, by
    /// the call's result, or by the first call with its prompt that is not another's.
    pub(super) fn of(
        &mut self,
        told: &SessionMeta,
        talk: &ClaudeConversation,
        sidecar: Option<&str>,
    ) -> (String, Option<String>) {
        let session = self.all.first().map(|caller| caller.id.clone()).unwrap_or_default();
        let named = sidecar.or(Some(&*told.called_by)).filter(|call| !call.is_empty());
        if let Some(call) = named {
            let caller = self.all.iter().find(|caller| caller.calls.contains(&hash(call.as_bytes())));
            return (caller.map_or(session, |caller| caller.id.clone()), Some(call.to_owned()));
        }
        let agent = Some(hash(told.agent.as_bytes())).filter(|_| !told.agent.is_empty());
        let by_agent = |caller: &'_ Caller| caller.agents.get(&agent?).cloned();
        let by_prompt = |caller: &Caller| {
            let calls = caller.prompts.get(&talk.asked?)?;
            calls.iter().find(|&call| !self.taken.contains(call)).or(calls.last()).cloned()
        };
        let search = |call_of: &dyn Fn(&Caller) -> Option<Vec<u8>>| {
            self.all.iter().find_map(|caller| Some((caller.id.clone(), call_of(caller)?)))
        };
        let Some((caller, call)) = search(&by_agent).or_else(|| search(&by_prompt)) else {
            return (session, None);
        };
        let text = unescape(&[b"\"", &call[..], b"\""].concat()).map(Cow::into_owned);
        self.taken.insert(call);
        (caller, text)
    }
}

/// Return the call that a sub-agent works for, by the sidecar of its file: `agent-ID.meta.json` beside
/// `agent-ID.jsonl`.
pub(super) fn called_by_sidecar(transcript: &Source) -> Option<String> {
    let path = Path::new(&*transcript.name);
    let (agent, _) = path.file_name()?.to_str()?.split_once(".jsonl")?;
    let text = read_sidecar(&path.with_file_name(format!("{agent}.meta.json"))).ok()?;
    let call = reference_parser::parse(&text).ok()?.get("toolUseId")?.as_str()?.to_owned();
    Some(call).filter(|call| agent.starts_with("agent-") && !call.is_empty())
}

/// Key of the cost of a run.
const COST: &str = "total_cost_usd";

impl SessionMeta {
    /// Read the first line of a run: the tools offered to the model.
    pub(super) fn start(&mut self, line: &[u8], counts: &mut LineCounts) {
        let Some([tools]) = ObjectKeys::new(&["tools"]).of(line) else { return };
        expect(tools, LIST, "tools", counts);
        let Some(Value::Array(tools)) = tools.and_then(|tools| reference_parser::parse(tools).ok()) else {
            return;
        };
        match offered(tools.into_iter().map(tool).collect()) {
            Ok(tools) => self.tools = tools.or(self.tools.take()),
            Err(flaw) => counts.note(flaw.name()),
        }
    }

    /// Read the last line of a run: its cost, and its reward if that is the result of the run.
    pub(super) fn end(&mut self, line: &[u8], rate: Rate, counts: &mut LineCounts) {
        let Some([subtype, is_error, cost]) = ObjectKeys::new(&["subtype", "is_error", COST]).of(line) else {
            return;
        };
        expect(cost, NUMBER, COST, counts);
        if let Some(cost @ Value::Number(_)) = cost.and_then(|cost| reference_parser::parse(cost).ok()) {
            self.source.insert(COST.to_owned(), cost);
        }
        if rate == Rate::Result {
            self.reward = subtype.map(|subtype| rate_end(subtype, is_error));
        }
    }
}

/// Return 1 if the run ended without an error, else 0.
fn rate_end(subtype: &[u8], is_error: Option<&[u8]>) -> f64 {
    let well = subtype == b"\"success\"" && is_error != Some(b"true");
    f64::from(u8::from(well))
}

/// Return a tool with only its name, in the form of chat templates.
fn tool(tool: Value) -> Value {
    match tool {
        Value::String(name) => json!({"type": "function", "function": {"name": name}}),
        tool => tool,
    }
}
