//! Lock of an archive, held by one collection at a time and released by the system if its process is killed.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::thread;
use std::time::Duration;

use karl_log::cancel::Watch;
use karl_log::error::{Error, Result};

/// Name of the lock file.
pub(super) const NAME: &str = ".lock";

/// Number and length of waits for another collection: a minute.
const TURNS: (usize, Duration) = (1200, Duration::from_millis(50));

/// Lock that is held until it is dropped.
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Wait for the lock.
    pub(super) fn take(archive: &Path, watch: &Watch) -> Result<Self> {
        let path = archive.join(NAME);
        let io = |error| Error::io("lock", &path, error);
        // The file stays: a lock on a file that was removed would exclude nobody who makes it anew.
        let file = File::options().create(true).append(true).open(&path).map_err(io)?;
        for _ in 0..TURNS.0 {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::WouldBlock) => thread::sleep(TURNS.1),
                Err(TryLockError::Error(error)) => return Err(io(error)),
            }
            watch.advance(0)?;
        }
        let problem = "another collection has held it for a minute; wait for it, or end it".to_owned();
        Err(Error::Taken { path: archive.to_path_buf(), problem })
    }
}
