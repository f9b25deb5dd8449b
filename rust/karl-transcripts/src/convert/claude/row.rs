//! Lines of Claude Code: the row that the first pass keeps of a line, and the line as the second pass reads it again.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use karl_core::rng::id128;
use karl_log::columns::PackedPlace;
use karl_log::error::{Error, Result};
use karl_log::input::source::Source;
use karl_log::json::project::ScanFault;
use karl_log::json::unescape::unescape;
use karl_log::time::milliseconds;

use crate::convert::json::{OBJECT, ObjectKeys, TEXT, absent, damaged, expect, inside, sound};
use crate::convert::report::LineCounts;

/// Role of a line in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    /// User's message, or results of tools.
    User,
    /// Part of the model's message.
    Assistant,
    /// Start of a run in stream-json: the tools offered to the model.
    Start,
    /// End of a run in stream-json.
    Result,
    /// Prompt that was typed while the agent worked, where the model read it: `queued_command`.
    Queued,
    /// Line of the queue of such prompts that no parent links: it belongs to the line before it.
    Floating,
    /// Link that the tool attached for the model.
    Attached,
    /// Link between lines without content: progress, hooks.
    Link,
    /// Link at which the messages before it gave way to a summary.
    Boundary,
    /// Link that relays a message of a sub-agent, and is counted as that message.
    Carrier,
    /// Line outside any session.
    Loose,
}

/// Previous line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParentLine {
    /// Id of the line.
    Line(u64),
    /// None: the line begins a thread.
    Root,
    /// Not in the log.
    Unknown,
}

/// One line of a transcript.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) session: u64,
    pub(super) id: u64,
    pub(super) parent: ParentLine,
    /// Message that the line is a part of; 0 for none.
    pub(super) message: u64,
    /// Sub-agent; 0 if not named.
    pub(super) agent: u64,
    /// Milliseconds since 1970; 0 if unknown.
    pub(super) time: i64,
    pub(super) spot: PackedPlace,
    pub(super) length: u32,
    pub(super) kind: LineKind,
    /// True if it belongs to a sub-agent.
    pub(super) side: bool,
    /// True if it is a message of a sub-agent inside a line of its session.
    pub(super) relayed: bool,
    /// Reason to leave it out, if the line itself gives one.
    pub(super) left_out: Option<LeftOut>,
}

/// Lines that are neither a user's prompt nor text of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeftOut {
    /// Inserted by the tool: `isMeta`.
    Meta,
    /// Summary in place of compacted messages.
    CompactSummary,
    /// Text that the tool writes in the model's name.
    Synthetic,
    /// Text in the model's name about a failed request.
    ApiError,
    /// Message that neither the user nor another agent sent: a task that ended, a continuation by itself.
    Notification,
    /// Message of a sub-agent in a line with neither its name nor its call.
    UnnamedAgent,
}

impl LeftOut {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Meta => "meta",
            Self::CompactSummary => "compact_summary",
            Self::Synthetic | Self::ApiError => "synthetic",
            Self::Notification => "notification",
            Self::UnnamedAgent => "unnamed_agent",
        }
    }
}

const PATHS: [&str; 21] = [
    "type",
    "uuid",
    "parentUuid",
    "logicalParentUuid",
    "sessionId",
    "session_id",
    "agentId",
    "parent_tool_use_id",
    "isSidechain",
    "isMeta",
    "isCompactSummary",
    "timestamp",
    "message.id",
    "message.model",
    "data.type",
    "tools",
    "subtype",
    "attachment.type",
    "isApiErrorMessage",
    "origin.kind",
    "forkedFrom.messageUuid",
];

/// Paths of [`PATHS`] for the message relayed by a progress line.
const RELAYED: [&str; 8] = [
    "data.message.type",
    "data.message.uuid",
    "data.message.message",
    "data.agentId",
    "parentToolUseID",
    "data.message.timestamp",
    "data.message.message.id",
    "data.message.message.model",
];

/// Parser of rows from lines.
pub(super) struct ClaudeRowReader {
    own: ObjectKeys,
    relayed: ObjectKeys,
}

