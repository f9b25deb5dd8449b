//! Transcripts in one file each: documents, and files of lines that are read in order. Of several files of
//! one session each message is written once.

use std::collections::HashMap;
use std::io::Read;

use karl_core::rng::id128;
use karl_log::cancel::Watch;
use karl_log::detect::{FileLayout, records};
use karl_log::error::Result;
use karl_log::input::source::Source;
use karl_log::json::reference_parser;
use karl_log::log::Account;
use karl_log::parallel::map;
use karl_log::rejects::{FileTally, RejectReason};
use karl_log::time::milliseconds;
use serde_json::{Map, Value};

use super::codex::{
    HistoryEnd, Inheritance, ItemTrail, LinePlace, REPEATED, Rollout, RolloutHistory, inherit,
};
use super::entire_metadata::EntireMetadata;
use super::file_records::{FileRecord, read_records};
use super::json::{OBJECT, damaged};
use super::json::{ObjectKeys, each};
use super::json::{inside, mended};
use super::lineage::hash_of;
use super::lineage::{Lineage, Trace, hash, units, written_hash};
use super::message::{Conversation, Message};
use super::report::{EMPTY, LineCounts, NO_CONVERSATION, OTHER_BRANCH, Report, count_type};
use super::run::{ConvertSettings, Rate};
use super::run::{Head, write};
use super::swe_agent::SweBenchReports;
use super::tool_kind::{Alone, TranscriptKind};
use super::{atif, copilot, cursor, gemini, mini_swe_agent, pi, sts, swe_agent, traces};

/// Type under which a document is counted.
const DOCUMENT: &str = "document";

/// Files with a session or a part of one, before trajectories are made of them.
pub(super) struct Documents<'a> {
    files: &'a [(Alone, Source)],
    besides: Vec<Option<EntireMetadata>>,
    units: Vec<Lineage>,
    /// What each file has from others.
    inheritances: Vec<Inheritance>,
    /// Session, and its call, of each document of a sub-agent.
    parents: HashMap<usize, (String, Option<String>)>,
    verdicts: SweBenchReports,
}

impl<'a> Documents<'a> {
    /// Find the session of every file.
    ///
    /// # Errors
    /// As [`convert`](super::convert).
    pub(super) fn open(
        files: &'a [(Alone, Source)],
        settings: &ConvertSettings,
        report: &mut Report,
        watch: &Watch,
    ) -> Result<Self> {
        let besides: Vec<_> = files.iter().map(|(_, source)| EntireMetadata::of_transcript(source)).collect();
        let one = |(kind, source): &(Alone, Source)| trace(*kind, source, settings, watch);
        let paths = match files {
            [_] => vec![(Trace::default(), Some(RolloutHistory::default()))],
            _ => {
                map(files.iter().collect(), settings.threads, one).into_iter().collect::<Result<Vec<_>>>()?
            }
        };
        let (mut traces, histories): (Vec<Trace>, Vec<_>) = paths.into_iter().unzip();
        let mut inheritances = inherit(&mut traces, &histories);
        if let ([_], [only]) = (files, &mut inheritances[..]) {
            only.is_cut = true;
        }
        let units = units(&traces, &besides, &mut report.counts);
        let parents = parents(files, &traces);
        let verdicts = SweBenchReports::default();
        Ok(Self { files, besides, units, inheritances, parents, verdicts })
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
    ) -> Result<(Vec<u8>, LineCounts)> {
        let (unit, mut out, mut counts) = (&self.units[unit], Vec::new(), LineCounts::default());
        match self.files[unit.parts[0].0].0 {
            Alone::Codex => self.rollout(unit, settings, &mut out, &mut counts, watch)?,
            kind if kind.is_lines() => {
                self.session(kind, unit, settings, &mut out, &mut counts, watch)?;
            }
            kind => self.document(kind, unit, settings, &mut out, &mut counts, watch)?,
        }
        Ok((out, counts))
    }

