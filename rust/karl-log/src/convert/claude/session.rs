//! Facts about a session from the lines of a thread.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::content::ClaudeConversation;
use super::line::LineFacts;
use super::row::{Row, hash};
use crate::convert::TranscriptKind;
use crate::input::source::Source;
use crate::json::unescape::unescape;

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
    pub(super) fn hear(&mut self, facts: &LineFacts<'_>, row: &Row) {
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

    /// Return the call that this sub-agent works for: by its own lines, by the call's result, or by the call
    /// with its prompt.
    pub(super) fn call(&self, own: &ClaudeConversation, talk: &ClaudeConversation) -> Option<String> {
        if !self.called_by.is_empty() {
            return Some(self.called_by.clone());
        }
        let by_agent = own.agents.get(&hash(self.agent.as_bytes())).filter(|_| !self.agent.is_empty());
        let call = by_agent.or_else(|| own.prompts.get(&talk.asked?))?;
        unescape(&[b"\"", &call[..], b"\""].concat()).map(Cow::into_owned)
    }
}
