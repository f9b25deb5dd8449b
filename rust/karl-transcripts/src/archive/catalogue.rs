//! Catalogue of an archive: one JSON line a frame, in the order of collection, and the lock that keeps a second
//! collection away.

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use karl_log::atomic_output::sync;
use karl_log::cancel::Watch;
use karl_log::error::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::git::Snapshot;

/// Name of the catalogue. Without the suffix of a log, so that `convert` passes it by.
pub const CATALOGUE: &str = "catalogue";

/// One frame of an archive, and the state of the agent's file when it was written. Hashes are XXH3-128 in
/// hexadecimal.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CatalogueEntry {
    /// Agent that wrote the file.
    pub agent: String,
    /// The agent's file.
    pub path: String,
    /// Its size.
    pub size: u64,
    /// Its time of modification in nanoseconds since 1970; none if it is not a plain file of lines.
    pub modified: Option<i64>,
    /// Hash of its first 4,096 bytes, or of all of it if it is not a file of lines.
    pub head: String,
    /// Hash of the 4,096 bytes before `complete`.
    pub tail: String,
    /// Offset up to which it is in the archive; none if it changed while it was read.
    pub complete: Option<u64>,
    /// Whether the archive has lines that the file no longer has: what is added to it may be there already.
    pub is_mixed: bool,
    /// Hash of its first line.
    pub first_line: String,
    /// File of the archive, relative to its folder.
    pub url: String,
    /// First byte of the frame in that file.
    pub offset: u64,
    /// Bytes of the frame.
    pub length: u64,
    /// Bytes of the frame, unpacked.
    pub bytes: u64,
    /// Lines of the frame.
    pub lines: u64,
    /// Hash of the unpacked bytes.
    pub fingerprint: String,
    /// Session.
    pub id: Option<String>,
    /// Hash of the session's id.
    pub id128: Option<String>,
    /// Session that started this one, if it is a sub-agent's.
    pub parent: Option<String>,
    /// Group, which a transcript does not have.
    pub group: Option<String>,
    /// Reward, which a transcript does not have.
    pub reward: Option<f64>,
    /// Domain, which a transcript does not have.
    pub domain: Option<String>,
    /// Working directory of the session.
    pub directory: Option<String>,
    /// Pull request that the session made.
    pub pull_request: Option<String>,
    /// State of the repository of the working directory.
    #[serde(flatten)]
    pub repository: Snapshot,
}

/// File of an archive: the end of its frames, and the agent's file that grew it last.
#[derive(Default)]
struct StoredFile {
    end: u64,
    path: String,
}

/// Catalogue, open for more entries.
pub struct Catalogue {
    path: PathBuf,
    file: File,
    size: u64,
    latest: HashMap<String, CatalogueEntry>,
    members: HashMap<String, StoredFile>,
    streams: HashMap<(String, String), String>,
    pending: Vec<CatalogueEntry>,
}

impl Catalogue {
    /// Read the catalogue of an archive, or begin one in an empty folder. Not while a collection runs: the end of a
    /// line that it writes is cut.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Foreign`] for a folder with other files; [`Error::Layout`] for a damaged line.
    pub fn open(archive: &Path) -> Result<Self> {
        let path = archive.join(CATALOGUE);
        let io = |error| Error::io("open", &path, error);
        if !path.exists() {
            refuse_others(archive)?;
        }
        let file = File::options().create(true).append(true).read(true).open(&path).map_err(io)?;
        sync(archive).map_err(io)?;
        let (latest, members, streams) = Default::default();
        let mut catalogue = Self { path, file, size: 0, latest, members, streams, pending: Vec::new() };
        catalogue.read()?;
        Ok(catalogue)
    }

    fn read(&mut self) -> Result<()> {
        let mut reader = BufReader::new(self.file.try_clone().map_err(|error| self.failed(error))?);
        let (mut line, mut number) = (Vec::new(), 0);
        loop {
            line.clear();
            reader.read_until(b'\n', &mut line).map_err(|error| self.failed(error))?;
            number += 1;
            // A line without its end was cut short: its frame is taken over by the next collection.
            if !line.ends_with(b"\n") {
                return self.cut();
            }
            let entry = serde_json::from_slice(&line).map_err(|error| self.damaged(number, &error))?;
            self.size += line.len() as u64;
            self.add(entry);
        }
    }

    /// Cut what follows the last whole line.
    fn cut(&mut self) -> Result<()> {
        self.file.set_len(self.size).map_err(|error| self.failed(error))
    }

