//! Selection of transcripts among the files, by content.

use std::path::PathBuf;

use karl_log::cancel::Watch;
use karl_log::error::{Error, Result};
use karl_log::format::Format;
use karl_log::input::source::Source;
use tempfile::TempPath;

use super::report::Report;
use super::settings::ConvertSettings;
use super::tool_kind::{Alone, Classified, TranscriptKind, tell};
use super::unpack::unpacked;

/// Files by content, each list sorted by name.
#[derive(Default)]
pub(super) struct Classes {
    /// Sessions that may span several files.
    pub(super) sessions: Vec<Source>,
    /// Files with one session each.
    pub(super) alone: Vec<(Alone, Source)>,
    /// Rollouts.
    pub(super) logs: Vec<(&'static Format, Source)>,
}

impl Classes {
    /// Iterate over all files.
    pub(super) fn sources(&self) -> impl Iterator<Item = &Source> {
        let alone = self.alone.iter().map(|(_, source)| source);
        self.sessions.iter().chain(alone).chain(self.logs.iter().map(|(_, source)| source))
    }

    /// Replace packed files that are read in parts by temporary ones, which exist as long as the returned
    /// guards.
    ///
    /// # Errors
    /// As [`unpacked`].
    pub(super) fn unpacked(
        self,
        threads: usize,
        report: &mut Report,
        watch: &Watch,
    ) -> Result<(Self, Vec<TempPath>)> {
        let (sessions, mut kept) = unpacked(self.sessions, threads, report, watch)?;
        let (formats, logs): (Vec<_>, Vec<_>) = self.logs.into_iter().unzip();
        let (logs, more) = unpacked(logs, threads, report, watch)?;
        kept.extend(more);
        Ok((Self { sessions, alone: self.alone, logs: formats.into_iter().zip(logs).collect() }, kept))
    }
}

/// Reasons to skip a file.
const CONVERTED: &str = "it holds trajectories already";
const NOTHING: &str = "it is not a transcript of a known tool";
const EMPTY: &str = "it is empty";

/// Select the transcripts among the files. Other files are reported, or rejected if named by the user.
///
/// # Errors
/// [`Error::Layout`], [`Error::Unread`], [`Error::Converted`], [`Error::Io`], [`Error::Interrupted`].
pub(super) fn sorted(
    sources: Vec<Source>,
    settings: &ConvertSettings,
    report: &mut Report,
    watch: &Watch,
) -> Result<Classes> {
    let mut sorted = Classes::default();
    for source in sources {
        match source.readable(watch) {
            Err(Error::Unread { path, why }) if source.optional => {
                report.refused.push((path, why.to_string()));
                continue;
            }
            readable => readable?,
        }
        let told = match settings.kind {
            Some(kind) => Classified::Transcript(kind),
            None => tell(&source, settings.max_line_bytes, watch)?,
        };
        watch.advance(0)?;
        let (path, nothing) = (PathBuf::from(&source.name), if source.size == 0 { EMPTY } else { NOTHING });
        match told {
            Classified::Transcript(TranscriptKind::ClaudeCode) => sorted.sessions.push(source),
            Classified::Transcript(TranscriptKind::Alone(kind)) => sorted.alone.push((kind, source)),
            Classified::Transcript(TranscriptKind::Rollouts(format)) => sorted.logs.push((format, source)),
            Classified::EntireMetadata => {}
            Classified::Refused(why) | Classified::Damaged(why) if source.optional => {
                report.refused.push((path, why.into_owned()));
            }
            Classified::Converted if source.optional => report.skipped.push((path, CONVERTED.to_owned())),
            Classified::Converted => return Err(Error::Converted { path }),
            Classified::Nothing if source.optional => report.skipped.push((path, nothing.to_owned())),
            Classified::Refused(why) | Classified::Damaged(why) => {
                return Err(Error::Layout { path, problem: why.into_owned() });
            }
            Classified::Nothing => return Err(Error::Layout { path, problem: nothing.to_owned() }),
        }
    }
    sorted.sessions.sort_by(|a, b| a.name.cmp(&b.name));
    sorted.alone.sort_by(|a, b| a.1.name.cmp(&b.1.name));
    sorted.logs.sort_by(|a, b| a.1.name.cmp(&b.1.name));
    Ok(sorted)
}
