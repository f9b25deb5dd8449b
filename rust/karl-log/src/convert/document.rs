//! Transcripts of which each is one file: documents, and files of lines that are read from the first to the last.

use serde_json::Value;

use karl_core::rng::id128;

use super::codex::Rollout;
use super::json::{inside, sound};
use super::kind::{Alone, Kind};
use super::lines::{Keys, each};
use super::message::Conversation;
use super::record::{Head, write};
use super::report::{DAMAGED, Made, NO_CONVERSATION, count_type};
use super::{Settings, atif, swe_agent};
use crate::error::{Error, Result};
use crate::log::Account;
use crate::source::Source;
use crate::split::Lines;
use crate::tally::{Reason, Tally};
use crate::trusted;
use crate::watch::Watch;

/// The line of a file's trajectory, and what became of what it holds.
///
/// # Errors
/// As [`convert`](super::convert).
pub(super) fn make(
    kind: Alone,
    source: &Source,
    settings: &Settings,
    watch: &Watch,
) -> Result<(Vec<u8>, Made)> {
    let (mut out, mut made, mut tally) = (Vec::new(), Made::default(), Tally::default());
    let found = match kind {
        Alone::Codex => Some(rollout(source, settings.max_line_bytes, &mut made, &mut tally, watch)?),
        Alone::SweAgent => whole(source, &mut made, &mut tally, watch, swe_agent::read)?,
        Alone::Atif => whole(source, &mut made, &mut tally, watch, atif::read)?,
    };
    if let Some((head, talk)) = found.filter(|(_, talk)| !talk.messages.is_empty()) {
        let unanswered = talk.unanswered();
        made.calls.extend((unanswered > 0).then_some(("unanswered", unanswered)));
        write(head, &talk.messages, settings.rate, &mut out, &mut made);
    }
    let mut account = Account::default();
    account.add(&tally, 0);
    made.files.push((source.name.clone().into(), Kind::Alone(kind).name(), account));
    Ok((out, made))
}

type Found = (Head, Conversation);

/// Reads a rollout of Codex.
fn rollout(
    source: &Source,
    limit: usize,
    made: &mut Made,
    tally: &mut Tally,
    watch: &Watch,
) -> Result<Found> {
    let io = |error| Error::io("read", &source.path, error);
    let mut lines = Lines::new(source.undamaged(watch).map_err(io)?, 0, u64::MAX, limit);
    lines.skip_mark().map_err(io)?;
    let (mut rollout, mut keys) = (Rollout::default(), Keys::new(&["type", "payload.type"]));
    while let Some(piece) = lines.next().map_err(io)? {
        let read = each(&piece, tally, |bytes, _| {
            let ([kind, inner], end) = keys.first(bytes)?;
            let kind = kind.map_or(&b""[..], inside);
            count_type(&mut made.types, &String::from_utf8_lossy(kind), 1);
            let fate = if Rollout::reads(kind, inner.map_or(&b""[..], inside)) {
                let line = sound(&bytes[..end]).and_then(|line| trusted::parse(&line).ok());
                line.map_or(Err(DAMAGED), |line| rollout.line(&line, made))
            } else {
                Err(NO_CONVERSATION)
            };
            match fate {
                Ok(()) => made.used += 1,
                Err(reason) => made.drop_line(reason),
            }
            Ok(end)
        });
        watch.advance(read)?;
    }
    watch.advance(0)?;
    Ok(rollout.end(&source.name))
}

/// Reads a document.
fn whole(
    source: &Source,
    made: &mut Made,
    tally: &mut Tally,
    watch: &Watch,
    read: fn(&Value, &str, u128, &mut Made) -> Found,
) -> Result<Option<Found>> {
    let io = |error| Error::io("read", &source.path, error);
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut source.stream(watch).map_err(io)?, &mut text).map_err(io)?;
    watch.advance(text.len() as u64)?;
    tally.lines = 1;
    let Ok(document) = trusted::parse(&text) else {
        tally.bad(0, Reason::Malformed);
        return Ok(None);
    };
    tally.rows = 1;
    made.used = 1;
    count_type(&mut made.types, DOCUMENT, 1);
    Ok(Some(read(&document, &source.name, id128(&text), made)))
}

/// The type under which a document is counted.
const DOCUMENT: &str = "document";
