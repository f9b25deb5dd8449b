//! Reasons why a file was not collected.

use std::io;

use karl_log::error::Error;

/// Fault of the agent's file, which leaves it to the next collection, or of the archive, which ends this one.
#[derive(Debug)]
pub(super) enum ArchiveFault {
    /// The agent's file cannot be read.
    Read(io::Error),
    /// The archive's file cannot be written.
    Write(io::Error),
    /// Any other that ends the collection.
    Archive(Error),
}

impl From<io::Error> for ArchiveFault {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

impl From<Error> for ArchiveFault {
    fn from(error: Error) -> Self {
        Self::Archive(error)
    }
}

impl ArchiveFault {
    /// Return whether the file may be read a moment later: it changed while it was read.
    pub(super) fn is_transient(&self) -> bool {
        matches!(self, Self::Read(error) if error.kind() == io::ErrorKind::UnexpectedEof)
    }

    /// Return whether the agent removed the file.
    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Self::Read(error) if error.kind() == io::ErrorKind::NotFound)
    }
}