/// Row of a line, row of a relayed message, and the name of the line's type.
pub(super) struct ReadLine<'r> {
    pub(super) row: Row,
    pub(super) relayed: Option<Row>,
    /// Line that it is a copy of, if it is of a forked session.
    pub(super) forked_from: Option<u64>,
    pub(super) kind: &'r [u8],
    pub(super) end: usize,
}

impl ClaudeRowReader {
    pub(super) fn new() -> Self {
        Self { own: ObjectKeys::new(&PATHS), relayed: ObjectKeys::new(&RELAYED) }
    }

    /// Parse the line at the start of `bytes`; `session` is used for a line without one.
    pub(super) fn read<'r>(
        &mut self,
        bytes: &'r [u8],
        spot: PackedPlace,
        session: u64,
    ) -> std::result::Result<ReadLine<'r>, ScanFault> {
        let (found, end) = self.own.first::<21>(bytes)?;
        let line = &bytes[..end];
        let name = |slot: usize| found[slot].map(inside).filter(|name| !name.is_empty());
        let hash = |slot: usize| name(slot).map(hash);
        let is = |slot: usize| found[slot] == Some(b"true");
        let kind = name(0).unwrap_or_default();
        let agent = hash(6).or_else(|| hash(7)).unwrap_or_default();
        let mut row = Row {
            session: hash(4).or_else(|| hash(5)).unwrap_or(session),
            id: hash(1).unwrap_or_else(|| self::hash(line)),
            parent: parent(found[2], found[3], kind == b"system" || is(10)),
            message: hash(12).unwrap_or_default(),
            agent,
            time: name(11).and_then(milliseconds).unwrap_or_default(),
            spot,
            length: u32::try_from(end).unwrap_or(u32::MAX),
            kind: kind_of(kind, found[1].is_some(), found[15].is_some()),
            side: is(8) || name(7).is_some(),
            relayed: false,
            left_out: left_out(is(9), is(10), name(13), name(19)),
        };
        match (row.kind, name(16), name(17)) {
            (LineKind::Link, Some(b"compact_boundary"), _) => row.kind = LineKind::Boundary,
            (LineKind::Link, _, Some(b"queued_command")) => row.kind = LineKind::Queued,
            (LineKind::Loose, _, Some(b"queued_command")) => row.kind = LineKind::Floating,
            (LineKind::Link, ..) if kind == b"attachment" => row.kind = LineKind::Attached,
            (LineKind::Loose, ..) if kind == b"queue-operation" => row.kind = LineKind::Floating,
            _ => {}
        }
        if row.left_out == Some(LeftOut::Synthetic) && is(18) {
            row.left_out = Some(LeftOut::ApiError);
        }
        let tells =
            found[14] == Some(b"\"agent_progress\"") && matches!(row.kind, LineKind::Link | LineKind::Loose);
        let relayed = if tells { self.relayed(line, &row) } else { None };
        if relayed.is_some() {
            row.kind = LineKind::Carrier;
        }
        Ok(ReadLine { row, relayed, forked_from: hash(20), kind, end })
    }

    /// Return the message of a sub-agent that a line relays; `None` if there is none.
    fn relayed(&mut self, line: &[u8], carrier: &Row) -> Option<Row> {
        let found: [Option<&[u8]>; 8] = self.relayed.of(line)?;
        let name = |slot: usize| found[slot].map(inside).filter(|name| !name.is_empty());
        let kind = kind_of(name(0)?, false, false);
        let agent = name(3).or_else(|| name(4)).map(hash);
        let row = Row {
            id: name(1).or(found[2]).map(hash)?,
            parent: ParentLine::Unknown,
            message: name(6).map(hash).unwrap_or_default(),
            agent: agent.unwrap_or_default(),
            time: name(5).and_then(milliseconds).unwrap_or(carrier.time),
            kind,
            side: true,
            relayed: true,
            left_out: if agent.is_none() {
                Some(LeftOut::UnnamedAgent)
            } else {
                left_out(false, false, name(7), None)
            },
            ..*carrier
        };
        (matches!(kind, LineKind::User | LineKind::Assistant) && found[2].is_some()).then_some(row)
    }
}

