//! What a caller and a long job tell each other: go on or stop, and how far it has come.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::error::{Error, Result};

/// Shared by the caller's thread and every worker; the loops of this crate look at it once a
/// record or block, and a stream at every read.
#[derive(Debug, Default)]
pub struct Watch {
    stopped: AtomicBool,
    bytes: AtomicU64,
    expected: AtomicU64,
}

impl Watch {
    /// Nobody wants to stop, nothing is done.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks every loop to end.
    pub fn stop(&self) {
        self.stopped.store(true, Relaxed);
    }

    /// Whether somebody wants to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    /// Bytes done so far, unpacked.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// How many bytes there are to do; 0 where nobody can know before they are unpacked.
    #[must_use]
    pub fn expected(&self) -> u64 {
        self.expected.load(Relaxed)
    }

    /// Says how many bytes there are to do.
    pub(crate) fn expect(&self, bytes: u64) {
        self.expected.store(bytes, Relaxed);
    }

    /// Counts bytes as done, and goes on or ends.
    ///
    /// # Errors
    /// [`Error::Interrupted`] once somebody called [`Watch::stop`].
    pub fn advance(&self, bytes: u64) -> Result<()> {
        self.bytes.fetch_add(bytes, Relaxed);
        if self.is_stopped() { Err(Error::Interrupted) } else { Ok(()) }
    }
}
