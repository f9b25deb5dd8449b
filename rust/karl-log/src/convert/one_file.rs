//! Transcripts in one file each: documents, and files of lines that are read in order. Of several files of
//! one session each message is written once.

use std::io::Read;

use karl_core::rng::id128;
use serde_json::Value;

use super::codex::{ItemTrail, REPEATED, Rollout};
use super::entire_metadata::EntireMetadata;
use super::json::{inside, mended};
use super::json_type::{OBJECT, damaged};
use super::lineage::{Lineage, Trace, hash, units};
use super::lines::{ObjectKeys, each};
use super::message::{Conversation, Message};
use super::record::{Head, write};
use super::report::{EMPTY, Made, NO_CONVERSATION, Report, count_type};
use super::settings::ConvertSettings;
use super::swe_bench::SweBenchReports;
use super::text_parts::text as text_of;
use super::tool_kind::{Alone, TranscriptKind};
use super::value_hash::hash_of;
use super::{atif, swe_agent};
use crate::cancel::Watch;
use crate::detect::{FileLayout, records};
use crate::error::Result;
use crate::input::source::Source;
use crate::json::reference_parser;
use crate::log::Account;
use crate::parallel::map;
use crate::rejects::{FileTally, RejectReason};

/// Type under which a document is counted.
const DOCUMENT: &str = "document";

/// Files with a session or a part of one, before trajectories are made of them.
pub(super) struct Documents<'a> {
    files: &'a [(Alone, Source)],
    besides: Vec<Option<EntireMetadata>>,
    units: Vec<Lineage>,
    verdicts: SweBenchReports,
}

impl<'a> Documents<'a> {
    /// Find the session of every file.
    ///
    /// # Errors
    /// As [`convert`](super::convert).
    pub(super) fn look(
        files: &'a [(Alone, Source)],
        settings: &ConvertSettings,
        report: &mut Report,
        watch: &Watch,
    ) -> Result<Self> {
        let besides: Vec<_> = files.iter().map(|(_, source)| EntireMetadata::look(source)).collect();
        let one = |(kind, source): &(Alone, Source)| trace(*kind, source, settings, watch);
        let traces = match files {
            [_] => vec![Trace::default()],
            _ => {
                map(files.iter().collect(), settings.threads, one).into_iter().collect::<Result<Vec<_>>>()?
            }
        };
        let units = units(&traces, &besides, &mut report.made);
        Ok(Self { files, besides, units, verdicts: SweBenchReports::default() })
    }

    /// Return the number of work units.
    pub(super) fn len(&self) -> usize {
        self.units.len()
    }

    /// Return the line of a unit's trajectory, and the account of its files.
    ///
    /// # Errors
    /// As [`convert`](super::convert).
    pub(super) fn make(
        &self,
        unit: usize,
        settings: &ConvertSettings,
        watch: &Watch,
    ) -> Result<(Vec<u8>, Made)> {
        let (unit, mut out, mut made) = (&self.units[unit], Vec::new(), Made::default());
        let found = match self.files[unit.parts[0].0].0 {
            Alone::Codex => Some(self.rollout(unit, settings.max_line_bytes, &mut made, watch)?),
            kind => self.document(kind, unit, &mut made, watch)?,
        };
        if let Some((mut head, talk)) = found.filter(|(_, talk)| !talk.messages.is_empty()) {
            let unanswered = talk.unanswered();
            made.calls.extend((unanswered > 0).then_some(("unanswered", unanswered)));
            self.settle(unit, &mut head);
            write(head, &talk.messages, settings.rate, &mut out, &mut made);
        }
        Ok((out, made))
    }

    /// Add to a head the facts beside the files of its session, and those of other files.
    fn settle(&self, unit: &Lineage, head: &mut Head) {
        let files = if unit.files.is_empty() { vec![unit.parts[0].0] } else { unit.files.clone() };
        let beside = EntireMetadata::last(files.iter().filter_map(|&at| self.besides[at].as_ref()), &head.id);
        let group = unit.group.clone().or_else(|| beside?.group.clone());
        head.group = head.group.take().or(group);
        head.reward = head.reward.or_else(|| beside?.reward);
        if let Some(mark) = unit.mark {
            head.id = format!("{}/{mark:016x}", head.id);
        }
        let names = unit.parts.iter().map(|&(at, _)| Value::from(&*self.files[at].1.name));
        head.source.insert("files".to_owned(), names.collect());
    }

    /// Read the files of a Codex session; skip a file contained in another.
    fn rollout(&self, unit: &Lineage, limit: usize, made: &mut Made, watch: &Watch) -> Result<Parsed> {
        let mut rollout = Rollout::default();
        for &(at, repeated) in &unit.parts {
            let (source, mut tally) = (&self.files[at].1, FileTally::default());
            rollout.repeated = repeated;
            lines(
                source,
                limit,
                &mut tally,
                watch,
                |bytes| watch.advance(bytes),
                |kind, text, offset| {
                    count_type(&mut made.types, &String::from_utf8_lossy(kind), 1);
                    let fate = match text {
                        _ if unit.contained => Err(REPEATED),
                        Some(text) => take(&mut rollout, text, made),
                        None => Err(NO_CONVERSATION),
                    };
                    made.locate(&source.name, offset);
                    match fate {
                        Ok(()) => made.used += 1,
                        Err(REPEATED) => made.duplicates += 1,
                        Err(reason) => made.drop_line(reason),
                    }
                },
            )?;
            self.account(at, &tally, made);
        }
        Ok(rollout.end(&self.files[unit.parts[0].0].1.name))
    }

