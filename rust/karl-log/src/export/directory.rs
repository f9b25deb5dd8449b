//! Data set: a directory that is written completely or not at all.
//!
//! All files are written into a hidden directory beside the target, synced, and moved to their
//! [place](crate::atomic_output).

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use serde_json::Value;
use twox_hash::XxHash3_128;

use super::file;
pub use super::file::FileLine;
use crate::atomic_output::{OutputKind, OutputTarget, Parents, is_absent, sync};
use crate::cancel::Watch;
use crate::error::{Error, Result};
use crate::parallel::map;

/// Files of the splits.
pub const SPLITS: [&str; 3] = ["train.jsonl", "valid.jsonl", "test.jsonl"];

/// File that marks a directory as an output of this program: only such a directory is ever replaced.
pub const MANIFEST: &str = "manifest.json";

/// All files of such an output.
const FILES: [&str; 4] = [SPLITS[0], SPLITS[1], SPLITS[2], MANIFEST];

/// Maximum size of a file that may be such a manifest, in bytes.
const MANIFEST_MAX: u64 = 1 << 28;

/// One file of the directory.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryFile<'a> {
    /// Name.
    pub name: &'a str,
    /// Lines.
    pub lines: &'a [FileLine<'a>],
}

/// Look at the place of a data set before any work is done.
///
/// # Errors
/// As [`OutputTarget::look`].
pub fn target(path: &Path, force: bool) -> Result<OutputTarget> {
    OutputTarget::look(path, &KIND, force)
}

/// Data set.
const KIND: OutputKind = OutputKind {
    names: Some(&FILES),
    is_ours: |directory| Ok(manifest(&directory.join(MANIFEST))?.is_some()),
    edited,
    foreign: "holds something else than a data set of karl-fast",
};

/// Read a manifest of this program. A foreign one may be a pipe that never ends, or larger than memory.
fn manifest(path: &Path) -> Result<Option<Value>> {
    let facts = match fs::symlink_metadata(path) {
        Err(error) if is_absent(&error) => return Ok(None),
        facts => facts.map_err(|error| Error::io("look at", path, error))?,
    };
    if !facts.is_file() || facts.len() > MANIFEST_MAX {
        return Ok(None);
    }
    let text = match fs::read(path) {
        Err(error) if is_absent(&error) => return Ok(None),
        text => text.map_err(|error| Error::io("read", path, error))?,
    };
    let ours = |manifest: &Value| manifest.get("schema").is_some() && manifest.get("karl_fast").is_some();
    Ok(serde_json::from_slice(&text).ok().filter(ours))
}

/// Return the first file of a data set that differs from its manifest: by its hash, or by its rows if the
/// manifest has no hash. A missing file is not an edit.
fn edited(directory: &Path) -> Result<Option<String>> {
    let Some(manifest) = manifest(&directory.join(MANIFEST))? else { return Ok(None) };
    for name in SPLITS {
        let now = match written(&directory.join(name)) {
            Err(error) if is_absent(&error) => continue,
            now => now.map_err(|error| Error::io("read", &directory.join(name), error))?,
        };
        let rows = name.split('.').next().and_then(|split| manifest["export"]["splits"][split].as_u64());
        let same = match manifest["export"]["files"][name]["xxh3_128"].as_str() {
            Some(hash) => hash == now.hash,
            None => now.rows == rows.unwrap_or(0),
        };
        if !same {
            return Ok(Some(format!(
                "{name} in it is not as karl-fast wrote it; move the folder to keep it, or remove it"
            )));
        }
    }
    Ok(None)
}

/// Written file of rows: its size, its lines, and its XXH3-128 as 32 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenFile {
    /// Size in bytes.
    pub size: u64,
    /// Number of lines.
    pub rows: u64,
    /// Hash.
    pub hash: String,
}

fn written(path: &Path) -> io::Result<WrittenFile> {
    let (mut file, mut block) = (File::open(path)?, vec![0; 1 << 18]);
    let (mut hasher, mut size, mut rows) = (XxHash3_128::new(), 0, 0);
    loop {
        let read = match file.read(&mut block) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => &block[..read?],
        };
        if read.is_empty() {
            return Ok(WrittenFile { size, rows, hash: format!("{:032x}", hasher.finish_128()) });
        }
        hasher.write(read);
        size += read.len() as u64;
        rows += memchr::memchr_iter(b'\n', read).count() as u64;
    }
}

/// Write all parts, or nothing; each with so many threads.
///
/// # Errors
/// As [`OutputTarget::check`]; [`Error::Io`] if anything cannot be written; as [`fetch`](crate::second_pass::fetch);
/// [`Error::Unwritable`] for a record copied unread that is not a row. The target is then unchanged, unless
/// only the removal of the old output or the sync of the parent directory failed: then it is the complete new
/// output.
pub fn write(
    target: &OutputTarget,
    parts: &[DirectoryFile<'_>],
    threads: usize,
    watch: &Watch,
) -> Result<()> {
    write_with(target, parts, threads, watch, |_| Ok(None))
}

/// Do as [`write()`], with a manifest made after the parts are written.
///
/// # Errors
/// As [`write()`], and those of `manifest`.
pub fn write_with(
    target: &OutputTarget,
    parts: &[DirectoryFile<'_>],
    threads: usize,
    watch: &Watch,
    manifest: impl FnOnce(&[WrittenFile]) -> Result<Option<String>>,
) -> Result<()> {
    target.check()?;
    let shown = target.shown();
    let parents =
        Parents::create(target.folder()).map_err(|error| Error::io("create the folder of", shown, error))?;
    let staging = target.hidden_directory()?;
    watch.expect(parts.iter().map(|part| file::bytes(part.lines)).sum());
    // In parallel: each waits for the disk.
    let failed = AtomicBool::new(false);
    let put = |part: &DirectoryFile<'_>, watch: &Watch| {
        let (path, shown) = (staging.path().join(part.name), shown.join(part.name));
        file::write(&path, &shown, part.lines, threads, &failed, watch)?;
        written(&path).map_err(|error| Error::io("read", &shown, error))
    };
    let rows = |part: &DirectoryFile<'_>| put(part, watch);
    let all = map(parts.iter().collect(), parts.len(), rows).into_iter().collect::<Result<Vec<_>>>()?;
    if let Some(text) = manifest(&all)? {
        // Progress counts rows: the size of the manifest is unknown when the total is announced.
        put(&DirectoryFile { name: MANIFEST, lines: &[FileLine::Text(&text)] }, &Watch::new())?;
    }
    sync(staging.path()).map_err(|error| Error::io("write", shown, error))?;
    watch.advance(0)?;
    target.put_directory(staging)?;
    parents.keep();
    Ok(())
}