    /// Add to a head the facts beside the files of its session, and those of other files.
    fn settle(&self, unit: &Lineage, head: &mut Head) {
        let files = if unit.files.is_empty() { vec![unit.parts[0].0] } else { unit.files.clone() };
        let beside = EntireMetadata::last(files.iter().filter_map(|&at| self.besides[at].as_ref()), &head.id);
        let group = unit.group.clone().or_else(|| beside?.group.clone());
        head.group = head.group.take().or(group);
        let parent = head.parent.as_ref().map(|(id, _)| id);
        head.session =
            unit.root.clone().or(head.session.take()).or_else(|| Some(parent.unwrap_or(&head.id).clone()));
        if let Some(mark) = unit.mark {
            head.id = format!("{}/{mark:016x}", head.id);
        }
        let names = unit.parts.iter().map(|&(at, _)| Value::from(&*self.files[at].1.name));
        head.source.insert("files".to_owned(), names.collect());
    }

    /// Read the files of a Codex session and write it; skip a file contained in another.
    fn rollout(
        &self,
        unit: &Lineage,
        settings: &ConvertSettings,
        out: &mut Vec<u8>,
        counts: &mut LineCounts,
        watch: &Watch,
    ) -> Result<()> {
        let (first, limit) = (unit.parts[0].0, settings.max_line_bytes);
        let inheritance = &self.inheritances[first];
        let mut rollout = Rollout::new(inheritance, settings.abandoned);
        if !unit.contained {
            self.read_before(inheritance, &mut rollout, limit, counts, watch)?;
        }
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
                    count_type(&mut counts.types, &String::from_utf8_lossy(kind), 1);
                    let fate = match text {
                        _ if unit.contained => Err(REPEATED),
                        Some(text) => take(&mut rollout, text, offset, inheritance.superseded, counts),
                        None => Err(NO_CONVERSATION),
                    };
                    counts.locate(&source.name, offset);
                    match fate {
                        Ok(()) => counts.used += 1,
                        Err(REPEATED) => counts.duplicates += 1,
                        Err(reason) => counts.drop_line(reason),
                    }
                },
            )?;
            self.account(at, &tally, counts);
        }
        self.write_rollout(unit, rollout, settings, out, counts);
        Ok(())
    }

    /// Read the files that a rollout goes on from. Their lines are counted with their own trajectories.
    fn read_before(
        &self,
        inheritance: &Inheritance,
        rollout: &mut Rollout,
        limit: usize,
        counts: &mut LineCounts,
        watch: &Watch,
    ) -> Result<()> {
        let mut uncounted = LineCounts::default();
        for &(at, end) in &inheritance.before {
            rollout.begin_file(true);
            lines(
                &self.files[at].1,
                limit,
                &mut FileTally::default(),
                watch,
                |_| watch.advance(0),
                |_, text, offset| {
                    let line = text.and_then(|text| parsed(text, &mut uncounted));
                    if let Some(line) = line.filter(|line| end.is_after(LinePlace::of(line, offset))) {
                        // What becomes of it is counted elsewhere.
                        let _ = rollout.line(&line, &mut uncounted);
                    }
                },
            )?;
        }
        rollout.begin_file(false);
        counts.calls.extend(uncounted.calls);
        Ok(())
    }

    /// Write the trajectory of a rollout, and on request the branches that the user took back.
    fn write_rollout(
        &self,
        unit: &Lineage,
        mut rollout: Rollout,
        settings: &ConvertSettings,
        out: &mut Vec<u8>,
        counts: &mut LineCounts,
    ) {
        let file = unit.parts[0].0;
        let branches = rollout.branches.take().unwrap_or_default();
        let (mut head, mut talk) = rollout.end(&self.files[file].1.name);
        self.settle(unit, &mut head);
        let (id, source) = (head.id.clone(), head.source.clone());
        if self.inheritances[file].superseded.is_some() {
            counts.calls.clear();
            if settings.abandoned {
                let branch = format!("{id}/abandoned-file-{}", file + 1);
                write_branch(&talk.messages, (branch, &id), source, settings, out, counts);
            }
            return;
        }
        talk.finish(counts);
        if !talk.messages.is_empty() {
            let unanswered = talk.unanswered();
            counts.calls.extend((unanswered > 0).then_some(("unanswered", unanswered)));
            write(head, &talk.messages, settings.rate, out, counts);
        }
        for (number, messages) in branches.iter().enumerate() {
            let branch = format!("{id}/abandoned-{}", number + 1);
            write_branch(messages, (branch, &id), source.clone(), settings, out, counts);
        }
    }

    /// Read a file of records and write its session and sub-agents.
    fn session(
        &self,
        kind: Alone,
        unit: &Lineage,
        settings: &ConvertSettings,
        out: &mut Vec<u8>,
        counts: &mut LineCounts,
        watch: &Watch,
    ) -> Result<()> {
        let at = unit.parts[0].0;
        let (source, mut tally) = (&self.files[at].1, FileTally::default());
        let limit = settings.max_line_bytes;
        let records = read_records(source, limit, &mut tally, watch, |bytes| watch.advance(bytes), counts)?;
        self.account(at, &tally, counts);
        let mut unwritten = LineCounts::default();
        let all =
            sessions(kind, &records, &source.name, if unit.contained { &mut unwritten } else { counts });
        if unit.contained {
            unwritten.types.iter().for_each(|(name, &count)| count_type(&mut counts.types, name, count));
            counts.duplicates += records.len() as u64;
            return Ok(());
        }
        let Some(name) = all.first().map(|(head, _)| head.id.clone()) else { return Ok(()) };
        for (number, (mut head, mut talk)) in all.into_iter().enumerate() {
            // The further ones of STS are sessions of their own, those of other products sub-agents.
            if number == 0 || kind == Alone::Sts {
                self.settle(unit, &mut head);
            } else if let Some(mark) = unit.mark {
                rename(&mut head, &name, &format!("{name}/{mark:016x}"));
            }
            talk.finish(counts);
            if kind == Alone::Cursor && settings.rate != Rate::Result {
                head.reward = None;
            }
            if !talk.messages.is_empty() {
                *counts.calls.entry("unanswered").or_default() += talk.unanswered();
                write(head, &talk.messages, settings.rate, out, counts);
            }
        }
        counts.calls.retain(|_, count| *count > 0);
        if counts.trajectories == 0 {
            counts.move_to_dropped(counts.used, EMPTY);
        }
        Ok(())
    }

    /// Read a document and write its trajectories.
    fn document(
        &self,
        kind: Alone,
        unit: &Lineage,
        settings: &ConvertSettings,
        out: &mut Vec<u8>,
        counts: &mut LineCounts,
        watch: &Watch,
    ) -> Result<()> {
        let at = unit.parts[0].0;
        let source = &self.files[at].1;
        let (text, mut tally) = (bytes(source, watch)?, FileTally { lines: 1, ..FileTally::default() });
        watch.advance(text.len() as u64)?;
        let Some(document) = parsed(&text, counts) else {
            tally.bad(reference_parser::fault(&text), RejectReason::Malformed);
            self.account(at, &tally, counts);
            return Ok(());
        };
        tally.rows = 1;
        count_type(&mut counts.types, DOCUMENT, 1);
        self.account(at, &tally, counts);
        if unit.contained {
            counts.duplicates += 1;
            return Ok(());
        }
        let all = read(kind, &document, source, id128(&text), &self.verdicts, counts);
        counts.locate(&source.name, 0);
        if all.iter().all(|(_, talk)| talk.messages.is_empty()) {
            counts.drop_line(EMPTY);
            return Ok(());
        }
        counts.used = 1;
        let name = all[0].0.id.clone();
        for (number, (mut head, talk)) in all.into_iter().enumerate() {
            *counts.calls.entry("unanswered").or_default() += talk.unanswered();
            if number == 0 {
                self.settle(unit, &mut head);
                if let Some(parent) = self.parents.get(&at) {
                    // The verifier's reward is the session's.
                    head = Head { parent: Some(parent.clone()), reward: None, group: None, ..head };
                }
            } else if let Some(mark) = unit.mark {
                rename(&mut head, &name, &format!("{name}/{mark:016x}"));
            }
            if !talk.messages.is_empty() {
                write(head, &talk.messages, settings.rate, out, counts);
            }
        }
        counts.calls.retain(|_, count| *count > 0);
        Ok(())
    }

    fn account(&self, at: usize, tally: &FileTally, counts: &mut LineCounts) {
        let (kind, source) = &self.files[at];
        let mut account = Account::default();
        account.add(tally, 0);
        counts.files.push((source.name.clone().into(), TranscriptKind::Alone(*kind).name(), account));
    }
}

