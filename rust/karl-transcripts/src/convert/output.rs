//! File of trajectories, written completely or not at all, with its lines in order for any number of threads.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use karl_log::atomic_output::{OutputKind, OutputTarget};
use karl_log::error::{Error, Result, without_path};
use karl_redact::Protection;
use karl_redact::secrets::SecretCounts;
use tempfile::NamedTempFile;

use super::record::MARK;

/// Maximum bytes of lines that wait for earlier ones.
const WAITING: usize = 64 << 20;

/// Bytes per write.
const BLOCK: usize = 1 << 18;

/// Look at the place of a file of trajectories before any work is done.
///
/// # Errors
/// As [`OutputTarget::look`]; [`Error::Io`] if its folder does not exist.
pub fn target(path: &Path, force: bool) -> Result<OutputTarget> {
    target_of(path, &KIND, force)
}

/// Look at the place of a file of some kind, as [`target`] does.
///
/// # Errors
/// As [`target`].
pub(crate) fn target_of(path: &Path, kind: &'static OutputKind, force: bool) -> Result<OutputTarget> {
    let target = OutputTarget::look(path, kind, force)?;
    // Its contents are not listed: a folder may be writable without being readable.
    let inside = fs::metadata(target.folder().join("."));
    inside.map(drop).map_err(|error| Error::io("write into the folder", folder(path), error))?;
    Ok(target)
}

/// File of trajectories, also an empty one.
const KIND: OutputKind =
    OutputKind { names: None, is_ours, edited: |_| Ok(None), foreign: "is not a file of trajectories" };

/// Return whether a file begins like an output of this program.
fn is_ours(path: &Path) -> Result<bool> {
    let io = |error| Error::io("read", path, error);
    let mut begin = vec![0; MARK.len()];
    let mut file = BufReader::new(File::open(path).map_err(io)?);
    let enough = file.fill_buf().map_err(io)?.len() >= MARK.len();
    if file.buffer().is_empty() {
        return Ok(true);
    }
    if enough {
        file.read_exact(&mut begin).map_err(io)?;
    }
    Ok(enough && begin == MARK)
}

/// Hidden file beside the target, until it is complete.
pub(crate) struct Output<'t> {
    target: &'t OutputTarget,
    protection: Protection,
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

impl<'t> Output<'t> {
    /// Open the hidden file.
    ///
    /// # Errors
    /// As [`OutputTarget::check`]; [`Error::Io`].
    pub(crate) fn create(target: &'t OutputTarget, protection: Protection) -> Result<Self> {
        target.check()?;
        let file = BufWriter::with_capacity(BLOCK, target.hidden_file()?);
        let state = State { file, next: 0, waiting: BTreeMap::new(), held: 0, written: 0, failed: false };
        Ok(Self { target, protection, state: Mutex::new(state), moved: Condvar::new() })
    }

    /// Take the lines of one work unit, replace what is protected, and wait if too many wait for earlier ones.
    /// Return the number of replaced secrets.
    ///
    /// # Errors
    /// [`Error::Io`] if they cannot be written; [`Error::Interrupted`] if another thread has failed.
    pub(crate) fn put(&self, at: usize, lines: Vec<u8>) -> Result<SecretCounts> {
        let mut secrets = SecretCounts::new();
        let lines = self.protected(lines, &mut secrets);
        self.put_protected(at, lines).map(|()| secrets)
    }

    /// Replace in lines what is protected; add the number of replaced secrets.
    pub(crate) fn protected(&self, lines: Vec<u8>, secrets: &mut SecretCounts) -> Vec<u8> {
        self.protection.applied(lines, secrets)
    }

    /// Take lines as [`put`](Self::put) does; what is protected was replaced before.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub(crate) fn put_protected(&self, at: usize, lines: Vec<u8>) -> Result<()> {
        let mut state = self.lock();
        while at != state.next && state.held + lines.len() > WAITING && !state.failed {
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.failed {
            return Err(Error::Interrupted);
        }
        state.held += lines.len();
        state.waiting.insert(at, lines);
        let wrote =
            state.drain().map_err(|error| Error::io("write", self.target.shown(), without_path(error)));
        self.moved.notify_all();
        wrote
    }

    /// Return whether secrets are replaced.
    pub(crate) fn redacts(&self) -> bool {
        self.protection.redact
    }

    /// Wake the waiting threads: the lines they wait for never come.
    pub(crate) fn fail(&self) {
        self.lock().failed = true;
        self.moved.notify_all();
    }

    /// Sync the file and move it to its place; return its length in bytes.
    ///
    /// # Errors
    /// As [`OutputTarget::put_file`]. The target is then unchanged.
    pub(crate) fn finish(self) -> Result<u64> {
        let io = |error| Error::io("write", self.target.shown(), without_path(error));
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let hidden = state.file.into_inner().map_err(io::IntoInnerError::into_error).map_err(io)?;
        hidden.as_file().sync_all().map_err(io)?;
        let path = hidden.into_temp_path().keep().map_err(|error| io(error.error))?;
        self.target.put_file(path)?;
        Ok(state.written)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
