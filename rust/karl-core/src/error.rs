//! Errors of arguments: one small enum, so that every caller can name each case.
//!
//! The enum is exhaustive on purpose: a new variant must not compile until each binding handles it.

/// The result of every fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An argument that was refused. Each variant holds where the fault is and the value found there.
///
/// Two errors compare equal field by field, so an error that holds a NaN equals nothing, itself included.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A number that has to be finite is NaN or infinite.
    #[error("{what} at index {index} is {value}, wanted a finite number")]
    NotFinite {
        /// The argument, or the quantity computed from it.
        what: &'static str,
        /// The row, or the place in the argument; 0 for a single number.
        index: usize,
        /// The number found.
        value: f64,
    },
    /// A single number that has to be finite is NaN or infinite.
    #[error("{what} is {value}, wanted a finite number")]
    Number {
        /// The argument.
        what: &'static str,
        /// The number found.
        value: f64,
    },
    /// An argument has the wrong number of elements.
    #[error("{what} has length {got}, wanted {wanted}")]
    Length {
        /// The argument.
        what: &'static str,
        /// Its length.
        got: usize,
        /// The length of what it has to match.
        wanted: usize,
    },
    /// A group code is neither below the number of groups nor [`Groups::NONE`](crate::group::Groups::NONE).
    #[error("group code at index {index} is {code}, wanted less than {count} or NONE")]
    Code {
        /// The row.
        index: usize,
        /// Its code.
        code: u32,
        /// The number of groups.
        count: usize,
    },
    /// A row that the columns do not have.
    #[error("row at index {index} is {row}, wanted one of 0 to {count} exclusive")]
    Row {
        /// Its position in the argument.
        index: usize,
        /// The row.
        row: i64,
        /// Number of rows.
        count: usize,
    },
    /// Following the parents of a row leads back to it.
    #[error("{what} at index {row} lead back to it in a circle, wanted a way to a root")]
    Circle {
        /// The argument.
        what: &'static str,
        /// The row.
        row: usize,
    },
    /// A share lies outside (0, 1].
    #[error("{what} is {value}, wanted a number in (0, 1]")]
    Fraction {
        /// The argument.
        what: &'static str,
        /// The number found.
        value: f64,
    },
    /// A number that has to be zero or more is negative or NaN.
    #[error("{what} is {value}, wanted zero or more")]
    Negative {
        /// The argument.
        what: &'static str,
        /// The number found.
        value: f64,
    },
    /// A weight that is negative, NaN or infinite.
    #[error("weight at index {index} is {value}, wanted a finite number, zero or more")]
    Weight {
        /// The row.
        index: usize,
        /// The weight found.
        value: f64,
    },
    /// Shares that have to add up to one do not.
    #[error("{what} add up to {got}, wanted 1")]
    Total {
        /// The argument.
        what: &'static str,
        /// Their sum.
        got: f64,
    },
    /// A number that has to be above zero is not.
    #[error("{what} is {value}, wanted a number above zero")]
    Positive {
        /// The argument.
        what: &'static str,
        /// The number found.
        value: f64,
    },
    /// A number is not above another that it has to be above.
    #[error("{what} is {value}, wanted a number above {low}")]
    Above {
        /// The argument.
        what: &'static str,
        /// The number found.
        value: f64,
        /// The bound.
        low: f64,
    },
    /// A number lies outside the closed range that a formula takes.
    #[error("{what} is {value}, wanted {}", range(*low, *high))]
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
    #[error("{what} at index {index} is {value}, wanted {}", bounds(*low, *high))]
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
    #[error("{what} is {got}, wanted at most {most}")]
    Most {
        /// The argument.
        what: &'static str,
        /// The count found.
        got: usize,
        /// The most it may be.
        most: usize,
    },
    /// Offsets that do not begin at 0, that fall, or that do not end where the values do.
    #[error("{what} at index {index} is {got}, wanted {}", offsets(*low, *high))]
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
    #[error("bytes are not a {what}: {problem}")]
    Bytes {
        /// The kind of state.
        what: &'static str,
        /// The defect of the bytes.
        problem: &'static str,
    },
    /// Two states that were not made with the same settings, so that their union means nothing.
    #[error("{what} cannot be merged with one of another {differs}")]
    Merge {
        /// The kind of state.
        what: &'static str,
        /// The setting in which they differ.
        differs: &'static str,
    },
    /// A sampler draws with replacement where one without is wanted, or the other way round.
    #[error("sampler {what} draws {} replacement, wanted one {}", with_or_without(*replaces), with_or_without(!*replaces))]
    Replacement {
        /// The sampler.
        what: &'static str,
        /// True if it draws with replacement.
        replaces: bool,
    },
    /// A pair is not one preferred answer and one other.
    #[error("pair {pair} has {preferred} preferred and {others} other answers, wanted one of each")]
    Pair {
        /// Its number; negative for none.
        pair: i64,
        /// Its preferred answers.
        preferred: usize,
        /// Its other answers.
        others: usize,
    },
    /// A score is taken within groups, and no row has a group.
    #[error("score {what} is taken within groups, but no row has a group")]
    NeedsGroups {
        /// The score.
        what: &'static str,
    },
}

/// Return the numbers that a formula takes.
fn range(low: f64, high: f64) -> String {
    match high {
        f64::MAX => format!("a finite number, {low} or more"),
        _ => format!("a number in [{low}, {high}]"),
    }
}

/// Return the numbers that a formula takes, in a range that may be open at an end.
fn bounds(low: f64, high: f64) -> String {
    match (low.is_finite(), high.is_finite()) {
        (true, true) => format!("a number in [{low}, {high}]"),
        (true, false) => format!("{low} or more"),
        (false, _) => format!("at most {high}"),
    }
}

fn offsets(low: i64, high: i64) -> String {
    if low == high { format!("{low}") } else { format!("{low} to {high}") }
}

fn with_or_without(replaces: bool) -> &'static str {
    if replaces { "with" } else { "without" }
}
