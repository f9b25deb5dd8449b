//! File of lines, written and synced.
//!
//! Record: k = 10,000 of `benches/record/2026-11-23-linux-x86-64-2-cores.csv`, where each drawn row is read
//! and written once.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::cancel::Watch;
use crate::error::{Error, Result};
use crate::parallel::map;
use crate::second_pass::{RecordAtRest, fetch_into};

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
pub(super) fn bytes(lines: &[FileLine<'_>]) -> u64 {
    lines.iter().map(|line| line.len() as u64 + 1).sum()
}

/// Write a new file, a line end after each line, and sync it. Errors name the `target` of its final path.
///
/// Blocks are gathered by several threads and written to the file one at a time. After a failure, of this
/// file or of those that share `failed`, the rest is not attempted: no output remains.
///
/// # Errors
/// [`Error::Io`] if it exists or cannot be written; as [`fetch`](crate::second_pass::fetch); [`Error::Unwritable`].
pub(super) fn write(
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
        hasten(&file, from, count);
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
fn hasten(file: &File, from: u64, count: u64) {
    let now = (from + count) / BEHIND;
    if now > from / BEHIND {
        send(file, (now - 1) * BEHIND, BEHIND);
    }
}

/// Ask the system to start writeback of a range of a file. On Linux, advice to drop dirty pages from the
/// cache does that without dropping them; a failure is harmless.
#[cfg(target_os = "linux")]
fn send(file: &File, from: u64, length: u64) {
    let _ = rustix::fs::fadvise(file, from, std::num::NonZeroU64::new(length), rustix::fs::Advice::DontNeed);
}

#[cfg(not(target_os = "linux"))]
fn send(_: &File, _: u64, _: u64) {}

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
            let put = || write(&path, &path, &lines, threads, &AtomicBool::new(false), &Watch::new());
            put().unwrap();
            assert!(std::fs::read_to_string(&path).unwrap() == texts.join("\n") + "\n");
            assert!(put().is_err(), "it is there");
        }
        let empty = folder.path().join("empty");
        write(&empty, &empty, &[], 2, &AtomicBool::new(false), &Watch::new()).unwrap();
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
