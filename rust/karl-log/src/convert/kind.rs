//! Which tool wrote a transcript, told by the keys of its first lines, or of the document that it is.

use super::Settings;
use super::report::Report;
use crate::error::{Error, Result};
use crate::layout::keys_of;
use crate::source::Source;
use crate::split::{Extent, Lines, Piece, Window};
use crate::watch::Watch;

/// A kind of transcript that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Claude Code, from its own folder or as stream-json: sessions lie spread over files.
    ClaudeCode,
    /// Each file is a session.
    Alone(Alone),
}

/// A kind of which each file is one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alone {
    /// Rollouts of Codex.
    Codex,
    /// Runs of SWE-agent.
    SweAgent,
    /// Trials in ATIF.
    Atif,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 4] =
        [Self::ClaudeCode, Self::Alone(Alone::Codex), Self::Alone(Alone::SweAgent), Self::Alone(Alone::Atif)];

    /// The name by which it is asked for and reported.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Alone(Alone::Codex) => "codex",
            Self::Alone(Alone::SweAgent) => "swe-agent",
            Self::Alone(Alone::Atif) => "atif",
        }
    }

    /// What it reads, in one line.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::ClaudeCode => {
                "Claude Code: ~/.claude/projects, or what --output-format stream-json printed"
            }
            Self::Alone(Alone::Codex) => "Codex: ~/.codex/sessions",
            Self::Alone(Alone::SweAgent) => "SWE-agent: .traj",
            Self::Alone(Alone::Atif) => "ATIF: Harbor's and Terminal-Bench's agent/trajectory.json",
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
    /// What a conversion writes.
    Converted,
    /// What stands beside transcripts.
    Beside,
    /// None.
    Nothing,
}

/// How many lines are looked at for one that tells.
const LINES_PROBED: usize = 100;

/// What lines with these top-level keys, all of a list, are lines of.
const LINES: [(&[&str], Told); 7] = [
    (&["karl_fast_trajectory"], Told::Converted),
    (&["type", "sessionId"], Told::Transcript(Kind::ClaudeCode)),
    (&["type", "session_id"], Told::Transcript(Kind::ClaudeCode)),
    (&["type", "messageId", "snapshot"], Told::Transcript(Kind::ClaudeCode)),
    (&["type", "summary", "leafUuid"], Told::Transcript(Kind::ClaudeCode)),
    (&["timestamp", "type", "payload"], Told::Transcript(Kind::Alone(Alone::Codex))),
    (&["timestamp", "type", "data"], Told::Refused("a session of Copilot CLI, which is not read")),
];

/// What a document with these keys is.
const DOCUMENTS: [(&[&str], Told); 8] = [
    (&["sessionId", "projectHash", "messages"], Told::Refused("a session of Gemini CLI, which is not read")),
    (&["sessionId", "startTime", "messages"], Told::Refused("a session of Gemini CLI, which is not read")),
    (&["checkpoint_id"], Told::Beside),
    (&["task_name", "verifier_result"], Told::Beside),
    (&["resolved_ids"], Told::Beside),
    (&["schema_version", "steps"], Told::Transcript(Kind::Alone(Alone::Atif))),
    (&["history", "trajectory"], Told::Transcript(Kind::Alone(Alone::SweAgent))),
    (&["history"], Told::Transcript(Kind::Alone(Alone::SweAgent))),
];

/// Looks at the beginning of a file.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn tell(source: &Source, limit: usize, watch: &Watch) -> Result<Told> {
    match by_lines(source, limit, watch)? {
        Told::Nothing => document(source, limit, watch),
        told => Ok(told),
    }
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

/// What the document is that fills a file.
fn document(source: &Source, limit: usize, watch: &Watch) -> Result<Told> {
    let io = |error| Error::io("read", &source.path, error);
    let mut window = Window::new(source.undamaged(watch).map_err(io)?, 0);
    window.skip_mark().map_err(io)?;
    if window.peek().map_err(io)? != Some(b'{') {
        return Ok(Told::Nothing);
    }
    Ok(match window.value(limit).map_err(io)? {
        Extent::Kept(length) => {
            let keys = keys_of(&window.bytes()[..length]);
            keys.map_or(Told::Nothing, |keys| by_keys(&DOCUMENTS, &keys))
        }
        Extent::Torn(_) => Told::Refused("it ends inside the document that it begins"),
        Extent::Passed => Told::Refused("the document that it begins is longer than a line may be"),
    })
}

fn by_keys(known: &[(&[&str], Told)], keys: &[String]) -> Told {
    let has = |wanted: &&str| keys.iter().any(|key| key == wanted);
    let found = known.iter().find(|(wanted, _)| wanted.iter().all(has));
    found.map_or(Told::Nothing, |(_, told)| *told)
}

/// Files whose sessions may lie in several, and those of which each is one.
pub(super) type Sorted = (Vec<Source>, Vec<(Alone, Source)>);

/// Why files are passed over.
const CONVERTED: &str = "it holds trajectories already";
const NOTHING: &str = "it is no transcript of a known tool";

/// The transcripts among the files, by name: those whose sessions may lie in several, and the others. What is none is
/// reported, or refused where somebody named it.
///
/// # Errors
/// [`Error::Layout`], [`Error::Converted`], [`Error::Io`], [`Error::Interrupted`].
pub(super) fn sorted(
    sources: Vec<Source>,
    settings: &Settings,
    report: &mut Report,
    watch: &Watch,
) -> Result<Sorted> {
    let (mut sessions, mut alone) = (Vec::new(), Vec::new());
    for source in sources {
        let told = match settings.kind {
            Some(kind) => Told::Transcript(kind),
            None => tell(&source, settings.max_line_bytes, watch)?,
        };
        watch.advance(0)?;
        let refused = |why: &str| Err(Error::Layout { path: source.path.clone(), problem: why.to_owned() });
        match told {
            Told::Transcript(Kind::ClaudeCode) => sessions.push(source),
            Told::Transcript(Kind::Alone(kind)) => alone.push((kind, source)),
            Told::Beside => {}
            Told::Refused(why) if source.optional => report.refused.push((source.path, why.to_owned())),
            Told::Converted if source.optional => report.skipped.push((source.path, CONVERTED.to_owned())),
            Told::Converted => return Err(Error::Converted { path: source.path }),
            Told::Nothing if source.optional => report.skipped.push((source.path, NOTHING.to_owned())),
            Told::Refused(why) => return refused(why),
            Told::Nothing => return refused(NOTHING),
        }
    }
    sessions.sort_by(|a, b| a.name.cmp(&b.name));
    alone.sort_by(|a, b| a.1.name.cmp(&b.1.name));
    Ok((sessions, alone))
}