type Parsed = (Head, Conversation);

/// Read a line of a rollout; of a file that another goes on from, what is behind the `end` was taken back.
fn take(
    rollout: &mut Rollout,
    text: &[u8],
    offset: u64,
    end: Option<HistoryEnd>,
    counts: &mut LineCounts,
) -> std::result::Result<(), &'static str> {
    match mended(text, counts).and_then(|line| reference_parser::parse(&line).ok()) {
        Some(line) => {
            let stays = end.is_none_or(|end| end.is_after(LinePlace::of(&line, offset)));
            rollout.line(&line, counts).and(if stays { Ok(()) } else { Err(OTHER_BRANCH) })
        }
        None => Err(damaged(OBJECT, "the line", counts)),
    }
}

/// Write a branch that the user took back. Its lines are counted with its session.
fn write_branch(
    messages: &[Message],
    (id, session): (String, &str),
    mut source: Map<String, Value>,
    settings: &ConvertSettings,
    out: &mut Vec<u8>,
    counts: &mut LineCounts,
) {
    if messages.is_empty() {
        return;
    }
    source.insert("session_id".to_owned(), session.into());
    source.insert("abandoned".to_owned(), true.into());
    write(Head { id, source, ..Head::default() }, messages, settings.rate, out, &mut LineCounts::default());
    counts.note("abandoned_branch");
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

fn parsed(text: &[u8], counts: &mut LineCounts) -> Option<Value> {
    mended(text, counts).and_then(|text| reference_parser::parse(&text).ok())
}

/// Return the trace of a file's session; for a damaged file, that of the valid part.
fn trace(
    kind: Alone,
    source: &Source,
    settings: &ConvertSettings,
    watch: &Watch,
) -> Result<(Trace, Option<RolloutHistory>)> {
    match kind {
        Alone::Codex => rollout_trace(source, settings.max_line_bytes, watch),
        kind if kind.is_lines() => Ok((sessions_trace(kind, source, settings.max_line_bytes, watch)?, None)),
        kind => Ok((document_trace(kind, source, watch)?, None)),
    }
}

fn rollout_trace(source: &Source, limit: usize, watch: &Watch) -> Result<(Trace, Option<RolloutHistory>)> {
    let (mut path, mut tally) = (ItemTrail::new(&source.name), FileTally::default());
    let mut counts = LineCounts::default();
    lines(
        source,
        limit,
        &mut tally,
        watch,
        |_| watch.advance(0),
        |_, text, offset| {
            if let Some(line) = text.and_then(|text| parsed(text, &mut counts)) {
                path.line(&line, offset);
            }
        },
    )?;
    let (trace, history) = path.end();
    Ok((trace, Some(history)))
}

fn sessions_trace(kind: Alone, source: &Source, limit: usize, watch: &Watch) -> Result<Trace> {
    let (mut tally, mut counts) = (FileTally::default(), LineCounts::default());
    let records = read_records(source, limit, &mut tally, watch, |_| watch.advance(0), &mut counts)?;
    if kind == Alone::Traces {
        return Ok(records_trace(&records));
    }
    let all = sessions(kind, &records, &source.name, &mut counts);
    if kind == Alone::Sts && all.len() > 1 {
        let mut names = all.into_iter().map(|(head, _)| head.id);
        let (name, more_names) = (names.next(), names.collect());
        return Ok(Trace { name, more_names, ..records_trace(&records) });
    }
    let first = all.into_iter().next();
    Ok(first.map(|(head, talk)| session_trace(&head, &talk, &records)).unwrap_or_default())
}

fn document_trace(kind: Alone, source: &Source, watch: &Watch) -> Result<Trace> {
    let mut counts = LineCounts::default();
    let text = bytes(source, watch)?;
    watch.advance(0)?;
    let Some(document) = parsed(&text, &mut counts) else { return Ok(Trace::default()) };
    let all = read(kind, &document, source, 0, &SweBenchReports::default(), &mut counts);
    let Some((head, talk)) = all.into_iter().next() else { return Ok(Trace::default()) };
    let whole = hash_of(&document);
    let (id, links) = match kind {
        Alone::Atif => {
            let id = atif::identity(&document);
            let link = id.as_ref().map_or(whole, |id| hash("trial", id.as_bytes()));
            (id, vec![link])
        }
        // Runs of one task are compared: a run has no name of its own.
        _ => (None, head.group.iter().map(|task| hash("task", task.as_bytes())).collect()),
    };
    let items = talk.messages.iter().map(written_hash).collect();
    let name = Some(head.id);
    let sub_agents = if kind == Alone::Atif { atif::other_documents(&document) } else { Vec::new() };
    Ok(Trace { id, name, sub_agents, links, items, whole, ..Trace::default() })
}

/// Return the sessions of documents that are sub-agents', by the references in these.
fn parents(files: &[(Alone, Source)], traces: &[Trace]) -> HashMap<usize, (String, Option<String>)> {
    let split = |at: usize| files[at].1.name.rsplit_once('/').unwrap_or(("", &files[at].1.name));
    let mut parents = HashMap::new();
    for (at, trace) in traces.iter().enumerate() {
        for reference in &trace.sub_agents {
            let is_named = |other: &usize| match (&reference.file, &reference.session) {
                (Some(file), _) => split(*other) == (split(at).0, file),
                (None, session) => session.is_some() && traces[*other].name == *session,
            };
            let child = (0..traces.len()).filter(|other| traces[*other].name != trace.name).find(is_named);
            if let (Some(child), Some(name)) = (child, &trace.name) {
                parents.insert(child, (name.clone(), reference.call.clone()));
            }
        }
    }
    parents
}

/// Give a sub-agent the new name of the trajectory that it belongs to, in ids that are the old one or a part of it.
fn rename(head: &mut Head, old: &str, new: &str) {
    let rest = |id: &str| {
        id.strip_prefix(old).filter(|rest| rest.is_empty() || rest.starts_with('/')).map(str::to_owned)
    };
    let renamed = |id: &str| rest(id).map_or_else(|| id.to_owned(), |rest| format!("{new}{rest}"));
    head.id = renamed(&head.id);
    head.parent = head.parent.take().map(|(parent, call)| (renamed(&parent), call));
}

/// Return the sessions of a file of records, its own first.
fn sessions(kind: Alone, records: &[FileRecord], file: &str, counts: &mut LineCounts) -> Vec<Parsed> {
    match kind {
        Alone::Pi => vec![pi::read(records, file, counts)],
        Alone::Gemini => vec![gemini::read(records, file, counts)],
        Alone::Traces => traces::read(records, file, counts),
        Alone::Sts => sts::read(records, file, counts),
        Alone::Cursor => cursor::read(records, file, counts),
        _ => copilot::read(records, file, counts),
    }
}

/// Return the trace of a file of many trajectories: only a whole file can be a copy or a snapshot.
fn records_trace(records: &[FileRecord]) -> Trace {
    let items: Vec<u64> = records.iter().map(|record| hash_of(&record.value)).collect();
    let whole = items
        .iter()
        .fold(0, |sum: u64, item| hash("record", &[sum.to_le_bytes(), item.to_le_bytes()].concat()));
    Trace { links: items.first().copied().into_iter().collect(), items, whole, ..Trace::default() }
}

/// Return the trace of a session in one file.
fn session_trace(head: &Head, talk: &Conversation, records: &[FileRecord]) -> Trace {
    let whole = records.iter().fold(0, |whole: u64, record| {
        hash("record", &[whole.to_le_bytes(), hash_of(&record.value).to_le_bytes()].concat())
    });
    let moments: Vec<i64> =
        talk.messages.iter().filter_map(|message| milliseconds(&message.timestamp)).collect();
    let links = [Some(&head.id), head.session.as_ref()].into_iter().flatten();
    Trace {
        id: Some(head.id.clone()),
        name: Some(head.id.clone()),
        forked_from: head.session.clone().filter(|session| *session != head.id),
        links: links.map(|id| hash("session", id.as_bytes())).collect(),
        items: talk.messages.iter().map(written_hash).collect(),
        whole,
        begun: moments.first().copied().unwrap_or_default(),
        ended: moments.last().copied().unwrap_or_default(),
        ..Trace::default()
    }
}

/// Return the trajectories of a document, its own first.
fn read(
    kind: Alone,
    document: &Value,
    source: &Source,
    digest: u128,
    verdicts: &SweBenchReports,
    counts: &mut LineCounts,
) -> Vec<Parsed> {
    match kind {
        Alone::SweAgent => vec![swe_agent::read(document, &source.name, digest, verdicts, counts)],
        Alone::MiniSweAgent => {
            vec![mini_swe_agent::read(document, &source.name, digest, verdicts, counts)]
        }
        _ => atif::read(document, &source.name, digest, counts),
    }
}
