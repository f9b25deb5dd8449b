//! Errors of arguments: one small enum, so that every caller can name each case.
//!
//! The enum is exhaustive on purpose: a new variant must not compile until each binding handles it.

use std::fmt;

/// The result of every fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An argument that was refused. Each variant holds where the fault is and the value found there.
///
/// Two errors compare equal field by field, so an error that holds a NaN equals nothing, itself included.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// A number that has to be finite is NaN or infinite.
    NotFinite {
        /// The argument, or the quantity computed from it.
        what: &'static str,
        /// The row, or the place in the argument; 0 for a single number.
        index: usize,
        /// The number found.
        value: f64,
    },
    /// A single number that has to be finite is NaN or infinite.
    Number {
        /// The argument.
        what: &'static str,
        /// The number found.
        value: f64,
    },
    /// An argument has the wrong number of elements.
    Length {
        /// The argument.
        what: &'static str,
        /// Its length.
        got: usize,
        /// The length of what it has to match.
        wanted: usize,
    },
    /// A group code is neither below the number of groups nor [`Groups::NONE`](crate::group::Groups::NONE).
    Code {
        /// The row.
        index: usize,
        /// Its code.
        code: u32,
        /// The number of groups.
        count: usize,
    },
    /// A row that the columns do not have.
    Row {
        /// Its position in the argument.
        index: usize,
        /// The row.
        row: i64,
        /// Number of rows.
        count: usize,
    },
    /// A share lies outside (0, 1].
    Fraction {
        /// The argument.
        what: &'static str,
        /// The number found.
        value: f64,
    },
    /// A number that has to be zero or more is negative or NaN.
    Negative {
        /// The argument.
        what: &'static str,
        /// The number found.
        value: f64,
    },
    /// A weight that is negative, NaN or infinite.
    Weight {
        /// The row.
        index: usize,
        /// The weight found.
        value: f64,
    },
    /// Shares that have to add up to one do not.
    Total {
        /// The argument.
        what: &'static str,
        /// Their sum.
        got: f64,
    },
    /// A number that has to be above zero is not.
    Positive {
        /// The argument.
        what: &'static str,
        /// The number found.
        value: f64,
    },
    /// A number is not above another that it has to be above.
    Above {
        /// The argument.
        what: &'static str,
        /// The number found.
        value: f64,
        /// The bound.
        low: f64,
    },
    /// A number lies outside the closed range that a formula takes.
    Range {
        /// The argument.
        what: &'static str,
        /// The number found.
        value: f64,
        /// The least it may be.
        low: f64,
        /// The most it may be.
        high: f64,
    },
    /// A number of a column lies outside the closed range that a formula takes.
    Outside {
        /// The argument.
        what: &'static str,
        /// The place in it.
        index: usize,
        /// The number found.
        value: f64,
        /// The least it may be; minus infinity for no least.
        low: f64,
        /// The most it may be; infinity for no most.
        high: f64,
    },
    /// A count is larger than what it counts.
    Most {
        /// The argument.
        what: &'static str,
        /// The count found.
        got: usize,
        /// The most it may be.
        most: usize,
    },
    /// Offsets that do not begin at 0, that fall, or that do not end where the values do.
    Offset {
        /// The argument.
        what: &'static str,
        /// The place in the offsets.
        index: usize,
        /// The offset found there.
        got: i64,
        /// The least it may be.
        low: i64,
        /// The most it may be.
        high: i64,
    },
    /// Bytes that no state of this kind and version was written as.
    Bytes {
        /// The kind of state.
        what: &'static str,
        /// The defect of the bytes.
        problem: &'static str,
    },
    /// Two states that were not made with the same settings, so that their union means nothing.
    Merge {
        /// The kind of state.
        what: &'static str,
        /// The setting in which they differ.
        differs: &'static str,
    },
    /// A sampler draws with replacement where one without is wanted, or the other way round.
    Replacement {
        /// The sampler.
        what: &'static str,
        /// True if it draws with replacement.
        replaces: bool,
    },
    /// A score is taken within groups, and no row has a group.
    NeedsGroups {
        /// The score.
        what: &'static str,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NotFinite { what, index, value } => {
                write!(f, "{what} at index {index} is {value}, wanted a finite number")
            }
            Self::Number { what, value } => write!(f, "{what} is {value}, wanted a finite number"),
            Self::Length { what, got, wanted } => {
                write!(f, "{what} has length {got}, wanted {wanted}")
            }
            Self::Code { index, code, count } => {
                write!(f, "group code at index {index} is {code}, wanted less than {count} or NONE")
            }
            Self::Row { index, row, count } => {
                write!(f, "row at index {index} is {row}, wanted one of 0 to {count} exclusive")
            }
            Self::Fraction { what, value } => {
                write!(f, "{what} is {value}, wanted a number in (0, 1]")
            }
            Self::Negative { what, value } => {
                write!(f, "{what} is {value}, wanted zero or more")
            }
            Self::Weight { index, value } => {
                write!(f, "weight at index {index} is {value}, wanted a finite number, zero or more")
            }
            Self::Total { what, got } => write!(f, "{what} add up to {got}, wanted 1"),
            Self::Positive { what, value } => write!(f, "{what} is {value}, wanted a number above zero"),
            Self::Above { what, value, low } => {
                write!(f, "{what} is {value}, wanted a number above {low}")
            }
            Self::Range { what, value, low, high: f64::MAX } => {
                write!(f, "{what} is {value}, wanted a finite number, {low} or more")
            }
            Self::Range { what, value, low, high } => {
                write!(f, "{what} is {value}, wanted a number in [{low}, {high}]")
            }
            Self::Outside { what, index, value, low, high } => {
                write!(f, "{what} at index {index} is {value}, wanted ")?;
                match (low.is_finite(), high.is_finite()) {
                    (true, true) => write!(f, "a number in [{low}, {high}]"),
                    (true, false) => write!(f, "{low} or more"),
                    (false, _) => write!(f, "at most {high}"),
                }
            }
            Self::Most { what, got, most } => write!(f, "{what} is {got}, wanted at most {most}"),
            Self::Offset { what, index, got, low, high } => {
                let wanted = if low == high { format!("{low}") } else { format!("{low} to {high}") };
                write!(f, "{what} at index {index} is {got}, wanted {wanted}")
            }
            Self::Bytes { what, problem } => write!(f, "bytes are not a {what}: {problem}"),
            Self::Merge { what, differs } => {
                write!(f, "{what} cannot be merged with one of another {differs}")
            }
            Self::Replacement { what, replaces } => {
                let (got, wanted) = if replaces { ("with", "without") } else { ("without", "with") };
                write!(f, "sampler {what} draws {got} replacement, wanted one {wanted}")
            }
            Self::NeedsGroups { what } => {
                write!(f, "score {what} is taken within groups, but no row has a group")
            }
        }
    }
}

impl std::error::Error for Error {}
