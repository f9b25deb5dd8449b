//! A data set: a directory that appears whole or not at all.
//!
//! Everything is written into a hidden directory beside the target, synced, and put in its [place](crate::place).

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use serde_json::Value;

use super::file;
pub use super::file::Line;
use crate::cancel::Watch;
use crate::error::{Error, Result};
use crate::parallel::map;
use crate::place::{Kind, Parents, Target, is_absent, sync};

/// The files of the splits.
pub const SPLITS: [&str; 3] = ["train.jsonl", "valid.jsonl", "test.jsonl"];

/// The file that marks a directory as an output of ours: only such a one is ever replaced.
pub const MANIFEST: &str = "manifest.json";

/// All that an output of ours holds.
const FILES: [&str; 4] = [SPLITS[0], SPLITS[1], SPLITS[2], MANIFEST];

/// The largest file that is looked into for a manifest of ours, in bytes.
const MANIFEST_MAX: u64 = 1 << 28;

/// One file of the directory.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its lines.
    pub lines: &'a [Line<'a>],
}

/// Looks at the place of a data set before any work is done.
///
/// # Errors
/// As [`Target::look`].
pub fn target(path: &Path, force: bool) -> Result<Target> {
    Target::look(path, &KIND, force)
}

/// A data set.
const KIND: Kind = Kind {
    names: Some(&FILES),
    is_ours: |directory| is_manifest(&directory.join(MANIFEST)),
    foreign: "holds something else than a data set of karl-fast",
};

/// Whether a file is a manifest of ours. Somebody else's may be a pipe that never ends, or larger than memory.
fn is_manifest(path: &Path) -> Result<bool> {
    let facts = match fs::symlink_metadata(path) {
        Err(error) if is_absent(&error) => return Ok(false),
        facts => facts.map_err(|error| Error::io("look at", path, error))?,
    };
    if !facts.is_file() || facts.len() > MANIFEST_MAX {
        return Ok(false);
    }
    let text = match fs::read(path) {
        Err(error) if is_absent(&error) => return Ok(false),
        text => text.map_err(|error| Error::io("read", path, error))?,
    };
    let manifest = serde_json::from_slice::<Value>(&text);
    Ok(manifest.is_ok_and(|manifest| manifest.get("schema").is_some() && manifest.get("karl_fast").is_some()))
}

/// Writes all parts, or nothing; each with so many threads.
///
/// # Errors
/// As [`Target::check`]; [`Error::Io`] if anything cannot be written; as [`fetch`](crate::fetch::fetch);
/// [`Error::Unwritable`] for a record that was taken unread and is no row. The target is then what it was, unless all
/// that failed was to remove the old output or to sync the directory around it: then it is the new whole.
pub fn write(target: &Target, parts: &[Part<'_>], threads: usize, watch: &Watch) -> Result<()> {
    target.check()?;
    let shown = target.shown();
    let parents =
        Parents::create(target.folder()).map_err(|error| Error::io("create the folder of", shown, error))?;
    let staging = target.hidden_directory()?;
    watch.expect(parts.iter().map(|part| file::bytes(part.lines)).sum());
    // Each waits for the disk, and the disk for none of them.
    let failed = AtomicBool::new(false);
    let all = map(parts.iter().collect(), parts.len(), |part: &Part<'_>| {
        let (path, shown) = (staging.path().join(part.name), shown.join(part.name));
        file::write(&path, &shown, part.lines, threads, &failed, watch)
    });
    all.into_iter().collect::<Result<()>>()?;
    sync(staging.path()).map_err(|error| Error::io("write", shown, error))?;
    watch.advance(0)?;
    target.put_directory(staging)?;
    parents.keep();
    Ok(())
}
