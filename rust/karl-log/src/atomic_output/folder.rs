//! Folders: locked for a moment, synced, and what an error says of them.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// How often, and how long each time, a run waits for another that puts its result into the same folder.
const TURNS: (usize, Duration) = (500, Duration::from_millis(10));

/// The turn of a run among those that put their results into one folder.
pub(super) struct FolderLock {
    _locked: Option<File>,
}

impl FolderLock {
    /// Waits a while for others. A folder that cannot be locked or listed has no turns: each run looks for itself then.
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

/// Whether an error says that nothing is there, and not that nobody can tell.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The mode of a directory that its owner can write to.
pub(super) fn mode(path: &Path) -> Option<u32> {
    let facts = path.symlink_metadata().ok().filter(fs::Metadata::is_dir)?;
    Some(facts.permissions().mode() & 0o7777).filter(|mode| mode & 0o700 == 0o700)
}

/// Puts a folder's names on the disk. One that may not be listed cannot be opened for it: its names are then written when
/// the system writes them.
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    match File::open(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        folder => folder?.sync_all(),
    }
}