/// Return a hash in place of a name: 64 bits suffice to distinguish those of a log.
pub(super) fn hash(name: &[u8]) -> u64 {
    (id128(name) >> 64) as u64
}

fn kind_of(kind: &[u8], named: bool, offers_tools: bool) -> LineKind {
    match kind {
        b"system" if offers_tools => LineKind::Start,
        b"user" => LineKind::User,
        b"assistant" => LineKind::Assistant,
        b"result" => LineKind::Result,
        _ if named => LineKind::Link,
        _ => LineKind::Loose,
    }
}

/// Return the parent of a line: after a compaction the logical one; if that is missing, the order of the file
/// decides. A line that begins anew is not a root if the tool wrote it.
fn parent(parent: Option<&[u8]>, logical: Option<&[u8]>, is_of_tool: bool) -> ParentLine {
    let id = |raw: Option<&[u8]>| raw.map(inside).filter(|id| !id.is_empty()).map(hash);
    match (id(parent).or_else(|| id(logical)), parent) {
        (Some(id), _) => ParentLine::Line(id),
        (None, Some(_)) if !is_of_tool => ParentLine::Root,
        (None, _) => ParentLine::Unknown,
    }
}

/// Senders of messages in the user's name that no one typed.
pub(super) const NOTIFIERS: [&[u8]; 4] =
    [b"task-notification", b"auto-continuation", b"observer", b"observer-activity"];

/// Senders of messages that are marked as inserted by the tool and are input nevertheless.
pub(super) const SENDERS: [&[u8]; 4] = [b"human", b"channel", b"peer", b"coordinator"];

fn left_out(meta: bool, compact: bool, model: Option<&[u8]>, origin: Option<&[u8]>) -> Option<LeftOut> {
    let is_sent = origin.is_some_and(|origin| SENDERS.contains(&origin));
    match (meta, compact) {
        (_, true) => Some(LeftOut::CompactSummary),
        _ if origin.is_some_and(|origin| NOTIFIERS.contains(&origin)) => Some(LeftOut::Notification),
        (true, _) if !is_sent => Some(LeftOut::Meta),
        _ => model.filter(|model| *model == b"<synthetic>").map(|_| LeftOut::Synthetic),
    }
}

/// Files of a session, opened as needed.
pub(super) struct SessionFiles<'a> {
    sources: &'a [Source],
    open: HashMap<usize, File>,
    line: Vec<u8>,
}

impl<'a> SessionFiles<'a> {
    pub(super) fn new(sources: &'a [Source]) -> Self {
        Self { sources, open: HashMap::new(), line: Vec::new() }
    }

    /// Return the bytes of a row's line.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Changed`] if the file is gone or shorter than before.
    pub(super) fn line(&mut self, row: &Row) -> Result<&[u8]> {
        let place = row.spot.place(row.length);
        let source = &self.sources[place.input];
        let gone = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof => source.changed(place.offset),
            _ => source.failed("read", error),
        };
        let file = match self.open.entry(place.input) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(free) => free.insert(File::open(&source.path).map_err(gone)?),
        };
        self.line.resize(place.length as usize, 0);
        file.read_exact_at(&mut self.line, place.offset).map_err(gone)?;
        Ok(&self.line)
    }

    /// Return the error for a line that has changed.
    pub(super) fn changed(&self, row: &Row) -> Error {
        let place = row.spot.place(row.length);
        self.sources[place.input].changed(place.offset)
    }
}

/// Fields of a line; texts are the contents of JSON strings, empty if absent.
pub(super) struct ClaudeLine<'r> {
    pub(super) timestamp: &'r [u8],
    /// Result in the tool's own form: examined, not converted.
    pub(super) result: Option<&'r [u8]>,
    /// Sub-agent of a result.
    pub(super) result_agent: &'r [u8],
    message: Option<Cow<'r, [u8]>>,
    /// Time, session and message, as raw JSON.
    raw: [Option<&'r [u8]>; 3],
    pub(super) mended: bool,
    /// True if the line has an id.
    pub(super) named: bool,
    pub(super) facts: LineFacts<'r>,
}

