//! Preference pairs that a user made, from transcripts.
//!
//! ```text
//! transcripts ──► convert, with abandoned branches ──► candidates ──► pair ──► redacted row ──► output
//!                 one trajectory a branch               branch and     common    prompt, chosen,
//!                                                       kept session,  prompt    rejected, reason
//!                                                       retries
//! ```
//!
//! A candidate is two trajectories of one request of which the user kept one: a branch of a session that was
//! rewound, or a session whose request was made again in a new one. It becomes a row if both begin alike up to
//! an answer of the model and then differ. Every candidate is written or dropped by name.

mod candidates;
mod report;
mod request;
mod row;
mod settings;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use karl_log::atomic_output::{OutputKind, OutputTarget};
use karl_log::cancel::Watch;
use karl_log::error::{Error, Result};
use karl_log::input::source::Source;
use karl_redact::Protection;
use karl_redact::secrets::add;

use self::candidates::{PairCandidate, candidates, entries};
pub use self::report::PairsReport;
use self::row::row;
pub use self::settings::{PairShape, PairsSettings};
use crate::convert::output::Output;
use crate::convert::{self, ConvertSettings, Rate, convert};

/// Start of every row.
const MARK: &[u8] = b"{\"prompt\":";

/// File of pairs, also an empty one.
const KIND: OutputKind =
    OutputKind { names: None, is_ours, edited: |_| Ok(None), foreign: "is not a file of preference pairs" };

/// Look at the place of a file of pairs before any work is done.
///
/// # Errors
/// As [`OutputTarget::look`].
pub fn target(path: &Path, force: bool) -> Result<OutputTarget> {
    OutputTarget::look(path, &KIND, force)
}

fn is_ours(path: &Path) -> Result<bool> {
    let io = |error| Error::io("read", path, error);
    let mut begin = Vec::new();
    File::open(path).map_err(io)?.take(MARK.len() as u64).read_to_end(&mut begin).map_err(io)?;
    Ok(begin.is_empty() || begin == MARK)
}

/// Find the preference pairs of transcripts, and write them, completely or not at all; without any, nothing is
/// written. The order of the rows is that of the sessions' starts.
///
/// # Errors
/// As [`convert()`].
pub fn pairs(
    sources: Vec<Source>,
    target: &OutputTarget,
    settings: &PairsSettings,
    watch: &Watch,
) -> Result<PairsReport> {
    let folder = target.hidden_directory()?;
    let path = folder.path().join("trajectories.jsonl");
    let wanted = ConvertSettings {
        kind: settings.kind,
        rate: Rate::Log,
        max_line_bytes: settings.max_line_bytes,
        threads: settings.threads,
        abandoned: true,
        protection: Protection::default(),
    };
    let converted = convert(sources, &convert::target(&path, false)?, &wanted, watch)?;
    let mut report = PairsReport::new(converted);
    let trajectories = File::open(&path).map_err(|error| Error::io("read", &path, error))?;
    let entries = entries(&trajectories).map_err(|error| Error::io("read", &path, error))?;
    report.sessions = entries.iter().filter(|entry| !entry.abandoned).count() as u64;
    let output = Output::create(target, settings.protection.clone())?;
    for (at, pair) in candidates(&entries).iter().enumerate() {
        watch.advance(0)?;
        let text = |entry: &PairCandidate| {
            entry.text(&trajectories).map_err(|error| Error::io("read", &path, error))
        };
        let made = row(&text(pair.chosen)?, &text(pair.rejected)?, pair.reason, settings.shape);
        let line = report.count(pair.reason, made);
        add(&mut report.secrets, output.put(at, line.into_bytes())?);
    }
    if report.written() == 0 {
        return Ok(report);
    }
    report.written_bytes = output.finish()?;
    Ok(report)
}
