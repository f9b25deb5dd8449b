//! Archive of what agents wrote, kept beyond the agents' own deletion.
//!
//! ```text
//! agents' files ──► new bytes, or lines that are not there yet ──► a zstd frame behind the others ──► catalogue
//!                   by offset       after a rewrite                 ARCHIVE/agent/.../name.jsonl.zst  one line
//! ```
//!
//! A file of the archive grows by one frame a collection and is never rewritten. The catalogue has one line a frame,
//! written when the frame is on the disk: a frame without a line was cut short by a kill or a full disk, and what it
//! holds is taken over by the next collection. Nothing here depends on the clock: a file is compared by its bytes.

mod catalogue;
mod collector;
mod document;
mod fault;
mod frame;
mod line_facts;
mod lock;
mod member;
mod report;
mod source;
mod unread_part;

use std::path::Path;

use karl_log::cancel::Watch;
use karl_log::error::{Error, Result};

pub use self::catalogue::{CATALOGUE, Catalogue, CatalogueEntry};
use self::collector::Collector;
use self::lock::Lock;
pub use self::report::Collected;
pub use self::source::{AgentFile, FileForm};

/// Add what is new in the agents' files to an archive.
///
/// # Errors
/// [`Error::Io`] if the archive cannot be written; [`Error::Taken`] if another collection holds it for more than a
/// minute; [`Error::Foreign`] for a folder that is no archive; [`Error::Layout`] for a damaged catalogue;
/// [`Error::Interrupted`]. What was collected before the error is kept.
pub fn collect(files: &[AgentFile], archive: &Path, watch: &Watch) -> Result<Collected> {
    std::fs::create_dir_all(archive).map_err(|error| Error::io("make the folder", archive, error))?;
    let _lock = Lock::take(archive, watch)?;
    let mut collector = Collector::new(archive, Catalogue::open(archive)?, watch);
    watch.expect(files.iter().map(AgentFile::size).sum());
    let collected = files.iter().try_for_each(|file| collector.collect(file));
    // What was collected before a failure is kept.
    let kept = collector.keep();
    collected.and(kept)?;
    Ok(collector.report)
}
