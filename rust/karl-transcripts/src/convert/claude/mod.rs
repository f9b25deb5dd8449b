//! Claude Code: the transcripts under `~/.claude/projects`, copies of them, and the output of
//! `--output-format stream-json`.
//!
//! ```text
//! lines ──► rows ──────────► sessions ──► threads ──► live lines ──► messages
//!           first pass       merge:       its own,    branch of      second pass:
//!           a few numbers    each line    and each    the last       merged by message.id,
//!           a line           once         sub-agent   message        results to their calls
//! ```
//!
//! `toolUseResult` is not built, and of `progress` lines only the actions of sub-agents: together they are
//! more than half of a transcript, and their content is also in the messages. The lines of a sub-agent are in
//! a file of their own, in `agent_progress` lines of its session, or in both; such a line makes two rows, one
//! that links the session's lines and one of the sub-agent. Memory: a row of 72 bytes per line, twice while
//! lines are sorted into sessions, and the trajectories in progress.

mod content;
mod index;
mod row;
mod session;
mod user_text;

use std::collections::{BTreeSet, HashSet};

use karl_log::cancel::Watch;
use karl_log::error::Result;
use karl_log::input::source::Source;
use karl_log::log::Account;

use self::content::ClaudeConversation;
use self::index::{Kin, abandoned, counted, kin, live, threads};
use self::row::{ClaudeLine, LeftOut, LineKind, LineReader, Row, SessionFiles};
use self::session::{Caller, Callers, SessionMeta, called_by_sidecar};
use super::entire_metadata::EntireMetadata;
use super::report::{LineCounts, NO_CONVERSATION, OTHER_BRANCH, Report};
use super::run::{ConvertSettings, Head, Rate, write};

/// Transcripts that were read, before their trajectories are made.
pub(super) struct Transcripts<'a> {
    sources: &'a [Source],
    besides: Vec<Option<EntireMetadata>>,
    /// Call of each file's sub-agent, by its sidecar.
    sidecars: Vec<Option<String>>,
    sessions: Vec<Vec<Row>>,
    kin: Vec<Kin>,
    rate: Rate,
    abandoned: bool,
}

impl<'a> Transcripts<'a> {
    /// Read the lines of all files.
    ///
    /// # Errors
    /// As [`convert`](super::convert).
    pub(super) fn read(
        sources: &'a [Source],
        settings: &ConvertSettings,
        report: &mut Report,
        watch: &Watch,
    ) -> Result<Self> {
        let mut accounts = vec![Account::default(); sources.len()];
        let (rows, origins) = index::index(sources, &mut accounts, report, settings, watch)?;
        let named = sources.iter().zip(accounts);
        report.counts.files.extend(named.map(|(source, account)| {
            (source.name.clone().into(), super::TranscriptKind::ClaudeCode.name(), account)
        }));
        let sessions = index::sessions(rows, &mut report.counts);
        let besides = sources.iter().map(EntireMetadata::of_transcript).collect();
        let sidecars = sources.iter().map(called_by_sidecar).collect();
        let kin = kin(&sessions, &origins);
        let (rate, abandoned) = (settings.rate, settings.abandoned);
        Ok(Self { sources, besides, sidecars, sessions, kin, rate, abandoned })
    }

