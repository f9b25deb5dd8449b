//! One text of a stream.

/// Text of one record, or a replacement for it.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Text with its position; `ended` is false if the stream ended inside it.
    Text {
        /// Offset of the first byte in the unpacked stream.
        offset: u64,
        /// Text, without its line end.
        bytes: &'a [u8],
        /// True if its end was reached.
        ended: bool,
    },
    /// Text longer than the limit; it was skipped.
    TooLong {
        /// Offset of the first byte in the unpacked stream.
        offset: u64,
    },
    /// End of the stream between two elements of an unclosed array.
    Cut {
        /// Offset of the end.
        offset: u64,
    },
}