    fn add(&mut self, entry: CatalogueEntry) {
        let stored = self.members.entry(entry.url.clone()).or_default();
        stored.end = stored.end.max(entry.offset + entry.length);
        stored.path.clone_from(&entry.path);
        if !entry.first_line.is_empty() {
            self.streams.insert((file_name(&entry.path), entry.first_line.clone()), entry.url.clone());
        }
        self.latest.insert(entry.path.clone(), entry);
    }

    /// Return the last entry of an agent's file.
    #[must_use]
    pub fn latest(&self, path: &str) -> Option<&CatalogueEntry> {
        self.latest.get(path)
    }

    /// Return the last entry of each of the agents' files.
    pub fn files(&self) -> impl Iterator<Item = &CatalogueEntry> {
        self.latest.values()
    }

    /// Return the number of bytes of a file of the archive that have entries; none if there is no such file.
    #[must_use]
    pub fn committed(&self, url: &str) -> Option<u64> {
        self.members.get(url).map(|stored| stored.end)
    }

    /// Return the last entry of a file of the archive.
    pub(super) fn of_url(&self, url: &str) -> Option<&CatalogueEntry> {
        self.latest(&self.members.get(url)?.path)
    }

    /// Return the file of the archive with the lines of an agent's file of the same name and first line: the same
    /// file, moved or packed.
    #[must_use]
    pub fn stream(&self, path: &str, first_line: &str) -> Option<&str> {
        self.streams.get(&(file_name(path), first_line.to_owned())).map(String::as_str)
    }

    /// Add an entry, to be written by [`Catalogue::write`].
    pub(super) fn push(&mut self, entry: CatalogueEntry) {
        self.add(entry.clone());
        self.pending.push(entry);
    }

    /// Return the number of entries that are not written yet.
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Write the entries that are not written yet, all or none.
    pub(super) fn write(&mut self) -> Result<()> {
        let mut lines = Vec::new();
        for entry in &self.pending {
            serde_json::to_writer(&mut lines, entry).map_err(|error| self.failed(error.into()))?;
            lines.push(b'\n');
        }
        let mut file = &self.file;
        let wrote = file.write_all(&lines).and_then(|()| file.sync_data());
        if let Err(error) = wrote {
            // Best effort: the next collection cuts a torn line too.
            let _ = self.cut();
            return Err(Error::io("write", &self.path, error));
        }
        self.size += lines.len() as u64;
        self.pending.clear();
        Ok(())
    }

    fn failed(&self, error: std::io::Error) -> Error {
        Error::io("read", &self.path, error)
    }

    fn damaged(&self, line: u64, error: &serde_json::Error) -> Error {
        let problem = format!(
            "line {line} is damaged ({error}), wanted one JSON object a line; the archive is left as it is: restore \
             the file from a backup, or collect into another folder"
        );
        Error::Layout { path: self.path.clone(), problem }
    }
}

/// Return the name of a file without its folder and the suffix of its packing.
fn file_name(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(".zst").or_else(|| name.strip_suffix(".gz")).unwrap_or(name).to_owned()
}

/// Reject a folder that holds anything: without its catalogue an archive could be overwritten.
fn refuse_others(archive: &Path) -> Result<()> {
    let io = |error| Error::io("list", archive, error);
    for name in fs::read_dir(archive).map_err(io)? {
        let name = name.map_err(io)?.file_name();
        if name != LOCK_NAME {
            let problem = format!("holds {}, but no catalogue of an archive", name.display());
            return Err(Error::Foreign { path: archive.to_path_buf(), problem });
        }
    }
    Ok(())
}

/// Name of the lock file.
pub(super) const LOCK_NAME: &str = ".lock";

/// Number and length of waits for another collection: a minute.
const LOCK_WAITS: (usize, Duration) = (1200, Duration::from_millis(50));

/// Lock of an archive, held until it is dropped, and released by the system if its process is killed.
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Wait for the lock.
    pub(super) fn acquire(archive: &Path, watch: &Watch) -> Result<Self> {
        let path = archive.join(LOCK_NAME);
        let io = |error| Error::io("lock", &path, error);
        // The file stays: a lock on a file that was removed would exclude nobody who makes it anew.
        let file = File::options().create(true).append(true).open(&path).map_err(io)?;
        for _ in 0..LOCK_WAITS.0 {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::WouldBlock) => thread::sleep(LOCK_WAITS.1),
                Err(TryLockError::Error(error)) => return Err(io(error)),
            }
            watch.advance(0)?;
        }
        let problem = "another collection has held it for a minute; wait for it, or end it".to_owned();
        Err(Error::Taken { path: archive.to_path_buf(), problem })
    }
}
