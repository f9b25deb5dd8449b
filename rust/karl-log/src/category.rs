//! A column of names as small codes: group, domain, partition.

use std::borrow::Cow;

use crate::names::{Known, Names};

/// No name: the record has none.
pub const NONE: u32 = u32::MAX;

/// A column that is made name by name.
#[derive(Debug)]
pub struct Builder {
    known: Known,
    codes: Vec<u32>,
}

impl Builder {
    /// No row yet.
    #[must_use]
    pub fn new() -> Self {
        Self { known: Known::new(Known::seed()), codes: Vec::new() }
    }

    /// Adds a row.
    pub fn push(&mut self, name: Option<&str>) {
        self.codes.push(self.known.code(name.map(str::as_bytes)));
    }

    /// The column.
    #[must_use]
    pub fn finish(self) -> Category {
        let (names, ways) = Known::merge(vec![self.known], 1);
        let code = |code| ways.first().map_or(NONE, |way| way.code(code));
        let codes: Vec<u32> = self.codes.into_iter().map(code).collect();
        let rows = codes.len();
        Category::new(codes, rows, &names)
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

/// Names in order of first use, and one code a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Category {
    /// Empty where no row has a name.
    codes: Vec<u32>,
    rows: usize,
    names: Names,
}

impl Category {
    /// A column of so many rows whose names are to be numbered anew, by first use; no codes for a column without any.
    pub(crate) fn new(mut codes: Vec<u32>, rows: usize, names: &Names) -> Self {
        let mut used = Names::default();
        let mut fresh = vec![NONE; names.len()];
        for code in &mut codes {
            let Some(slot) = fresh.get_mut(*code as usize) else { continue };
            if *slot == NONE {
                *slot = names.get(*code).map_or(NONE, |name| used.push(name));
            }
            *code = *slot;
        }
        Self { codes, rows, names: used }
    }

    /// One code a row; [`NONE`] where the record has no name.
    #[must_use]
    pub fn codes(&self) -> Cow<'_, [u32]> {
        if self.codes.len() == self.rows {
            Cow::Borrowed(&self.codes)
        } else {
            Cow::Owned(vec![NONE; self.rows])
        }
    }

    /// The names by code.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The name of a row.
    #[must_use]
    pub fn name(&self, row: usize) -> Option<&str> {
        self.names.get(*self.codes.get(row)?)
    }

    /// How many rows have each name, by code, and how many have none; of all rows, or of some.
    #[must_use]
    pub fn count(&self, rows: Option<&[u32]>) -> (Vec<u64>, u64) {
        let mut counts = vec![0; self.names.len()];
        let mut none = 0;
        let mut add = |code: Option<&u32>| {
            *code.and_then(|&code| counts.get_mut(code as usize)).unwrap_or(&mut none) += 1;
        };
        match rows {
            None => (0..self.rows).for_each(|row| add(self.codes.get(row))),
            Some(rows) => rows.iter().for_each(|&row| add(self.codes.get(row as usize))),
        }
        (counts, none)
    }
}
