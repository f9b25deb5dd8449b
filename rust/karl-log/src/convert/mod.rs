//! Transcripts of agents, whose sessions lie spread over lines and files, to trajectories: one a line.
//!
//! ```text
//! files ──► kind ──► Claude Code: lines of sessions ─┐
//!           by keys  a document a trajectory ────────┴──► messages ──► record ──► output
//!                                                        calls and     the canonical   whole or not,
//!                                                        their results format          in order
//! ```
//!
//! Damaged lines are counted with their places, unknown types of lines by name; neither stops a conversion. The output
//! depends on the transcripts alone: not on threads, nor on the order of the files.

mod atif;
mod claude;
mod codex;
mod document;
mod json;
pub mod kind;
mod lines;
mod message;
mod output;
mod record;
pub mod report;
mod swe_agent;
mod time;
mod unpack;
mod values;
mod work;

use std::path::Path;

use karl_core::reward::karl::Version;

use self::claude::Transcripts;
pub use self::kind::Kind;
use self::kind::sorted;
use self::output::Output;
pub use self::report::{Made, Report};
use self::unpack::unpacked;
use self::work::run;
use crate::error::{Error, Result};
use crate::source::Source;
use crate::watch::Watch;

/// How to convert.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The kind of all files, where it is not to be found by looking.
    pub kind: Option<Kind>,
    /// Where rewards come from.
    pub rate: Rate,
    /// The longest line or document that is read, in bytes.
    pub max_line_bytes: usize,
    /// How many threads to work with; at least one is used.
    pub threads: usize,
    /// Whether a file of trajectories that is there may be replaced.
    pub force: bool,
}

/// Where the reward of a trajectory comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// From the log, where it has one.
    Log,
    /// From the end of the run, where the log has it: 1 for success, else 0.
    Result,
    /// From the calls of tools, as KARL rates them; the weights are those of v1.
    Karl(Version, [f64; 3]),
}

/// Converts files to one file of trajectories, whole or not at all.
///
/// # Errors
/// [`Error::Io`]; [`Error::Layout`] for a file that is no transcript or one of a kind that is not read, unless it was
/// found in a folder, and where there is no trajectory at all; [`Error::Converted`] for what a conversion wrote;
/// [`Error::Exists`] and [`Error::Target`] for a target that
/// may not be written; [`Error::Changed`] for a file that is not what it was a moment ago; [`Error::Interrupted`].
pub fn convert(sources: Vec<Source>, target: &Path, settings: &Settings, watch: &Watch) -> Result<Report> {
    output::check(target, settings.force)?;
    let mut report = Report::default();
    let (sessions, alone) = sorted(sources, settings, &mut report, watch)?;
    watch.expect(
        sessions.iter().chain(alone.iter().map(|(_, source)| source)).map(|source| source.size).sum(),
    );
    let (sessions, _kept) = unpacked(sessions, settings.threads, &mut report, watch)?;
    let all = sessions.iter().chain(alone.iter().map(|(_, source)| source));
    report.bytes = all.map(|source| source.size).sum();
    let transcripts = Transcripts::read(&sessions, settings, &mut report, watch)?;
    let output = Output::create(target, settings.force)?;
    let first = transcripts.len();
    let made = run(first + alone.len(), settings.threads, &output, |at| match at.checked_sub(first) {
        None => transcripts.make(at, watch),
        Some(at) => document::make(alone[at].0, &alone[at].1, settings, watch),
    })?;
    report.made.add(made);
    report.made.files.sort_by(|a, b| a.0.cmp(&b.0));
    if report.made.trajectories == 0 {
        let problem = "there is no conversation in what was read".to_owned();
        return Err(Error::Layout { path: target.to_path_buf(), problem });
    }
    report.written = output.finish()?;
    Ok(report)
}
