//! One file of trajectories that appears whole or not at all, with its lines in order however many threads make them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tempfile::NamedTempFile;

use super::record::MARK;
use crate::error::{Error, Result, without_path};

/// How many bytes of lines wait for those before them.
const WAITING: usize = 64 << 20;

/// How much is gathered for one call.
const BLOCK: usize = 1 << 18;

/// How much of an output's name the hidden file's has, in characters.
const NAME_KEPT: usize = 50;

/// Refuses a file that may not be written: before any work is done, and again when it is.
///
/// # Errors
/// [`Error::Exists`] if trajectories are there and `force` is off, [`Error::Foreign`] if something else is;
/// [`Error::Target`] for a path that ends in no name; [`Error::Io`] where there is no folder for it.
pub(super) fn check(target: &Path, force: bool) -> Result<()> {
    if target.file_name().is_none() {
        return Err(Error::Target { path: target.to_path_buf() });
    }
    match fs::symlink_metadata(target) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            let folder = folder(target);
            // What it holds is not asked for: one may write into a folder that one may not list.
            let inside = fs::metadata(folder.join("."));
            inside.map(drop).map_err(|error| Error::io("write into the folder", folder, error))
        }
        Err(error) => Err(Error::io("look at", target, error)),
        Ok(facts) if !(facts.is_file() && (facts.len() == 0 || is_ours(target)?)) => {
            Err(Error::Foreign { path: target.to_path_buf(), problem: "is no file of trajectories" })
        }
        Ok(_) if !force => Err(Error::Exists { path: target.to_path_buf() }),
        Ok(_) => Ok(()),
    }
}

/// Whether a file begins as one of ours.
fn is_ours(path: &Path) -> Result<bool> {
    let io = |error| Error::io("read", path, error);
    let mut begin = vec![0; MARK.len()];
    let mut file = BufReader::new(File::open(path).map_err(io)?);
    let enough = file.fill_buf().map_err(io)?.len() >= MARK.len();
    if enough {
        file.read_exact(&mut begin).map_err(io)?;
    }
    Ok(enough && begin == MARK)
}

/// A hidden file beside the target, until it is whole.
pub(super) struct Output {
    target: PathBuf,
    force: bool,
    state: Mutex<State>,
    moved: Condvar,
}

struct State {
    file: BufWriter<NamedTempFile>,
    next: usize,
    waiting: BTreeMap<usize, Vec<u8>>,
    held: usize,
    written: u64,
    failed: bool,
}

impl Output {
    /// Opens the hidden file.
    ///
    /// # Errors
    /// As [`check`]; [`Error::Io`].
    pub(super) fn create(target: &Path, force: bool) -> Result<Self> {
        check(target, force)?;
        let name = target.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let name: String = name.chars().take(NAME_KEPT).collect();
        let hidden = tempfile::Builder::new()
            .prefix(&format!(".{name}.karl-fast-"))
            .permissions(fs::Permissions::from_mode(0o666))
            .tempfile_in(folder(target))
            .map_err(|error| Error::io("create a file beside", target, without_path(error)))?;
        let file = BufWriter::with_capacity(BLOCK, hidden);
        let state = State { file, next: 0, waiting: BTreeMap::new(), held: 0, written: 0, failed: false };
        Ok(Self { target: target.to_path_buf(), force, state: Mutex::new(state), moved: Condvar::new() })
    }

    /// Takes the lines of one unit of work, and waits where too many wait for those before them.
    ///
    /// # Errors
    /// [`Error::Io`] if they cannot be written; [`Error::Interrupted`] where another thread has failed.
    pub(super) fn put(&self, at: usize, lines: Vec<u8>) -> Result<()> {
        let mut state = self.lock();
        while at != state.next && state.held + lines.len() > WAITING && !state.failed {
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.failed {
            return Err(Error::Interrupted);
        }
        state.held += lines.len();
        state.waiting.insert(at, lines);
        let wrote = state.drain().map_err(|error| Error::io("write", &self.target, without_path(error)));
        self.moved.notify_all();
        wrote
    }

    /// Wakes those that wait: what they wait for never comes.
    pub(super) fn fail(&self) {
        self.lock().failed = true;
        self.moved.notify_all();
    }

    /// Puts the file in its place, on the disk; its length in bytes.
    ///
    /// # Errors
    /// As [`check`]; [`Error::Io`]. The target is then what it was.
    pub(super) fn finish(self) -> Result<u64> {
        let io = |error| Error::io("write", &self.target, without_path(error));
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let written = state.written;
        let hidden = state.file.into_inner().map_err(io::IntoInnerError::into_error).map_err(io)?;
        hidden.as_file().sync_all().map_err(io)?;
        check(&self.target, self.force)?;
        let placed =
            if self.force { hidden.persist(&self.target) } else { hidden.persist_noclobber(&self.target) };
        placed.map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => Error::Exists { path: self.target.clone() },
            _ => Error::io("rename to", &self.target, error.error),
        })?;
        sync(folder(&self.target)).map_err(|error| Error::io("sync the folder of", &self.target, error))?;
        Ok(written)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts a folder's names on the disk. One that may not be listed cannot be opened for it: its names are then written when
/// the system writes them.
fn sync(folder: &Path) -> io::Result<()> {
    match File::open(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        folder => folder?.sync_all(),
    }
}

fn folder(target: &Path) -> &Path {
    target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl State {
    fn drain(&mut self) -> io::Result<()> {
        while let Some(lines) = self.waiting.remove(&self.next) {
            self.file.write_all(&lines)?;
            self.written += lines.len() as u64;
            self.held -= lines.len();
            self.next += 1;
        }
        Ok(())
    }
}
