//! Temporary unpacked copies of packed transcripts: the second pass reads lines in any order.

use std::fs;
use std::io;

use karl_log::cancel::Watch;
use karl_log::error::{Result, without_path};
use karl_log::input::codec::Codec;
use karl_log::input::codec::is_damage;
use karl_log::input::source::Source;
use karl_log::parallel::map;
use tempfile::{NamedTempFile, TempPath};

use super::report::Report;

/// Reason to reject a file with damaged packed bytes; the part before the damage is read.
const DAMAGED: &str = "its packed bytes are damaged: lines behind the damage are lost, and those before it \
    may be other than they were";

/// Replace packed files by temporary unpacked ones, which exist as long as the returned guards.
///
/// # Errors
/// [`Error::Io`](karl_log::Error::Io), [`Error::Interrupted`](karl_log::Error::Interrupted).
pub(super) fn unpacked(
    sources: Vec<Source>,
    threads: usize,
    report: &mut Report,
    watch: &Watch,
) -> Result<(Vec<Source>, Vec<TempPath>)> {
    let (mut all, mut kept) = (Vec::new(), Vec::new());
    for done in map(sources, threads, |source| unpack(source, watch)) {
        let (source, path, damaged) = done?;
        if damaged {
            report.refused.push((source.name.clone().into(), DAMAGED.to_owned()));
        }
        all.push(source);
        kept.extend(path);
    }
    watch.advance(0)?;
    Ok((all, kept))
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
    use std::io::Write;
    use std::path::Path;

    use karl_log::error::Error;
    use karl_log::format::preset::GENERIC;

    use super::*;
    use crate::convert::claude::Transcripts;
    use crate::convert::rollouts::RolloutLogs;
    use crate::convert::settings::{ConvertSettings, Rate};

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
        let (copies, kept) = unpacked(vec![source], 1, &mut report, &watch).unwrap();
        let transcripts = Transcripts::read(&copies, &settings, &mut report, &watch).unwrap();
        drop(kept);
        let changed = transcripts.make(0, &watch).map(drop).unwrap_err();
        assert!(matches!(changed, Error::Changed { path, .. } if path == Path::new("given.jsonl.gz")));
        let read = Transcripts::read(&copies, &settings, &mut report, &watch).map(drop);
        let looked = RolloutLogs::look(vec![(&GENERIC, copies[0].clone())], &settings, &watch).map(drop);
        for gone in [read, looked] {
            assert!(gone.unwrap_err().to_string().contains(" given.jsonl.gz: "));
        }
    }
}
