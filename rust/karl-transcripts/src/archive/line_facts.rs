//! Facts about a session in the lines of a transcript, found while they are copied.

use memchr::memchr;
use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::Value;

/// Longer lines are not parsed: they hold results of tools, not facts about the session.
const LONGEST: usize = 1 << 20;

/// Facts about a session.
#[derive(Debug, Default)]
pub(super) struct SessionFacts {
    /// Session.
    pub(super) id: Option<String>,
    /// Session that started this one.
    pub(super) parent: Option<String>,
    /// Working directory.
    pub(super) directory: Option<String>,
    /// Last pull request.
    pub(super) pull_request: Option<String>,
}

/// Lines that pass by, with the part of the last one.
pub(super) struct FactScanner {
    pub(super) facts: SessionFacts,
    part: Vec<u8>,
    directory: Finder<'static>,
    link: Finder<'static>,
}

/// Keys of a line that name its session and where it works: Claude Code and Gemini CLI in the line, Codex in
/// its payload, Copilot CLI in its data.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Keys {
    #[serde(rename = "type")]
    kind: Value,
    #[serde(rename = "sessionId", alias = "session_id")]
    session: Value,
    #[serde(rename = "agentId")]
    agent: Value,
    cwd: Value,
    #[serde(rename = "prUrl")]
    link: Value,
    payload: Value,
    data: Value,
}

impl FactScanner {
    pub(super) fn new() -> Self {
        Self {
            facts: SessionFacts::default(),
            part: Vec::new(),
            directory: Finder::new(br#""cwd""#),
            link: Finder::new(br#""pr-link""#),
        }
    }

    /// Return whether the last line has no line break yet.
    pub(super) fn is_inside(&self) -> bool {
        !self.part.is_empty()
    }

    /// Take the next bytes.
    pub(super) fn scan(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr(b'\n', bytes) {
            if self.part.is_empty() {
                self.line(&bytes[..end]);
            } else {
                self.keep(&bytes[..end]);
                let part = std::mem::take(&mut self.part);
                self.line(&part);
            }
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = (LONGEST + 1).saturating_sub(self.part.len());
        self.part.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn line(&mut self, line: &[u8]) {
        let is_wanted = self.link.find(line).is_some()
            || (self.facts.directory.is_none() && self.directory.find(line).is_some());
        if line.len() <= LONGEST
            && is_wanted
            && let Ok(keys) = serde_json::from_slice(line)
        {
            self.facts.take(&keys);
        }
    }
}

impl SessionFacts {
    fn take(&mut self, keys: &Keys) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let own = |key: &str| text(&keys.payload[key]).or_else(|| text(&keys.data[key]));
        if keys.kind == "pr-link" {
            self.pull_request = text(&keys.link).or_else(|| self.pull_request.take());
        }
        let cwd = text(&keys.cwd).or_else(|| own("cwd")).or_else(|| text(&keys.data["context"]["cwd"]));
        self.directory = self.directory.take().or(cwd);
        if self.id.is_some() {
            return;
        }
        let session = text(&keys.session).or_else(|| own("id")).or_else(|| own("sessionId"));
        (self.id, self.parent) = match text(&keys.agent) {
            Some(agent) => (session.as_ref().map(|session| format!("{session}/{agent}")), session),
            None => (session, parent(&keys.payload)),
        };
    }
}

/// Return the session that started a sub-agent of Codex.
fn parent(payload: &Value) -> Option<String> {
    let spawned = &payload["source"]["subagent"]["thread_spawn"]["parent_thread_id"];
    [&payload["parent_thread_id"], spawned].into_iter().find_map(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::FactScanner;

    #[test]
    fn facts_are_found_wherever_a_block_ends() {
        let text = concat!(
            r#"{"type":"user","sessionId":"s","cwd":"/w","uuid":"u"}"#,
            "\n",
            r#"{"type":"pr-link","sessionId":"s","prUrl":"https://h/pull/1"}"#,
            "\n"
        );
        for cut in 0..text.len() {
            let mut scanner = FactScanner::new();
            scanner.scan(&text.as_bytes()[..cut]);
            scanner.scan(&text.as_bytes()[cut..]);
            let facts = scanner.facts;
            assert_eq!(facts.id.as_deref(), Some("s"));
            assert_eq!(facts.directory.as_deref(), Some("/w"));
            assert_eq!(facts.pull_request.as_deref(), Some("https://h/pull/1"));
        }
    }

    #[test]
    fn a_sub_agent_names_its_parent() {
        for (line, id, parent) in [
            (r#"{"type":"user","sessionId":"s","agentId":"a","cwd":"/"}"#, "s/a", Some("s")),
            (
                r#"{"type":"session_meta","payload":{"id":"c","cwd":"/","source":{"subagent":{"thread_spawn":{"parent_thread_id":"p"}}}}}"#,
                "c",
                Some("p"),
            ),
            (
                r#"{"type":"session_meta","payload":{"id":"c","cwd":"/","parent_thread_id":"q"}}"#,
                "c",
                Some("q"),
            ),
            (r#"{"type":"session_meta","payload":{"id":"c","cwd":"/","source":"cli"}}"#, "c", None),
            (r#"{"type":"session.start","data":{"sessionId":"c","context":{"cwd":"/"}}}"#, "c", None),
        ] {
            let mut scanner = FactScanner::new();
            scanner.scan(format!("{line}\n").as_bytes());
            assert_eq!(scanner.facts.id.as_deref(), Some(id));
            assert_eq!(scanner.facts.parent.as_deref(), parent);
            assert_eq!(scanner.facts.directory.as_deref(), Some("/"));
        }
    }
}
