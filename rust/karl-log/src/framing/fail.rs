//! Why the records of a stream cannot be read on.

use std::io;

use crate::error::Error;
use crate::input::source::Source;

pub(crate) enum Fail {
    Read(io::Error),
    Other(Error),
    /// A record, or an array of them, goes on over several lines of a range.
    Beyond,
}

impl Fail {
    /// What it is of a file that is read in one.
    pub(crate) fn of(self, source: &Source) -> Error {
        match self {
            Self::Read(error) => source.failed("read", error),
            Self::Other(error) => error,
            Self::Beyond => source.failed("read", io::Error::other("a record goes on beyond its range")),
        }
    }
}