    /// Return the number of sessions.
    pub(super) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Return the lines of a session's trajectories, and the account of its lines.
    ///
    /// # Errors
    /// As [`convert`](super::convert).
    pub(super) fn make(&self, session: usize, watch: &Watch) -> Result<(Vec<u8>, LineCounts)> {
        let (mut out, mut counts) = (Vec::new(), LineCounts::default());
        if self.kin[session].contained {
            counts.duplicates += counted(&self.sessions[session]) as u64;
            counts.note("session_snapshot");
            return Ok((out, counts));
        }
        let mut files = SessionFiles::new(self.sources);
        let threads = threads(&self.sessions[session]);
        let of_agents: BTreeSet<usize> = threads[1..].iter().flatten().map(|row| row.spot.input()).collect();
        let mut callers = Callers::new(of_agents.iter().filter_map(|&file| self.sidecars[file].as_deref()));
        let mut own_lines = HashSet::new();
        for rows in &threads {
            let live = live(rows);
            let (mut talk, told) = self.talk(rows, &live, &own_lines, &mut files, &mut counts, watch)?;
            talk.conversation.finish(&mut counts);
            *counts.calls.entry("unanswered").or_default() += talk.conversation.unanswered();
            let mut id = told.session.clone();
            if !talk.conversation.messages.is_empty() {
                let mut head = self.head(&told, &talk, &mut callers, rows.first());
                if let Some(root) = self.kin[session].root {
                    let [group, first] = self.family(root, &mut files)?.unwrap_or_default();
                    head.session = first.or(head.session);
                    if head.parent.is_none() {
                        head.group = group.or(head.group);
                        counts.note("forked_session");
                    }
                }
                let head_id = head.id.clone();
                write(head, &talk.conversation.messages, self.rate, &mut out, &mut counts);
                if self.abandoned && callers.is_empty() {
                    self.branches(rows, &live, &mut files, &mut out, &mut counts, watch)?;
                }
                id = head_id;
            }
            if callers.is_empty() {
                own_lines = rows.iter().map(|row| row.id).filter(|_| threads.len() > 1).collect();
            }
            callers.push(Caller::new(id, talk));
        }
        counts.calls.retain(|_, count| *count > 0);
        Ok((out, counts))
    }

    /// Write the branches of a session that the user abandoned. Their lines are counted with the session.
    fn branches(
        &self,
        rows: &[Row],
        live: &[bool],
        files: &mut SessionFiles<'_>,
        out: &mut Vec<u8>,
        counts: &mut LineCounts,
        watch: &Watch,
    ) -> Result<()> {
        for (number, branch) in abandoned(rows, live).iter().enumerate() {
            let mut uncounted = LineCounts::default();
            let (mut talk, told) = self.talk(rows, branch, &HashSet::new(), files, &mut uncounted, watch)?;
            talk.conversation.finish(&mut uncounted);
            let mut head = self.head(&told, &talk, &mut Callers::default(), None);
            head.id = format!("{}/abandoned-{}", head.id, number + 1);
            head.source.insert("abandoned".to_owned(), true.into());
            write(head, &talk.conversation.messages, self.rate, out, &mut uncounted);
            counts.note("abandoned_branch");
        }
        Ok(())
    }

    /// Return the group of sessions that share a beginning, by Entire or the name of the first session, and that
    /// name.
    fn family(&self, root: usize, files: &mut SessionFiles<'_>) -> Result<Option<[Option<String>; 2]>> {
        let mut reader = LineReader::new();
        for row in
            self.sessions[root].iter().filter(|row| matches!(row.kind, LineKind::User | LineKind::Assistant))
        {
            let mut told = SessionMeta::default();
            if let Some(line) = reader.read(row, files.line(row)?) {
                told.add_facts(&line.facts, row);
            }
            if !told.session.is_empty() {
                let beside = EntireMetadata::last(self.besides.iter().flatten(), &told.session);
                let name = Some(told.session);
                return Ok(Some([
                    beside.and_then(|beside| beside.group.clone()).or_else(|| name.clone()),
                    name,
                ]));
            }
        }
        Ok(None)
    }

