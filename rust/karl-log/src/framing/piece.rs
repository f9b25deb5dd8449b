//! One text of a stream.

/// One record's text, or what stands in its place.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A text with its place; `ended` is false where the stream ended inside it.
    Text {
        /// First byte, counted in the unpacked stream.
        offset: u64,
        /// The text, without its line end.
        bytes: &'a [u8],
        /// Whether its end was seen.
        ended: bool,
    },
    /// A text longer than the limit; it was passed over.
    TooLong {
        /// First byte, counted in the unpacked stream.
        offset: u64,
    },
    /// The stream ended between two elements of an array that was not closed.
    Cut {
        /// Where it ended.
        offset: u64,
    },
}