    /// Read a document.
    fn document(
        &self,
        kind: Alone,
        unit: &Lineage,
        made: &mut Made,
        watch: &Watch,
    ) -> Result<Option<Parsed>> {
        let at = unit.parts[0].0;
        let source = &self.files[at].1;
        let (text, mut tally) = (bytes(source, watch)?, FileTally { lines: 1, ..FileTally::default() });
        watch.advance(text.len() as u64)?;
        let found = parsed(&text, made).map(|document| {
            tally.rows = 1;
            count_type(&mut made.types, DOCUMENT, 1);
            if unit.contained {
                made.duplicates += 1;
                return (Head::default(), Conversation::default());
            }
            let found = read(kind, &document, source, id128(&text), &self.verdicts, made);
            made.locate(&source.name, 0);
            if found.1.messages.is_empty() {
                made.drop_line(EMPTY);
            } else {
                made.used = 1;
            }
            found
        });
        if found.is_none() {
            tally.bad(reference_parser::fault(&text), RejectReason::Malformed);
        }
        self.account(at, &tally, made);
        Ok(found)
    }

    fn account(&self, at: usize, tally: &FileTally, made: &mut Made) {
        let (kind, source) = &self.files[at];
        let mut account = Account::default();
        account.add(tally, 0);
        made.files.push((source.name.clone().into(), TranscriptKind::Alone(*kind).name(), account));
    }
}

type Parsed = (Head, Conversation);

fn take(rollout: &mut Rollout, text: &[u8], made: &mut Made) -> std::result::Result<(), &'static str> {
    match mended(text, made).and_then(|line| reference_parser::parse(&line).ok()) {
        Some(line) => rollout.line(&line, made),
        None => Err(damaged(OBJECT, "the line", made)),
    }
}

/// Pass on the type of each line of a rollout, its text if it is read, and its place.
fn lines(
    source: &Source,
    limit: usize,
    tally: &mut FileTally,
    watch: &Watch,
    advance: impl Fn(u64) -> Result<()>,
    mut take: impl FnMut(&[u8], Option<&[u8]>, u64),
) -> Result<()> {
    let io = |error| source.failed("read", error);
    let stream = source.undamaged(watch).map_err(io)?;
    let pieces = records(stream, &FileLayout::Lines, limit).map_err(io)?;
    let mut keys = ObjectKeys::new(&["type", "payload.type"]);
    let read = each(pieces, tally, advance, |bytes, offset| {
        let ([kind, inner], end) = keys.first(bytes)?;
        let [kind, inner] = [kind, inner].map(|raw| raw.map_or(&b""[..], inside));
        take(kind, Rollout::reads(kind, inner).then_some(&bytes[..end]), offset);
        Ok(end)
    });
    read.map_err(|fail| fail.of(source))
}

/// Return all bytes of a document.
fn bytes(source: &Source, watch: &Watch) -> Result<Vec<u8>> {
    let io = |error| source.failed("read", error);
    let mut text = Vec::new();
    source.stream(watch).and_then(|mut stream| stream.read_to_end(&mut text)).map_err(io)?;
    Ok(text)
}

fn parsed(text: &[u8], made: &mut Made) -> Option<Value> {
    mended(text, made).and_then(|text| reference_parser::parse(&text).ok())
}

/// Return the trace of a file's session; for a damaged file, that of the valid part.
fn trace(kind: Alone, source: &Source, settings: &ConvertSettings, watch: &Watch) -> Result<Trace> {
    let mut made = Made::default();
    if kind == Alone::Codex {
        let (mut path, mut tally) = (ItemTrail::default(), FileTally::default());
        let limit = settings.max_line_bytes;
        lines(
            source,
            limit,
            &mut tally,
            watch,
            |_| watch.advance(0),
            |_, text, _| {
                if let Some(line) = text.and_then(|text| parsed(text, &mut made)) {
                    path.line(&line);
                }
            },
        )?;
        return Ok(path.end());
    }
    let text = bytes(source, watch)?;
    watch.advance(0)?;
    let Some(document) = parsed(&text, &mut made) else { return Ok(Trace::default()) };
    let (head, talk) = read(kind, &document, source, 0, &SweBenchReports::default(), &mut made);
    let whole = hash_of(&document);
    let (id, links) = match kind {
        Alone::Atif => {
            let id = text_of(&document, "session_id");
            (id, vec![id.map_or(whole, |id| hash("trial", id.as_bytes()))])
        }
        // Runs of one task are compared: a run has no name of its own.
        _ => (None, head.group.iter().map(|task| hash("task", task.as_bytes())).collect()),
    };
    let written = |message: &Message| {
        let mut out = Vec::new();
        message.write(b"", &mut out);
        hash("message", &out)
    };
    Ok(Trace {
        id: id.map(str::to_owned),
        links,
        items: talk.messages.iter().map(written).collect(),
        whole,
        ..Trace::default()
    })
}

fn read(
    kind: Alone,
    document: &Value,
    source: &Source,
    digest: u128,
    verdicts: &SweBenchReports,
    made: &mut Made,
) -> Parsed {
    match kind {
        Alone::SweAgent => swe_agent::read(document, &source.name, digest, verdicts, made),
        _ => atif::read(document, &source.name, digest, made),
    }
}