    /// Read the lines of a thread that are on a branch. Lines that are also `inherited` by a sub-agent from its session
    /// are not learned again.
    fn talk(
        &self,
        rows: &[Row],
        branch: &[bool],
        inherited: &HashSet<u64>,
        files: &mut SessionFiles<'_>,
        counts: &mut LineCounts,
        watch: &Watch,
    ) -> Result<(ClaudeConversation, SessionMeta)> {
        let (mut talk, mut told, mut reader) =
            (ClaudeConversation::new(), SessionMeta::default(), LineReader::new());
        let mut follows_model = false;
        let is_counted = |(row, _): &(&Row, &bool)| row.kind != LineKind::Carrier;
        for (row, &live) in rows.iter().zip(branch).filter(is_counted) {
            watch.advance(0)?;
            if row.kind == LineKind::Start {
                told.start(files.line(row)?, counts);
            }
            talk.queue.attaches |= row.kind == LineKind::Attached;
            // A hook's words between the two began another request.
            if live && row.left_out == Some(LeftOut::ApiError) && follows_model {
                talk.conversation.note_lost_connection();
            }
            if live && matches!(row.kind, LineKind::User | LineKind::Assistant | LineKind::Queued) {
                follows_model = row.kind == LineKind::Assistant && row.left_out.is_none();
            }
            let is_inserted = live && row.kind == LineKind::User && row.left_out == Some(LeftOut::Meta);
            if let Some(reason) = unread(row, live).filter(|_| !is_inserted) {
                counts.drop_line(reason);
            } else {
                let text = files.line(row)?;
                let Some(line) = reader.read(row, text) else { return Err(files.changed(row)) };
                told.add_facts(&line.facts, row);
                line.expect(counts);
                let fate = match row.kind {
                    _ if is_inserted => talk.inserted(&line, counts),
                    LineKind::Queued | LineKind::Floating => {
                        let ClaudeConversation { queue, conversation, .. } = &mut talk;
                        queue.read(row, text, conversation, line.timestamp, live, counts)
                    }
                    _ => take(&mut talk, row, &line, live, counts),
                };
                match fate {
                    Ok(()) => counts.used += 1,
                    Err(reason) => counts.drop_line(reason),
                }
                if inherited.contains(&row.id) {
                    talk.conversation.inherit();
                }
                if row.kind == LineKind::Result {
                    told.end(text, self.rate, counts);
                }
            }
            counts.locate(&self.sources[row.spot.input()].name, row.spot.place(0).offset);
        }
        Ok((talk, told))
    }

    fn head(
        &self,
        told: &SessionMeta,
        talk: &ClaudeConversation,
        callers: &mut Callers,
        first: Option<&Row>,
    ) -> Head {
        let (tokens, source, tools) = (talk.tokens(), told.source(self.sources), told.tools.clone());
        let session = Some(told.session.clone());
        let mut head = Head { session, tokens, source, tools, ..Head::default() };
        if callers.is_empty() {
            let besides = told.files.iter().filter_map(|&file| self.besides[file].as_ref());
            let beside = EntireMetadata::last(besides, &told.session);
            head.group = beside.and_then(|beside| beside.group.clone());
            head.reward = told.reward;
            head.id.clone_from(&told.session);
            return head;
        }
        let sidecar = told.files.iter().find_map(|&file| self.sidecars[file].as_deref());
        let (parent, call) = callers.of(told, talk, sidecar);
        let parent = if parent.is_empty() { told.session.clone() } else { parent };
        let agent = [&told.agent, &told.called_by].into_iter().find(|name| !name.is_empty());
        let unnamed = || format!("{:016x}", first.map_or(0, |row| row.id));
        head.id = format!("{}/{}", told.session, agent.cloned().unwrap_or_else(unnamed));
        head.parent = Some((parent, call));
        head
    }
}

/// Return the reason to leave out a row before it is read again.
fn unread(row: &Row, live: bool) -> Option<&'static str> {
    match (row.kind, row.left_out) {
        (LineKind::Queued | LineKind::Floating, _) => None,
        (LineKind::Link | LineKind::Attached | LineKind::Boundary | LineKind::Loose | LineKind::Start, _) => {
            Some(NO_CONVERSATION)
        }
        (_, Some(why)) => Some(why.name()),
        // A result may nevertheless answer a call on the branch.
        (LineKind::Assistant, None) if !live => Some(OTHER_BRANCH),
        _ => None,
    }
}

fn take(
    talk: &mut ClaudeConversation,
    row: &Row,
    line: &ClaudeLine<'_>,
    on_branch: bool,
    counts: &mut LineCounts,
) -> std::result::Result<(), &'static str> {
    if line.mended {
        counts.note("mended");
    }
    if row.relayed && !line.named {
        counts.note("without_uuid");
    }
    match row.kind {
        LineKind::Assistant => talk.assistant(row, line, counts),
        LineKind::User => talk.user(line, on_branch, counts),
        _ => Ok(()),
    }
}
