//! Cancellation and progress of a long job.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::error::{Error, Result};

/// State shared by the caller's thread and every worker; the loops of this crate check it once per record or
/// block, and a stream at every read.
#[derive(Debug, Default)]
pub struct Watch {
    stopped: AtomicBool,
    bytes: AtomicU64,
    expected: AtomicU64,
}

impl Watch {
    /// Create a watch without cancellation, at zero progress.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ask every loop to end.
    pub fn stop(&self) {
        self.stopped.store(true, Relaxed);
    }

    /// Return whether cancellation was requested.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    /// Return the number of bytes done so far, unpacked.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Return the total number of bytes; 0 if unknown before they are unpacked.
    #[must_use]
    pub fn expected(&self) -> u64 {
        self.expected.load(Relaxed)
    }

    /// Set the total number of bytes.
    pub fn expect(&self, bytes: u64) {
        self.expected.store(bytes, Relaxed);
    }

    /// Count bytes as done, and check for cancellation.
    ///
    /// # Errors
    /// [`Error::Interrupted`] after a call of [`Watch::stop`].
    pub fn advance(&self, bytes: u64) -> Result<()> {
        self.bytes.fetch_add(bytes, Relaxed);
        if self.is_stopped() { Err(Error::Interrupted) } else { Ok(()) }
    }
}
