//! File of an archive: frames, each on the disk before the catalogue has an entry of it.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use karl_core::rng::id128;
use karl_log::atomic_output::sync;
use karl_log::error::{Error, Result};
use karl_log::input::codec::Codec;
use karl_log::input::codec::{undamaged, unpacked};

use super::fault::ArchiveFault;
use super::frame::{self, OpenFrame, WrittenFrame};
use super::source::is_record;

/// File of an archive, open at its end.
pub(super) struct ArchiveMember {
    path: PathBuf,
    file: File,
    /// End of the frames that are whole.
    pub(super) end: u64,
    /// Content of frames taken over from a collection that was killed.
    pub(super) recovered: Option<WrittenFrame>,
}

/// Lines of the whole frames.
pub(super) struct MemberLines {
    /// Their hashes, and whether the agent's file has the line too.
    pub(super) seen: HashMap<u128, bool>,
    /// Whether the last one has no line break.
    pub(super) is_open: bool,
}

impl ArchiveMember {
    /// Open or make a file; take over what a killed collection left behind the bytes that have entries.
    pub(super) fn open(path: PathBuf, committed: u64) -> Result<Self> {
        let io = |error| Error::io("write", &path, error);
        if let Some(folder) = path.parent().filter(|_| committed == 0) {
            make_folders(folder).map_err(io)?;
        }
        let mut options = File::options();
        let file =
            options.create(committed == 0).truncate(false).read(true).write(true).open(&path).map_err(io)?;
        let size = file.metadata().map_err(io)?.len();
        if size < committed {
            return Err(damaged(
                path,
                &format!("it has {size} bytes, wanted the {committed} of the catalogue"),
            ));
        }
        let mut member = Self { path, file, end: committed, recovered: None };
        if size > committed {
            member.recovered = Some(member.recover(size)?);
        }
        Ok(member)
    }

    /// Take over frames without an entry: as they are if they are whole, else the whole records in them.
    fn recover(&mut self, size: u64) -> Result<WrittenFrame> {
        let frames = self.part(self.end, size).and_then(|frames| unpacked(frames, Codec::Zstd));
        match frames.and_then(frame::read) {
            Ok(written) => {
                self.end = size;
                Ok(written)
            }
            Err(_) => self.salvage(),
        }
    }

    /// Replace what follows the whole frames by the whole records in it that are not in these.
    pub(super) fn salvage(&mut self) -> Result<WrittenFrame> {
        let io = |error| Error::io("read", &self.path, error);
        let (mut kept, mut lines) = (Vec::new(), self.lines()?);
        let all = undamaged(&self.path, Codec::Zstd).map_err(io)?;
        each_line(all, |line, _| {
            if is_record(line) && lines.seen.insert(id128(line), false).is_none() {
                kept.extend_from_slice(if lines.is_open { b"\n" } else { b"" });
                kept.extend_from_slice(line);
                kept.push(b'\n');
                lines.is_open = false;
            }
            io::Result::Ok(())
        })
        .map_err(io)?;
        self.cut()?;
        let written = self.append(|frame| if kept.is_empty() { Ok(()) } else { frame.write(&kept) });
        self.accept()?;
        written.map_err(|fault| match fault {
            ArchiveFault::Archive(error) => error,
            ArchiveFault::Read(error) | ArchiveFault::Write(error) => self.failed(error),
        })
    }

    /// Read the lines of the whole frames.
    pub(super) fn lines(&self) -> Result<MemberLines> {
        let mut lines = MemberLines { seen: HashMap::new(), is_open: false };
        if self.end == 0 {
            return Ok(lines);
        }
        let frames = self.part(0, self.end).and_then(|frames| unpacked(frames, Codec::Zstd));
        let read = frames.and_then(|frames| {
            each_line(frames, |line, is_ended| {
                lines.seen.insert(id128(line), false);
                lines.is_open = !is_ended;
                Ok(())
            })
        });
        read.map_err(|error| damaged(self.path.clone(), &error.to_string()))?;
        Ok(lines)
    }

    fn part(&self, from: u64, to: u64) -> io::Result<io::Take<File>> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(from))?;
        Ok(file.take(to - from))
    }

    /// Write a frame behind the others, and sync it. If that fails, nothing of it stays.
    pub(super) fn append(
        &mut self,
        fill: impl FnOnce(&mut OpenFrame<'_>) -> std::result::Result<(), ArchiveFault>,
    ) -> std::result::Result<WrittenFrame, ArchiveFault> {
        let written = self.frame(fill);
        if written.is_err() {
            // Best effort: the next collection takes over what stays.
            let _ = self.cut();
        }
        written.map_err(|fault| match fault {
            ArchiveFault::Write(error) => self.failed(error).into(),
            fault => fault,
        })
    }

    fn frame(
        &self,
        fill: impl FnOnce(&mut OpenFrame<'_>) -> std::result::Result<(), ArchiveFault>,
    ) -> std::result::Result<WrittenFrame, ArchiveFault> {
        (&self.file).seek(SeekFrom::Start(self.end)).map_err(ArchiveFault::Write)?;
        let mut frame = OpenFrame::new(&self.file);
        fill(&mut frame)?;
        let written = frame.end()?;
        self.file.sync_data().map_err(ArchiveFault::Write)?;
        Ok(written)
    }

    /// Count the frame that was written as whole.
    pub(super) fn accept(&mut self) -> Result<()> {
        self.end = self.file.metadata().map_err(|error| self.failed(error))?.len();
        Ok(())
    }

    /// Remove what follows the whole frames.
    fn cut(&self) -> Result<()> {
        self.file.set_len(self.end).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::io("write", &self.path, error)
    }
}

fn damaged(path: PathBuf, problem: &str) -> Error {
    let problem = format!("{problem}; restore it from a backup, or collect into another folder");
    Error::Layout { path, problem }
}

/// Make folders, and sync the parent of each: a file must not be lost with its folder after its entry is written.
fn make_folders(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent() {
        make_folders(parent)?;
        match fs::create_dir(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => sync(parent)?,
        }
    }
    Ok(())
}

/// Call a function with each line that is not blank, and whether it has a line break.
pub(super) fn each_line<E: From<io::Error>>(
    stream: impl Read,
    mut take: impl FnMut(&[u8], bool) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let mut reader = BufReader::with_capacity(1 << 18, stream);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let text = line.trim_ascii();
        if !text.is_empty() {
            take(text, line.ends_with(b"\n"))?;
        }
        line.clear();
    }
    Ok(())
}
