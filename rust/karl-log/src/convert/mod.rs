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

mod claude;
mod json;
pub mod kind;
mod message;
mod output;
mod record;
pub mod report;
mod time;
mod unpack;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use karl_core::reward::karl::Version;

use self::claude::Transcripts;
pub use self::kind::Kind;
use self::kind::{Told, nothing, tell};
use self::output::Output;
pub use self::report::{Made, Report};
use self::unpack::unpacked;
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
/// found in a folder, and where there is no trajectory at all; [`Error::Exists`] and [`Error::Target`] for a target that
/// may not be written; [`Error::Changed`] for a file that is not what it was a moment ago; [`Error::Interrupted`].
pub fn convert(sources: Vec<Source>, target: &Path, settings: &Settings, watch: &Watch) -> Result<Report> {
    output::check(target, settings.force)?;
    let mut report = Report::default();
    let sources = sorted(sources, settings, &mut report, watch)?;
    watch.expect(sources.iter().map(|source| source.size).sum());
    let (sources, _kept) = unpacked(sources, settings.threads, &mut report, watch)?;
    report.bytes = sources.iter().map(|source| source.size).sum();
    let limit = settings.max_line_bytes;
    let transcripts =
        Transcripts::read(&sources, settings.rate, limit, settings.threads, &mut report, watch)?;
    let output = Output::create(target, settings.force)?;
    let made = run(transcripts.len(), settings.threads, &output, |at| transcripts.make(at, watch))?;
    report.made.add(&made);
    if report.made.trajectories == 0 {
        let problem = "there is no conversation in what was read".to_owned();
        return Err(Error::Layout { path: target.to_path_buf(), problem });
    }
    report.written = output.finish()?;
    Ok(report)
}

/// The transcripts among the files, by name; the others are reported.
fn sorted(
    sources: Vec<Source>,
    settings: &Settings,
    report: &mut Report,
    watch: &Watch,
) -> Result<Vec<Source>> {
    let mut kept = Vec::new();
    for source in sources {
        watch.advance(0)?;
        let told = match settings.kind {
            Some(kind) => Told::Transcript(kind),
            None => tell(&source, settings.max_line_bytes, watch)?,
        };
        watch.advance(0)?;
        match told {
            Told::Transcript(Kind::ClaudeCode) => kept.push(source),
            Told::Beside => {}
            Told::Refused(why) if source.optional => report.refused.push((source.path, why.to_owned())),
            Told::Refused(why) => return Err(Error::Layout { path: source.path, problem: why.to_owned() }),
            Told::Nothing if source.optional => {
                report.skipped.push((source.path, "it is no transcript of a known tool".to_owned()));
            }
            Told::Nothing => return Err(nothing(&source.path)),
        }
    }
    kept.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(kept)
}

/// Makes every unit of work on some thread, and hands its lines over; what became of all.
fn run(
    count: usize,
    threads: usize,
    output: &Output,
    make: impl Fn(usize) -> Result<(Vec<u8>, Made)> + Sync,
) -> Result<Made> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut all = Made::default();
        while let Some(at) = Some(next.fetch_add(1, Relaxed)).filter(|&at| at < count) {
            let done = make(at).and_then(|(lines, made)| output.put(at, lines).map(|()| made));
            match done {
                Ok(made) => all.add(&made),
                Err(error) => {
                    output.fail();
                    return Err((at, error));
                }
            }
        }
        Ok(all)
    };
    let done = thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(count)).map(|_| scope.spawn(work)).collect();
        let mut done = vec![work()];
        for other in others {
            done.push(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    let mut all = Made::default();
    let mut failed: Option<(usize, Error)> = None;
    for part in done {
        match part {
            Ok(made) => all.add(&made),
            // A thread that another's failure woke says only that it was interrupted.
            Err((at, error))
                if failed.as_ref().is_none_or(|(first, known)| {
                    matches!(known, Error::Interrupted) || at < *first && !matches!(error, Error::Interrupted)
                }) =>
            {
                failed = Some((at, error));
            }
            Err(_) => {}
        }
    }
    failed.map_or(Ok(all), |(_, error)| Err(error))
}
