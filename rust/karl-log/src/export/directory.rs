//! Data set: a directory that is written completely or not at all.
//!
//! All files are written into a hidden directory beside the target, synced, and moved to their
//! [place](crate::atomic_output).

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use twox_hash::XxHash3_128;

use crate::atomic_output::{OutputKind, OutputTarget, Parents, is_absent, sync};
use crate::cancel::Watch;
use crate::error::{Error, Result};
use crate::parallel::map;
use crate::second_pass::{RecordAtRest, fetch_into};

/// Files of the splits.
pub const SPLITS: [&str; 3] = ["train.jsonl", "valid.jsonl", "test.jsonl"];

/// File that marks a directory as an output of this program: only such a directory is ever replaced.
pub const MANIFEST: &str = "manifest.json";

/// Files of the splits of a data set in tables.
pub const TABLES: [&str; 3] = ["train.parquet", "valid.parquet", "test.parquet"];

/// Description of a data set, for people and for the Hugging Face hub.
pub const CARD: &str = "README.md";

/// All files of such an output.
const FILES: [&str; 8] = [SPLITS[0], SPLITS[1], SPLITS[2], MANIFEST, TABLES[0], TABLES[1], TABLES[2], CARD];

/// Maximum size of a file that may be such a manifest, in bytes.
const MANIFEST_MAX: u64 = 1 << 28;

/// One file of the directory.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryFile<'a> {
    /// Name.
    pub name: &'a str,
    /// Content.
    pub content: FileContent<'a>,
}

/// Content of a file.
#[derive(Clone, Copy, Debug)]
pub enum FileContent<'a> {
    /// Lines, each of which gets an end.
    Lines(&'a [FileLine<'a>]),
    /// Bytes.
    Bytes(&'a [u8]),
}

