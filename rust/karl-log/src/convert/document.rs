//! Transcripts of which each is one file: documents, and files of lines that are read from the first to the last.

use serde_json::Value;

use karl_core::rng::id128;

use super::codex::Rollout;
use super::json::{inside, mended};
use super::kind::{Alone, Kind};
use super::lines::{Keys, each};
use super::message::Conversation;
use super::record::{Head, write};
use super::report::{EMPTY, Made, NO_CONVERSATION, count_type};
use super::sort::{OBJECT, damaged};
use super::verdicts::Verdicts;
use super::{Settings, atif, swe_agent};
use crate::error::Result;
use crate::log::Account;
use crate::source::Source;
use crate::split::Lines;
use crate::tally::{Reason, Tally};
use crate::trusted;
use crate::watch::Watch;

/// The line of a file's trajectory, and what became of what it holds; `verdicts` are on runs of SWE-agent.
///
/// # Errors
/// As [`convert`](super::convert).
pub(super) fn make(
    kind: Alone,
    source: &Source,
    settings: &Settings,
    verdicts: &Verdicts,
    watch: &Watch,
) -> Result<(Vec<u8>, Made)> {
    let (mut out, mut made, mut tally) = (Vec::new(), Made::default(), Tally::default());
    let file = &source.name;
    let found = match kind {
        Alone::Codex => Some(rollout(source, settings.max_line_bytes, &mut made, &mut tally, watch)?),
        Alone::SweAgent => whole(source, &mut made, &mut tally, watch, |document, digest, made| {
            swe_agent::read(document, file, digest, verdicts, made)
        })?,
        Alone::Atif => whole(source, &mut made, &mut tally, watch, |document, digest, made| {
            atif::read(document, file, digest, made)
        })?,
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
    let io = |error| source.failed("read", error);
    let mut lines = Lines::new(source.undamaged(watch).map_err(io)?, 0, u64::MAX, limit);
    lines.skip_mark().map_err(io)?;
    let (mut rollout, mut keys) = (Rollout::default(), Keys::new(&["type", "payload.type"]));
    while let Some(piece) = lines.next().map_err(io)? {
        let read = each(&piece, tally, |bytes, offset| {
            let ([kind, inner], end) = keys.first(bytes)?;
            let kind = kind.map_or(&b""[..], inside);
            count_type(&mut made.types, &String::from_utf8_lossy(kind), 1);
            let fate = if Rollout::reads(kind, inner.map_or(&b""[..], inside)) {
                let line = mended(&bytes[..end], made).and_then(|line| trusted::parse(&line).ok());
                match line {
                    Some(line) => rollout.line(&line, made),
                    None => Err(damaged(OBJECT, "the line", made)),
                }
            } else {
                Err(NO_CONVERSATION)
            };
            made.locate(&source.name, offset);
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
    read: impl FnOnce(&Value, u128, &mut Made) -> Found,
) -> Result<Option<Found>> {
    let io = |error| source.failed("read", error);
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut source.stream(watch).map_err(io)?, &mut text).map_err(io)?;
    watch.advance(text.len() as u64)?;
    tally.lines = 1;
    let Some(document) = mended(&text, made).and_then(|text| trusted::parse(&text).ok()) else {
        tally.bad(trusted::fault(&text), Reason::Malformed);
        return Ok(None);
    };
    tally.rows = 1;
    count_type(&mut made.types, DOCUMENT, 1);
    let found = read(&document, id128(&text), made);
    made.locate(&source.name, 0);
    if found.1.messages.is_empty() {
        made.drop_line(EMPTY);
    } else {
        made.used = 1;
    }
    Ok(Some(found))
}

/// The type under which a document is counted.
const DOCUMENT: &str = "document";
