//! Scopes: rows that are normalised together.

use super::Groups;

/// Sets of rows that are normalised together.
#[derive(Clone, Copy, Debug)]
pub enum Scopes<'a> {
    /// All rows.
    Whole,
    /// The rows of each group; a row without one is in no scope.
    Of(&'a Groups<'a>),
    /// The rows of each group; a row without one is a scope of its own.
    OfOrAlone(&'a Groups<'a>),
}

impl<'a> From<&'a Groups<'a>> for Scopes<'a> {
    fn from(groups: &'a Groups<'a>) -> Self {
        Self::Of(groups)
    }
}

/// The scope of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One that has a number.
    Shared(usize),
    /// The row itself.
    Alone,
}

impl Scopes<'_> {
    /// Return the scope of a row; none where it has none.
    #[must_use]
    pub fn of(&self, row: usize) -> Option<Scope> {
        match self {
            Self::Whole => Some(Scope::Shared(0)),
            Self::Of(groups) => groups.code(row).map(Scope::Shared),
            Self::OfOrAlone(groups) => Some(groups.code(row).map_or(Scope::Alone, Scope::Shared)),
        }
    }

    /// Return the number of rows, where the scopes know it.
    pub(crate) fn rows(&self) -> Option<usize> {
        self.groups().map(Groups::rows)
    }

    pub(crate) fn groups(&self) -> Option<&Groups<'_>> {
        match self {
            Self::Whole => None,
            Self::Of(groups) | Self::OfOrAlone(groups) => Some(groups),
        }
    }
}