impl FileContent<'_> {
    fn len(self) -> u64 {
        match self {
            Self::Lines(lines) => num_bytes(lines),
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }
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
    for name in SPLITS.into_iter().chain(TABLES).chain([CARD]) {
        let path = directory.join(name);
        if fs::symlink_metadata(&path).is_err_and(|error| is_absent(&error)) {
            continue;
        }
        let now = read_back(&path)?;
        let rows = name.split('.').next().and_then(|split| manifest["export"]["splits"][split].as_u64());
        let same = match manifest["export"]["files"][name]["xxh3_128"].as_str() {
            Some(hash) => hash == now.hash,
            None => SPLITS.contains(&name) && now.rows == rows.unwrap_or(0),
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

/// Read a file, and return its size, lines and hash.
///
/// # Errors
/// [`Error::Io`] if it cannot be read.
pub fn read_back(path: &Path) -> Result<WrittenFile> {
    hash_file(path).map_err(|error| Error::io("read", path, error))
}

fn hash_file(path: &Path) -> io::Result<WrittenFile> {
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
    watch.expect(parts.iter().map(|part| part.content.len()).sum());
    // In parallel: each waits for the disk.
    let failed = AtomicBool::new(false);
    let put = |part: &DirectoryFile<'_>, watch: &Watch| {
        let (path, shown) = (staging.path().join(part.name), shown.join(part.name));
        match part.content {
            FileContent::Lines(lines) => write_file(&path, &shown, lines, threads, &failed, watch)?,
            FileContent::Bytes(bytes) => write_bytes(&path, bytes)
                .map_err(|error| Error::io("write", &shown, error))
                .and_then(|()| watch.advance(bytes.len() as u64))?,
        }
        hash_file(&path).map_err(|error| Error::io("read", &shown, error))
    };
    let rows = |part: &DirectoryFile<'_>| put(part, watch);
    let all = map(parts.iter().collect(), parts.len(), rows).into_iter().collect::<Result<Vec<_>>>()?;
    if let Some(text) = manifest(&all)? {
        // Progress counts rows: the size of the manifest is unknown when the total is announced.
        let content = FileContent::Lines(&[FileLine::Text(&text)]);
        put(&DirectoryFile { name: MANIFEST, content }, &Watch::new())?;
    }
    sync(staging.path()).map_err(|error| Error::io("write", shown, error))?;
    watch.advance(0)?;
    target.put_directory(staging)?;
    parents.keep();
    Ok(())
}

/// Write a new file, and sync it.
fn write_bytes(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Bytes written per call, except for a longer line: they stay in the cache until then.
const BLOCK: usize = 1 << 18;

/// Bytes after which writeback to the disk is started, so that the sync at the end is short.
const BEHIND: u64 = 8 << 20;

/// Line of a file, without its end.
#[derive(Clone, Copy, Debug)]
pub enum FileLine<'a> {
    /// Text.
    Text(&'a str),
    /// Unchanged record of its log.
    Record(RecordAtRest<'a>),
}

impl FileLine<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Record(record) => record.len(),
        }
    }
}

/// Return the number of bytes of lines in a file.
pub(super) fn num_bytes(lines: &[FileLine<'_>]) -> u64 {
    lines.iter().map(|line| line.len() as u64 + 1).sum()
}

/// Write a new file, a line end after each line, and sync it. Errors name the `target` of its final path.
///
/// Record: k = 10,000 of `benches/record/2026-11-23-linux-x86-64-2-cores.csv`, where each drawn row is read and written
/// once.
///
/// Blocks are gathered by several threads and written to the file one at a time. After a failure, of this
/// file or of those that share `failed`, the rest is not attempted: no output remains.
///
/// # Errors
/// [`Error::Io`] if it exists or cannot be written; as [`fetch`](crate::second_pass::fetch); [`Error::Unwritable`].
fn write_file(
    path: &Path,
    target: &Path,
    lines: &[FileLine<'_>],
    threads: usize,
    failed: &AtomicBool,
    watch: &Watch,
) -> Result<()> {
    let io = |error| Error::io("write", target, error);
    let file = File::create_new(path).map_err(io)?;
    let buffers = Mutex::new(Vec::new());
    let one = |(from, lines): (u64, &[FileLine<'_>])| {
        let kept = || buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = kept().pop().unwrap_or_default();
        gather(&mut buffer, lines, watch)?;
        file.write_all_at(&buffer, from).map_err(io)?;
        let count = buffer.len() as u64;
        start_writeback(&file, from, count);
        buffer.shrink_to(BLOCK);
        kept().push(buffer);
        watch.advance(count)
    };
    let unless_failed = |block| {
        if failed.load(Relaxed) {
            return Ok(());
        }
        one(block).inspect_err(|_| failed.store(true, Relaxed))
    };
    map(blocks(lines), threads, unless_failed).into_iter().collect::<Result<()>>()?;
    file.sync_all().map_err(io)
}

/// Return the lines that are written together, with their offset.
fn blocks<'l, 'a>(lines: &'l [FileLine<'a>]) -> Vec<(u64, &'l [FileLine<'a>])> {
    let mut blocks = Vec::new();
    let (mut at, mut bytes, mut first) = (0, 0, 0);
    for (number, line) in lines.iter().enumerate() {
        if number > first && bytes + line.len() >= BLOCK {
            blocks.push((at, &lines[first..number]));
            (at, bytes, first) = (at + bytes as u64, 0, number);
        }
        bytes += line.len() + 1;
    }
    blocks.push((at, &lines[first..]));
    blocks
}

/// Append lines to a buffer, each with its end.
fn gather(buffer: &mut Vec<u8>, lines: &[FileLine<'_>], watch: &Watch) -> Result<()> {
    watch.advance(0)?;
    buffer.resize(lines.iter().map(|line| line.len() + 1).sum(), 0);
    let (mut rest, mut records) = (&mut buffer[..], Vec::new());
    for line in lines {
        let (place, later) = rest.split_at_mut(line.len());
        match line {
            FileLine::Text(text) => place.copy_from_slice(text.as_bytes()),
            FileLine::Record(record) => records.push((*record, place)),
        }
        let (end, later) = later.split_at_mut(1);
        end.fill(b'\n');
        rest = later;
    }
    fetch_into(records)
}

/// Start writeback of the bytes before a block, whenever enough have accumulated; bytes that other threads
/// have not written yet are covered by the next call, or by the sync at the end.
fn start_writeback(file: &File, from: u64, count: u64) {
    let now = (from + count) / BEHIND;
    if now > from / BEHIND {
        advise(file, (now - 1) * BEHIND, BEHIND);
    }
}

/// Ask the system to start writeback of a range of a file. On Linux, advice to drop dirty pages from the
/// cache does that without dropping them; a failure is harmless.
#[cfg(target_os = "linux")]
fn advise(file: &File, from: u64, length: u64) {
    let _ = rustix::fs::fadvise(file, from, std::num::NonZeroU64::new(length), rustix::fs::Advice::DontNeed);
}

#[cfg(not(target_os = "linux"))]
fn advise(_: &File, _: u64, _: u64) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_every_line_once_in_its_order_for_any_number_of_threads() {
        let folder = tempfile::tempdir().unwrap();
        let texts: Vec<String> = (0..4000).map(|at| at.to_string().repeat(at % 90 * (at % 90))).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).chain(["", "x"]).collect();
        let lines: Vec<FileLine<'_>> = texts.iter().map(|text| FileLine::Text(text)).collect();
        for threads in 1..5 {
            let path = folder.path().join(threads.to_string());
            let put = || write_file(&path, &path, &lines, threads, &AtomicBool::new(false), &Watch::new());
            put().unwrap();
            assert!(std::fs::read_to_string(&path).unwrap() == texts.join("\n") + "\n");
            assert!(put().is_err(), "it is there");
        }
        let empty = folder.path().join("empty");
        write_file(&empty, &empty, &[], 2, &AtomicBool::new(false), &Watch::new()).unwrap();
    }

    #[test]
    fn a_block_is_no_longer_than_it_may_be_but_for_one_line() {
        let long = "x".repeat(BLOCK + 1);
        let lines = [&long[..BLOCK - 1], "", &long, "a", "b", &long[..BLOCK - 3]].map(FileLine::Text);
        let sizes: Vec<(u64, usize)> = blocks(&lines).iter().map(|(at, lines)| (*at, lines.len())).collect();
        let block = BLOCK as u64;
        let second = 2 * block + 3;
        assert_eq!(sizes, [(0, 1), (block, 1), (block + 1, 1), (second, 2), (second + 4, 1)]);
    }
}
