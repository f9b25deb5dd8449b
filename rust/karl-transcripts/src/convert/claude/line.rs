//! Second pass: read the used lines of a transcript again.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use karl_log::error::{Error, Result};
use karl_log::input::source::Source;
use karl_log::json::unescape::unescape;

use super::row::{Row, hash};
use crate::convert::json::{inside, sound};
use crate::convert::json_type::{OBJECT, TEXT, absent, damaged, expect};
use crate::convert::lines::ObjectKeys;
use crate::convert::report::Made;

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
    pub(super) fn expect(&self, made: &mut Made) {
        let [timestamp, session, message] = self.raw;
        expect(timestamp, TEXT, "timestamp", made);
        expect(session, TEXT, "sessionId", made);
        expect(message, OBJECT, "message", made);
    }

    /// Return the message, or the reason why there is none.
    pub(super) fn message(&self, made: &mut Made) -> std::result::Result<&[u8], &'static str> {
        match (&self.message, self.raw[2]) {
            (Some(message), _) => Ok(message),
            (None, Some(_)) => Err(damaged(OBJECT, "message", made)),
            (None, None) => Err(absent(OBJECT, "message", made)),
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
const RELAYED: [&str; 15] = [
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
        Self { own: ObjectKeys::new(&OWN), relayed: ObjectKeys::new(&RELAYED) }
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
