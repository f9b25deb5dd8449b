//! Why a scan stops.

/// Why a text is not one JSON object as far as the scan looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not begin with `{`.
    NotAnObject,
    /// It ends inside the object.
    Truncated,
    /// The byte at this position cannot stand there.
    Malformed(usize),
}

pub(super) type ScanResult<T> = std::result::Result<T, Fault>;
