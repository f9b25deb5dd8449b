//! Reasons why a stream cannot be read further.

use std::io;

use crate::error::Error;
use crate::input::source::Source;

/// Reason why a stream cannot be read further.
pub enum StreamError {
    /// The reader failed.
    Read(io::Error),
    /// The run was stopped, or failed elsewhere.
    Other(Error),
    /// Sign that a record, or an array of records, spans several lines of a range.
    Beyond,
}

impl StreamError {
    /// Convert to the error of a file that is read as a whole.
    #[must_use]
    pub fn of(self, source: &Source) -> Error {
        match self {
            Self::Read(error) => source.failed("read", error),
            Self::Other(error) => error,
            Self::Beyond => source.failed("read", io::Error::other("a record goes on beyond its range")),
        }
    }
}
