//! Reasons for which a scan stops.

/// Reason why a text is not one JSON object, as far as the scan looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanFault {
    /// The text does not begin with `{`.
    NotAnObject,
    /// The text ends inside the object.
    Truncated,
    /// The byte at this position is not allowed there.
    Malformed(usize),
}

pub(super) type ScanResult<T> = std::result::Result<T, ScanFault>;
