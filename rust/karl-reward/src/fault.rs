//! The reason why a record has no reward.

/// The class of what Python raises on a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `AttributeError`: a value that is not an object where one has to be, or a command that is not text.
    Attribute,
    /// `TypeError`: a value that is not a number, list or name where one has to be.
    Type,
    /// `ZeroDivisionError`.
    ZeroDivision,
    /// `OverflowError`: a whole number beyond every float.
    Overflow,
    /// `ValueError`: the text is not JSON.
    Syntax,
}
