//! A column of names as small codes: group, domain, partition.

use std::collections::HashMap;

/// No name: the record has none.
pub const NONE: u32 = u32::MAX;

/// Names in order of first use, and one code a row.
#[derive(Clone, Debug, Default)]
pub struct Category {
    codes: Vec<u32>,
    names: Vec<Box<str>>,
    known: HashMap<Box<str>, u32>,
}

impl Category {
    /// Adds a row.
    pub fn push(&mut self, name: Option<&str>) {
        let code = name.map_or(NONE, |name| self.code(name));
        self.codes.push(code);
    }

    /// Adds another column's rows, whose names may have other codes.
    pub(crate) fn append(&mut self, other: &Self) {
        let here: Vec<u32> = other.names.iter().map(|name| self.code(name)).collect();
        self.codes.extend(other.codes.iter().map(|&code| here.get(code as usize).copied().unwrap_or(NONE)));
    }

    /// The same column with its rows in another order, and names numbered by first use in that order.
    pub(crate) fn reorder(&self, order: &[u32]) -> Self {
        let mut out = Self::default();
        let mut fresh = vec![NONE; self.names.len()];
        for &row in order {
            let old = self.codes[row as usize];
            if let Some(slot) = fresh.get_mut(old as usize).filter(|slot| **slot == NONE) {
                *slot = u32::try_from(out.names.len()).unwrap_or(NONE);
                out.names.push(self.names[old as usize].clone());
            }
            out.codes.push(fresh.get(old as usize).copied().unwrap_or(NONE));
        }
        out
    }

    /// One code a row; [`NONE`] where the record has no name.
    #[must_use]
    pub fn codes(&self) -> &[u32] {
        &self.codes
    }

    /// The names by code.
    #[must_use]
    pub fn names(&self) -> &[Box<str>] {
        &self.names
    }

    /// The name of a row.
    #[must_use]
    pub fn name(&self, row: usize) -> Option<&str> {
        let code = *self.codes.get(row)?;
        self.names.get(code as usize).map(AsRef::as_ref)
    }

    /// How many rows have each name, by code, and how many have none; of all rows, or of some.
    #[must_use]
    pub fn count(&self, rows: Option<&[u32]>) -> (Vec<u64>, u64) {
        let mut counts = vec![0; self.names.len()];
        let mut none = 0;
        let mut add = |code: u32| *counts.get_mut(code as usize).unwrap_or(&mut none) += 1;
        match rows {
            None => self.codes.iter().copied().for_each(&mut add),
            Some(rows) => {
                rows.iter().filter_map(|&row| self.codes.get(row as usize)).copied().for_each(&mut add);
            }
        }
        (counts, none)
    }

    fn code(&mut self, name: &str) -> u32 {
        if let Some(&code) = self.known.get(name) {
            return code;
        }
        let code = u32::try_from(self.names.len()).unwrap_or(NONE);
        self.names.push(name.into());
        self.known.insert(name.into(), code);
        code
    }
}
