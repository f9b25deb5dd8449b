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
mod line;
mod merge;
mod resumed;
mod row;
mod session;
mod stream_json;
mod user_text;

use self::content::ClaudeConversation;
use self::line::{ClaudeLine, LineReader, SessionFiles};
use self::merge::{abandoned, counted, live, threads};
use self::resumed::{Kin, kin};
use self::row::{LineKind, Row};
use self::session::SessionMeta;
use super::entire_metadata::EntireMetadata;
use super::record::{Head, write};
use super::report::{Made, NO_CONVERSATION, OTHER_BRANCH, Report};
use super::settings::{ConvertSettings, Rate};
use crate::cancel::Watch;
use crate::error::Result;
use crate::input::source::Source;
use crate::log::Account;

/// Transcripts that were read, before their trajectories are made.
pub(super) struct Transcripts<'a> {
    sources: &'a [Source],
    besides: Vec<Option<EntireMetadata>>,
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
        let rows = index::index(sources, &mut accounts, report, settings, watch)?;
        let named = sources.iter().zip(accounts);
        report.made.files.extend(named.map(|(source, account)| {
            (source.name.clone().into(), super::TranscriptKind::ClaudeCode.name(), account)
        }));
        let sessions = index::sessions(rows, &mut report.made);
        let besides = sources.iter().map(EntireMetadata::look).collect();
        let kin = kin(&sessions);
        let (rate, abandoned) = (settings.rate, settings.abandoned);
        Ok(Self { sources, besides, sessions, kin, rate, abandoned })
    }

    /// Return the number of sessions.
    pub(super) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Return the lines of a session's trajectories, and the account of its lines.
    ///
    /// # Errors
    /// As [`convert`](super::convert).
    pub(super) fn make(&self, session: usize, watch: &Watch) -> Result<(Vec<u8>, Made)> {
        let (mut out, mut made) = (Vec::new(), Made::default());
        if self.kin[session].contained {
            made.duplicates += counted(&self.sessions[session]) as u64;
            made.note("session_snapshot");
            return Ok((out, made));
        }
        let mut files = SessionFiles::new(self.sources);
        let mut own: Option<(String, ClaudeConversation)> = None;
        for rows in threads(&self.sessions[session]) {
            let live = live(&rows);
            let (mut talk, told) = self.talk(&rows, &live, &mut files, &mut made, watch)?;
            talk.conversation.finish(&mut made);
            *made.calls.entry("unanswered").or_default() += talk.conversation.unanswered();
            if !talk.conversation.messages.is_empty() {
                let mut head = self.head(&told, &talk, own.as_ref(), rows.first());
                if let (None, Some(root)) = (&own, self.kin[session].root) {
                    head.group = self.family(root, &mut files)?.or(head.group);
                    made.note("forked_session");
                }
                write(head, &talk.conversation.messages, self.rate, &mut out, &mut made);
                if self.abandoned && own.is_none() {
                    self.branches(&rows, &live, &mut files, &mut out, &mut made, watch)?;
                }
            }
            own = own.or(Some((told.session, talk)));
        }
        made.calls.retain(|_, count| *count > 0);
        Ok((out, made))
    }

    /// Write the branches of a session that the user abandoned. Their lines are counted with the session.
    fn branches(
        &self,
        rows: &[Row],
        live: &[bool],
        files: &mut SessionFiles<'_>,
        out: &mut Vec<u8>,
        made: &mut Made,
        watch: &Watch,
    ) -> Result<()> {
        for (number, branch) in abandoned(rows, live).iter().enumerate() {
            let mut uncounted = Made::default();
            let (mut talk, told) = self.talk(rows, branch, files, &mut uncounted, watch)?;
            talk.conversation.finish(&mut uncounted);
            let mut head = self.head(&told, &talk, None, None);
            head.id = format!("{}/abandoned-{}", head.id, number + 1);
            head.source.insert("abandoned".to_owned(), true.into());
            write(head, &talk.conversation.messages, self.rate, out, &mut uncounted);
            made.note("abandoned_branch");
        }
        Ok(())
    }

    /// Return the group of sessions that share a beginning: the group by Entire, or the session's name.
    fn family(&self, root: usize, files: &mut SessionFiles<'_>) -> Result<Option<String>> {
        let mut reader = LineReader::new();
        for row in
            self.sessions[root].iter().filter(|row| matches!(row.kind, LineKind::User | LineKind::Assistant))
        {
            let mut told = SessionMeta::default();
            if let Some(line) = reader.read(row, files.line(row)?) {
                told.hear(&line.facts, row);
            }
            if !told.session.is_empty() {
                let beside = EntireMetadata::last(self.besides.iter().flatten(), &told.session);
                return Ok(beside.and_then(|beside| beside.group.clone()).or(Some(told.session)));
            }
        }
        Ok(None)
    }

    /// Read the lines of a thread that are on a branch.
    fn talk(
        &self,
        rows: &[Row],
        branch: &[bool],
        files: &mut SessionFiles<'_>,
        made: &mut Made,
        watch: &Watch,
    ) -> Result<(ClaudeConversation, SessionMeta)> {
        let (mut talk, mut told, mut reader) =
            (ClaudeConversation::new(), SessionMeta::default(), LineReader::new());
        let is_counted = |(row, _): &(&Row, &bool)| row.kind != LineKind::Carrier;
        for (row, &live) in rows.iter().zip(branch).filter(is_counted) {
            watch.advance(0)?;
            if row.kind == LineKind::Start {
                told.start(files.line(row)?, made);
            }
            if let Some(reason) = unread(row, live) {
                made.drop_line(reason);
            } else {
                let text = files.line(row)?;
                let Some(line) = reader.read(row, text) else { return Err(files.changed(row)) };
                told.hear(&line.facts, row);
                line.expect(made);
                match take(&mut talk, row, &line, live, made) {
                    Ok(()) => made.used += 1,
                    Err(reason) => made.drop_line(reason),
                }
                if row.kind == LineKind::Result {
                    told.end(text, self.rate, made);
                }
            }
            made.locate(&self.sources[row.spot.input()].name, row.spot.place(0).offset);
        }
        Ok((talk, told))
    }

    fn head(
        &self,
        told: &SessionMeta,
        talk: &ClaudeConversation,
        own: Option<&(String, ClaudeConversation)>,
        first: Option<&Row>,
    ) -> Head {
        let (tokens, source, tools) = (talk.tokens(), told.source(self.sources), told.tools.clone());
        let mut head = Head { tokens, source, tools, ..Head::default() };
        let Some((parent, own)) = own else {
            let besides = told.files.iter().filter_map(|&file| self.besides[file].as_ref());
            let beside = EntireMetadata::last(besides, &told.session);
            head.group = beside.and_then(|beside| beside.group.clone());
            head.reward = told.reward.or_else(|| beside?.reward);
            head.id.clone_from(&told.session);
            return head;
        };
        let parent = if parent.is_empty() { &told.session } else { parent };
        let agent = [&told.agent, &told.called_by].into_iter().find(|name| !name.is_empty());
        let unnamed = || format!("{:016x}", first.map_or(0, |row| row.id));
        head.id = format!("{}/{}", told.session, agent.cloned().unwrap_or_else(unnamed));
        head.parent = Some((parent.clone(), told.call(own, talk)));
        head
    }
}

/// Return the reason to leave out a row before it is read again.
fn unread(row: &Row, live: bool) -> Option<&'static str> {
    match (row.kind, row.left_out) {
        (LineKind::Link | LineKind::Loose | LineKind::Start, _) => Some(NO_CONVERSATION),
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
    made: &mut Made,
) -> std::result::Result<(), &'static str> {
    if line.mended {
        made.note("mended");
    }
    if row.relayed && !line.named {
        made.note("without_uuid");
    }
    match row.kind {
        LineKind::Assistant => talk.assistant(row, line, made),
        LineKind::User => talk.user(line, on_branch, made),
        _ => Ok(()),
    }
}
