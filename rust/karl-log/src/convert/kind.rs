//! Which tool wrote a transcript, told by the keys of its first lines, or of the document that it is.

use std::path::Path;

use crate::error::{Error, Result};
use crate::layout::keys_of;
use crate::source::Source;
use crate::split::{Extent, Lines, Piece, Window};
use crate::watch::Watch;

/// A kind of transcript that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Claude Code, from its own folder or as stream-json.
    ClaudeCode,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 1] = [Self::ClaudeCode];

    /// The name by which it is asked for and reported.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
        }
    }

    /// What it reads, in one line.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::ClaudeCode => {
                "Claude Code: ~/.claude/projects, or what --output-format stream-json printed"
            }
        }
    }

    /// The kind of that name; `_` and `-`, upper and lower case are the same.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase().replace('_', "-");
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// What a file was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// A transcript that is read.
    Transcript(Kind),
    /// Of a tool whose transcripts are not.
    Refused(&'static str),
    /// What stands beside transcripts.
    Beside,
    /// None.
    Nothing,
}

/// How many lines are looked at for one that tells.
const LINES_PROBED: usize = 100;

/// What lines with these top-level keys, all of a list, are lines of.
const LINES: [(&[&str], Told); 6] = [
    (&["type", "sessionId"], Told::Transcript(Kind::ClaudeCode)),
    (&["type", "session_id"], Told::Transcript(Kind::ClaudeCode)),
    (&["type", "messageId", "snapshot"], Told::Transcript(Kind::ClaudeCode)),
    (&["type", "summary", "leafUuid"], Told::Transcript(Kind::ClaudeCode)),
    (&["timestamp", "type", "payload"], Told::Refused("a rollout of Codex, which is not read")),
    (&["timestamp", "type", "data"], Told::Refused("a session of Copilot CLI, which is not read")),
];

/// What a document with these keys is.
const DOCUMENTS: [(&[&str], Told); 3] = [
    (&["sessionId", "projectHash", "messages"], Told::Refused("a session of Gemini CLI, which is not read")),
    (&["sessionId", "startTime", "messages"], Told::Refused("a session of Gemini CLI, which is not read")),
    (&["checkpoint_id"], Told::Beside),
];

/// Looks at the beginning of a file.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn tell(source: &Source, limit: usize, watch: &Watch) -> Result<Told> {
    let lines = by_lines(source, limit, watch)?;
    if lines != Told::Nothing {
        return Ok(lines);
    }
    Ok(document(source, limit, watch)?.map_or(Told::Nothing, |keys| by_keys(&DOCUMENTS, &keys)))
}

fn by_lines(source: &Source, limit: usize, watch: &Watch) -> Result<Told> {
    let io = |error| Error::io("read", &source.path, error);
    let mut lines = Lines::new(source.undamaged(watch).map_err(io)?, 0, u64::MAX, limit);
    lines.skip_mark().map_err(io)?;
    for _ in 0..LINES_PROBED {
        let Some(piece) = lines.next().map_err(io)? else { break };
        let Piece::Text { bytes, .. } = piece else { continue };
        let told = keys_of(bytes.trim_ascii_start()).map_or(Told::Nothing, |keys| by_keys(&LINES, &keys));
        if told != Told::Nothing {
            return Ok(told);
        }
    }
    Ok(Told::Nothing)
}

/// The keys of the object that a file begins with.
fn document(source: &Source, limit: usize, watch: &Watch) -> Result<Option<Vec<String>>> {
    let io = |error| Error::io("read", &source.path, error);
    let mut window = Window::new(source.undamaged(watch).map_err(io)?, 0);
    window.skip_mark().map_err(io)?;
    if window.peek().map_err(io)? != Some(b'{') {
        return Ok(None);
    }
    let Extent::Kept(length) = window.value(limit).map_err(io)? else { return Ok(None) };
    Ok(keys_of(&window.bytes()[..length]))
}

fn by_keys(known: &[(&[&str], Told)], keys: &[String]) -> Told {
    let has = |wanted: &&str| keys.iter().any(|key| key == wanted);
    let found = known.iter().find(|(wanted, _)| wanted.iter().all(|key| has(key)));
    found.map_or(Told::Nothing, |(_, told)| *told)
}

/// Why a file that is no transcript is passed over.
pub(super) fn nothing(path: &Path) -> Error {
    Error::Layout { path: path.to_path_buf(), problem: "it is no transcript of a known tool".to_owned() }
}