impl ClaudeLine<'_> {
    /// Count values of unexpected types.
    pub(super) fn expect(&self, counts: &mut LineCounts) {
        let [timestamp, session, message] = self.raw;
        expect(timestamp, TEXT, "timestamp", counts);
        expect(session, TEXT, "sessionId", counts);
        expect(message, OBJECT, "message", counts);
    }

    /// Return the message, or the reason why there is none.
    pub(super) fn message(&self, counts: &mut LineCounts) -> std::result::Result<&[u8], &'static str> {
        match (&self.message, self.raw[2]) {
            (Some(message), _) => Ok(message),
            (None, Some(_)) => Err(damaged(OBJECT, "message", counts)),
            (None, None) => Err(absent(OBJECT, "message", counts)),
        }
    }
}

/// Facts about the session in a line.
#[derive(Clone, Copy)]
pub(super) struct LineFacts<'r> {
    pub(super) session: &'r [u8],
    pub(super) streamed: bool,
    pub(super) agent: &'r [u8],
    /// Sender of a message in the user's name.
    pub(super) origin: &'r [u8],
    /// Tool call that a sub-agent works for.
    pub(super) called_by: &'r [u8],
    pub(super) cwd: &'r [u8],
    pub(super) branch: &'r [u8],
    pub(super) version: &'r [u8],
}

/// Paths of a line's fields.
const OWN: [&str; 15] = [
    "uuid",
    "timestamp",
    "sessionId",
    "session_id",
    "agentId",
    "parent_tool_use_id",
    "cwd",
    "gitBranch",
    "version",
    "toolUseResult",
    "tool_use_result",
    "toolUseResult.agentId",
    "tool_use_result.agentId",
    "message",
    "origin.kind",
];

/// Paths of the fields of a relayed message in a line.
const RELAYED_LINE: [&str; 15] = [
    "data.message.uuid",
    "data.message.timestamp",
    "sessionId",
    "session_id",
    "data.agentId",
    "parentToolUseID",
    "cwd",
    "gitBranch",
    "version",
    "data.message.toolUseResult",
    "data.message.tool_use_result",
    "data.message.toolUseResult.agentId",
    "data.message.tool_use_result.agentId",
    "data.message.message",
    "data.message.origin.kind",
];

/// Parser of lines.
pub(super) struct LineReader {
    own: ObjectKeys,
    relayed: ObjectKeys,
}

impl LineReader {
    pub(super) fn new() -> Self {
        Self { own: ObjectKeys::new(&OWN), relayed: ObjectKeys::new(&RELAYED_LINE) }
    }

    /// Parse the fields of a row's line; None if the line has changed.
    pub(super) fn read<'r>(&mut self, row: &Row, line: &'r [u8]) -> Option<ClaudeLine<'r>> {
        let keys = if row.relayed { &mut self.relayed } else { &mut self.own };
        let found: [Option<&[u8]>; 15] = keys.of(line)?;
        let text = |slot: usize| found[slot].filter(|raw| unescape(raw).is_some()).map_or(&b""[..], inside);
        let named = found[0].map(inside).filter(|id| !id.is_empty());
        let whole = if row.relayed { found[13]? } else { line };
        if hash(named.unwrap_or(whole)) != row.id {
            return None;
        }
        let either = |one: usize, two: usize| if text(one).is_empty() { text(two) } else { text(one) };
        let message = found[13].and_then(sound);
        Some(ClaudeLine {
            timestamp: text(1),
            result: found[9].or(found[10]),
            result_agent: either(11, 12),
            mended: matches!(message, Some(Cow::Owned(_))),
            message,
            raw: [found[1], found[2].or(found[3]), found[13]],
            named: named.is_some(),
            facts: LineFacts {
                session: either(2, 3),
                streamed: found[3].is_some(),
                agent: text(4),
                origin: text(14),
                called_by: text(5),
                cwd: text(6),
                branch: text(7),
                version: text(8),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Row;

    #[test]
    fn a_row_is_as_small_as_the_manual_says() {
        assert_eq!(size_of::<Row>(), 72);
    }
}
