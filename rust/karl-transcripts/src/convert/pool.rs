//! Sessions whose records are spread over several files: all files of such a product are read together, and a record that
//! is there twice counts once.

use karl_log::cancel::Watch;
use karl_log::error::Result;
use karl_log::input::source::Source;
use karl_log::log::Account;
use karl_log::rejects::FileTally;

use super::file_records::{PooledFile, read_records};
use super::message::Conversation;
use super::report::{LineCounts, Report};
use super::run::{ConvertSettings, Head, write};
use super::tool_kind::{Pool, TranscriptKind};
use super::{langfuse, opencode, openhands, otlp};

/// Sessions of all pools, before they are written.
pub(super) struct PooledSessions(Vec<(Head, Conversation)>);

impl PooledSessions {
    /// Read the files of every pool.
    ///
    /// # Errors
    /// As [`convert`](super::convert).
    pub(super) fn open(
        files: &[(Pool, Source)],
        settings: &ConvertSettings,
        report: &mut Report,
        watch: &Watch,
    ) -> Result<Self> {
        let mut sessions = Vec::new();
        for pool in Pool::ALL {
            let mut held = Vec::new();
            for (_, source) in files.iter().filter(|(of, _)| *of == pool) {
                held.push(open_file(pool, source, settings, &mut report.counts, watch)?);
            }
            if !held.is_empty() {
                sessions.extend(match pool {
                    Pool::OpenCode => opencode::read(&held, &mut report.counts),
                    Pool::Otlp => otlp::read(&held, &mut report.counts),
                    Pool::Langfuse => langfuse::read(&held, &mut report.counts),
                    Pool::OpenHands => openhands::read(&held, &mut report.counts),
                });
            }
        }
        sessions.retain(|(_, talk): &(Head, Conversation)| !talk.messages.is_empty());
        Ok(Self(sessions))
    }

    /// Return the number of work units.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Return the line of a session.
    pub(super) fn make(&self, at: usize, settings: &ConvertSettings) -> (Vec<u8>, LineCounts) {
        let (head, talk) = &self.0[at];
        let (mut out, mut counts) = (Vec::new(), LineCounts::default());
        let unanswered = talk.unanswered();
        counts.calls.extend((unanswered > 0).then_some(("unanswered", unanswered)));
        write(head.clone(), &talk.messages, settings.rate, &mut out, &mut counts);
        (out, counts)
    }
}

fn open_file(
    pool: Pool,
    source: &Source,
    settings: &ConvertSettings,
    counts: &mut LineCounts,
    watch: &Watch,
) -> Result<PooledFile> {
    let (mut tally, mut account) = (FileTally::default(), Account::default());
    let limit = settings.max_line_bytes;
    let records = read_records(source, limit, &mut tally, watch, |bytes| watch.advance(bytes), counts)?;
    account.add(&tally, 0);
    counts.files.push((source.name.clone().into(), TranscriptKind::Pooled(pool).name(), account));
    Ok(PooledFile { name: source.name.clone(), records })
}
