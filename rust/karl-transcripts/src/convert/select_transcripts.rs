//! Selection of transcripts among the files, by content, with temporary unpacked copies of packed ones: the second pass
//! reads lines in any order.

use std::path::PathBuf;
use std::{fs, io};

use karl_log::cancel::Watch;
use karl_log::error::{Error, Result, without_path};
use karl_log::format::Format;
use karl_log::input::codec::{Codec, is_damage};
use karl_log::input::source::Source;
use karl_log::parallel::map;
use tempfile::{NamedTempFile, TempPath};

use super::report::Report;
use super::run::ConvertSettings;
use super::tool_kind::{Alone, Classified, Pool, TranscriptKind, classify};

/// Files by content, each list sorted by name.
#[derive(Default)]
pub(super) struct Classes {
    /// Sessions that may span several files.
    pub(super) sessions: Vec<Source>,
    /// Files with one session each.
    pub(super) alone: Vec<(Alone, Source)>,
    /// Files of sessions that are spread over several of them.
    pub(super) pooled: Vec<(Pool, Source)>,
    /// Rollouts.
    pub(super) logs: Vec<(&'static Format, Source)>,
}

impl Classes {
    /// Iterate over all files.
    pub(super) fn sources(&self) -> impl Iterator<Item = &Source> {
        let alone = self.alone.iter().map(|(_, source)| source);
        let pooled = self.pooled.iter().map(|(_, source)| source);
        self.sessions.iter().chain(alone).chain(pooled).chain(self.logs.iter().map(|(_, source)| source))
    }

    /// Replace packed files that are read in parts by temporary ones, which exist as long as the returned
    /// guards.
    ///
    /// # Errors
    /// As [`unpack_sources`].
    pub(super) fn unpack(
        self,
        threads: usize,
        report: &mut Report,
        watch: &Watch,
    ) -> Result<(Self, Vec<TempPath>)> {
        let (sessions, mut temporary) = unpack_sources(self.sessions, threads, report, watch)?;
        let (formats, logs): (Vec<_>, Vec<_>) = self.logs.into_iter().unzip();
        let (logs, more) = unpack_sources(logs, threads, report, watch)?;
        temporary.extend(more);
        let logs = formats.into_iter().zip(logs).collect();
        Ok((Self { sessions, alone: self.alone, pooled: self.pooled, logs }, temporary))
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
pub(super) fn partition_sources(
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
            None => classify(&source, settings.max_line_bytes, watch)?,
        };
        watch.advance(0)?;
        let (path, nothing) = (PathBuf::from(&source.name), if source.size == 0 { EMPTY } else { NOTHING });
        match told {
            Classified::Transcript(TranscriptKind::ClaudeCode) => sorted.sessions.push(source),
            Classified::Transcript(TranscriptKind::Alone(kind)) => sorted.alone.push((kind, source)),
            Classified::Transcript(TranscriptKind::Pooled(pool)) => sorted.pooled.push((pool, source)),
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
    sorted.pooled.sort_by(|a, b| a.1.name.cmp(&b.1.name));
    sorted.logs.sort_by(|a, b| a.1.name.cmp(&b.1.name));
    Ok(sorted)
}

/// Reason to reject a file with damaged packed bytes; the part before the damage is read.
const DAMAGED: &str = "its packed bytes are damaged: lines behind the damage are lost, and those before it \
    may be other than they were";

/// Replace packed files by temporary unpacked ones, which exist as long as the returned guards.
///
/// # Errors
/// [`Error::Io`](karl_log::Error::Io), [`Error::Interrupted`](karl_log::Error::Interrupted).
pub(super) fn unpack_sources(
    sources: Vec<Source>,
    threads: usize,
    report: &mut Report,
    watch: &Watch,
) -> Result<(Vec<Source>, Vec<TempPath>)> {
    let (mut all, mut temporary) = (Vec::new(), Vec::new());
    for done in map(sources, threads, |source| unpack(source, watch)) {
        let (source, path, damaged) = done?;
        if damaged {
            report.refused.push((source.name.clone().into(), DAMAGED.to_owned()));
        }
        all.push(source);
        temporary.extend(path);
    }
    watch.advance(0)?;
    Ok((all, temporary))
}

fn unpack(source: Source, watch: &Watch) -> Result<(Source, Option<TempPath>, bool)> {
    if source.codec == Codec::Plain {
        return Ok((source, None, false));
    }
    let io = |error| source.failed("unpack", without_path(error));
    let mut copy = NamedTempFile::with_prefix("karl-fast-").map_err(io)?;
    let copied = io::copy(&mut source.reader(watch)?, &mut copy);
    let damaged = copied.as_ref().is_err_and(is_damage);
    if !damaged {
        copied.map_err(io)?;
    }
    let path = copy.into_temp_path();
    let size = fs::metadata(&path).map_err(io)?.len();
    let plain = Source { path: path.to_path_buf(), codec: Codec::Plain, size, ..source };
    Ok((plain, Some(path), damaged))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::claude::Transcripts;
    use crate::convert::rollouts::RolloutLogs;
    use crate::convert::run::{ConvertSettings, Rate};
    use karl_log::error::Error;
    use karl_log::format::preset::GENERIC;
    use std::io::Write;
    use std::path::Path;

    const LINE: &str = r#"{"type": "user", "sessionId": "s", "uuid": "u", "message": {"content": "a"}}"#;

    #[test]
    fn of_a_copy_that_is_gone_the_file_that_was_given_is_told() {
        let (mut packed, watch, mut report) =
            (NamedTempFile::new().unwrap(), Watch::new(), Report::default());
        let mut writer = flate2::write::GzEncoder::new(&mut packed, flate2::Compression::fast());
        writeln!(writer, "{LINE}").unwrap();
        writer.finish().unwrap();
        let source = Source::open(packed.path(), "given.jsonl.gz").unwrap();
        let settings = ConvertSettings {
            kind: None,
            rate: Rate::Log,
            max_line_bytes: 1 << 20,
            threads: 1,
            abandoned: false,
            protection: karl_redact::Protection::default(),
        };
        let (copies, temporary) = unpack_sources(vec![source], 1, &mut report, &watch).unwrap();
        let transcripts = Transcripts::read(&copies, &settings, &mut report, &watch).unwrap();
        drop(temporary);
        let changed = transcripts.make(0, &watch).map(drop).unwrap_err();
        assert!(matches!(changed, Error::Changed { path, .. } if path == Path::new("given.jsonl.gz")));
        let read = Transcripts::read(&copies, &settings, &mut report, &watch).map(drop);
        let looked = RolloutLogs::open(vec![(&GENERIC, copies[0].clone())], &settings, &watch).map(drop);
        for gone in [read, looked] {
            assert!(gone.unwrap_err().to_string().contains(" given.jsonl.gz: "));
        }
    }
}
