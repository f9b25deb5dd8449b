//! Lock, sync and error messages of folders.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Number and length of waits for another run that puts its result into the same folder.
const TURNS: (usize, Duration) = (500, Duration::from_millis(10));

/// Lock that orders the runs that put their results into one folder.
pub(super) struct FolderLock {
    _locked: Option<File>,
}

impl FolderLock {
    /// Wait a while for others. A folder that cannot be locked or listed has no lock: each run then relies on
    /// its own checks.
    pub(super) fn take(folder: &Path) -> Self {
        let Ok(file) = File::open(folder) else { return Self { _locked: None } };
        for _ in 0..TURNS.0 {
            match file.try_lock() {
                Err(fs::TryLockError::WouldBlock) => thread::sleep(TURNS.1),
                _ => break,
            }
        }
        Self { _locked: Some(file) }
    }
}

/// Return whether an error means that nothing is there, rather than that this is unknown.
#[must_use]
pub fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Return the mode of a directory that its owner can write to.
pub(super) fn mode(path: &Path) -> Option<u32> {
    let facts = path.symlink_metadata().ok().filter(fs::Metadata::is_dir)?;
    Some(facts.permissions().mode() & 0o7777).filter(|mode| mode & 0o700 == 0o700)
}

/// Sync a folder to disk. One that may not be listed cannot be opened for that: the system writes its names
/// at a time of its choosing.
///
/// # Errors
/// Error of the system.
pub fn sync(folder: &Path) -> io::Result<()> {
    match File::open(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        folder => folder?.sync_all(),
    }
}
