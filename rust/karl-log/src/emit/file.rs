//! One file of lines, written and synced.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::error::{Error, Result};
use crate::watch::Watch;

/// What is gathered for one call: it stays in the cache on its way.
const BLOCK: usize = 1 << 18;

/// How far the disk may be behind: what is written is sent to it meanwhile, so that the sync at the end is short.
const BEHIND: u64 = 8 << 20;

/// Writes a new file, a line end after each line, and waits until it is on the disk.
///
/// # Errors
/// [`Error::Io`] if it is there or cannot be written; [`Error::Interrupted`].
pub(super) fn write(path: &Path, lines: &[&str], watch: &Watch) -> Result<()> {
    let io = |error| Error::io("write", path, error);
    let file = File::create_new(path).map_err(io)?;
    let mut out = BufWriter::with_capacity(BLOCK, Hastened { file, written: 0, sent: 0 });
    for line in lines {
        out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n")).map_err(io)?;
        watch.advance(line.len() as u64)?;
    }
    let done = out.into_inner().map_err(io::IntoInnerError::into_error).map_err(io)?;
    done.file.sync_all().map_err(io)
}

/// A file whose bytes are on their way to the disk soon after they were written.
struct Hastened {
    file: File,
    written: u64,
    sent: u64,
}

impl Write for Hastened {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.written += count as u64;
        if self.written - self.sent >= BEHIND {
            send(&self.file, self.sent, self.written - self.sent);
            self.sent = self.written;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Has the system begin to write a range of a file. Advice to forget bytes that are not on the disk yet does that on
/// Linux, and they are not forgotten; that it may fail changes nothing.
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
    fn a_file_that_is_sent_ahead_holds_every_line_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        let lines: Vec<String> = (0..40).map(|at| at.to_string().repeat(300_000)).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        write(&path, &lines, &Watch::new()).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap() == lines.join("\n") + "\n");
        assert!(write(&path, &lines, &Watch::new()).is_err(), "it is there");
    }
}
