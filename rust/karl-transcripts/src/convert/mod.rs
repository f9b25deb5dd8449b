//! Conversion of agent transcripts, with sessions across lines and files, and of logs of rollouts to
//! trajectories, one per line.
//!
//! ```text
//! files ──► kind ──► Claude Code: lines of sessions ─┐
//!           by keys  a document a trajectory ────────┼──► messages ──► record ──► output
//!                    a record a rollout ─────────────┘    calls and     the canonical   whole or not,
//!                                                        their results format          in order
//! ```
//!
//! Damaged lines are counted with their places, and so are values of wrong types; unknown types of lines are
//! counted by name. None of them stops a conversion. The output depends only on the transcripts: not on
//! threads, nor on the order of the files.

mod atif;
mod blocks;
mod chat;
mod claude;
mod codex;
mod copies;
mod copilot;
mod cursor;
mod entire_metadata;
mod file_records;
mod gemini;
mod json;
mod langfuse;
mod lineage;
mod message;
mod mini_swe_agent;
mod model_calls;
mod one_file;
mod opencode;
mod openhands;
mod otlp;
mod pi;
mod pool;
pub mod report;
mod rollouts;
pub(crate) mod run;
mod select_transcripts;
mod sts;
mod swe_agent;
pub mod tool_kind;
mod traces;

use karl_log::atomic_output::OutputTarget;
use karl_log::cancel::Watch;
use karl_log::error::{Error, Result};
use karl_log::input::source::Source;
use karl_log::rejects::RejectReason;

use self::claude::Transcripts;
pub(crate) use self::entire_metadata::EntireMetadata;
use self::one_file::Documents;
use self::pool::PooledSessions;
pub(crate) use self::report::RecordCounts;
pub use self::report::{LineCounts, Report};
use self::rollouts::RolloutLogs;
use self::run::Output;
pub use self::run::{ConvertSettings, Rate, target};
pub(crate) use self::run::{Reshape, run};
use self::select_transcripts::partition_sources;
pub use self::tool_kind::TranscriptKind;

/// Convert files to one file of trajectories, completely or not at all.
///
/// # Errors
/// [`Error::Io`]; [`Error::Layout`] for a file that is not a transcript or of an unsupported kind, unless it
/// was found in a folder, and if there is no trajectory at all; [`Error::Reward`] if a reward is the reason;
/// [`Error::Converted`] for the output of a conversion; [`Error::Unread`] for unsupported formats;
/// [`Error::Exists`], [`Error::Foreign`] and [`Error::Target`] for a target that may not be written;
/// [`Error::Changed`] and [`Error::Rewritten`] for a file that changed during the conversion;
/// [`Error::Interrupted`].
pub fn convert(
    sources: Vec<Source>,
    target: &OutputTarget,
    settings: &ConvertSettings,
    watch: &Watch,
) -> Result<Report> {
    convert_to(sources, target, settings, None, watch)
}

/// Convert files; `reshape` makes the written lines of each trajectory, whose secrets are replaced by then.
///
/// # Errors
/// As [`convert`].
pub(crate) fn convert_to(
    sources: Vec<Source>,
    target: &OutputTarget,
    settings: &ConvertSettings,
    reshape: Option<&Reshape<'_>>,
    watch: &Watch,
) -> Result<Report> {
    let mut report = Report::default();
    let classes = partition_sources(sources, settings, &mut report, watch)?;
    let source_ends = classes.sources().map(|source| Ok((source.clone(), source.ends()?)));
    let source_ends = source_ends.collect::<Result<Vec<_>>>()?;
    watch.expect(classes.sources().map(|source| source.size).sum());
    let (classes, _kept) = classes.unpack(settings.threads, &mut report, watch)?;
    report.bytes = classes.sources().map(|source| source.size).sum();
    let transcripts = Transcripts::read(&classes.sessions, settings, &mut report, watch)?;
    let mut rollouts = RolloutLogs::open(classes.logs, settings, watch)?;
    let documents = Documents::open(&classes.alone, settings, &mut report, watch)?;
    let pooled = PooledSessions::open(&classes.pooled, settings, &mut report, watch)?;
    let first = transcripts.len();
    let second = first + documents.len();
    let third = second + pooled.len();
    let (output, counts) = loop {
        let output = Output::create(target, settings.protection.clone())?;
        let counts = run(third + rollouts.len(), settings.threads, &output, reshape, |at| match at {
            at if at < first => transcripts.make(at, watch),
            at if at < second => documents.make(at - first, settings, watch),
            at if at < third => Ok(pooled.make(at - second, settings)),
            at => rollouts.make(at - third, settings, watch),
        })?;
        if !rollouts.again(&counts, watch) {
            break (output, counts);
        }
    };
    source_ends.iter().try_for_each(|(source, ends)| source.unchanged(ends))?;
    report.counts.add(counts);
    rollouts.account(&mut report.counts);
    report.counts.files.sort_by(|a, b| a.0.cmp(&b.0));
    if report.counts.trajectories == 0 {
        let (path, problem) = report.nothing(target.shown());
        return Err(match report.damage().map(|(_, bad)| bad.reason) {
            Some(RejectReason::RewardNotANumber | RejectReason::RewardInfinite) => {
                Error::Reward { path, problem }
            }
            _ => Error::Layout { path, problem },
        });
    }
    if reshape.is_some() && report.counts.records == 0 {
        let problem = "there is no tool call in what was read, and a record is made of those".to_owned();
        return Err(Error::Layout { path: target.shown().to_path_buf(), problem });
    }
    report.written = output.finish()?;
    Ok(report)
}
