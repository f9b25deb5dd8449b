//! Column of names as small codes: group, domain, partition.

use std::borrow::Cow;

use crate::intern::{NONE, Names, SharedInterner};
use crate::parallel::map;

/// Maximum number of listed names, and their maximum total bytes: a log may have any number of names.
pub const LISTED: (usize, usize) = (10_000, 1 << 22);

/// Column under construction, name by name.
#[derive(Debug)]
pub struct Builder {
    known: SharedInterner,
    codes: Vec<u32>,
}

impl Builder {
    /// Create an empty column.
    #[must_use]
    pub fn new() -> Self {
        Self { known: SharedInterner::new(), codes: Vec::new() }
    }

    /// Add a row.
    pub fn push(&mut self, name: Option<&str>) {
        self.codes.push(name.map_or(NONE, |name| self.known.code(name.as_bytes())));
    }

    /// Return the column.
    #[must_use]
    pub fn finish(self) -> Category {
        let (names, renumbering) = self.known.finish();
        let codes: Vec<u32> = self.codes.into_iter().map(|code| renumbering.code(code)).collect();
        let rows = codes.len();
        Category::new(codes, rows, names, 1)
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

/// Names in order of first use, and one code per row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Category {
    /// Codes; empty if no row has a name.
    codes: Vec<u32>,
    rows: usize,
    names: Names,
}

impl Category {
    /// Return a column with its names renumbered by first use; without codes if no row has a name.
    pub(crate) fn new(mut codes: Vec<u32>, rows: usize, names: Names, threads: usize) -> Self {
        let share = codes.len().div_ceil(threads.max(1)).max(1);
        let mut fresh = vec![NONE; names.len()];
        let mut order = Vec::new();
        for code in
            map(codes.chunks(share).collect(), threads, |codes| first_uses(codes, names.len())).concat()
        {
            if fresh[code as usize] == NONE {
                fresh[code as usize] = u32::try_from(order.len()).unwrap_or(NONE);
                order.push(code);
            }
        }
        map(codes.chunks_mut(share).collect(), threads, |codes: &mut [u32]| {
            for code in codes {
                *code = fresh.get(*code as usize).copied().unwrap_or(NONE);
            }
        });
        Self { codes, rows, names: names.renumber(order) }
    }

    /// Return one code per row; [`NONE`] for a record without a name.
    #[must_use]
    pub fn codes(&self) -> Cow<'_, [u32]> {
        if self.codes.len() == self.rows {
            Cow::Borrowed(&self.codes)
        } else {
            Cow::Owned(vec![NONE; self.rows])
        }
    }

    /// Return the names by code.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Return the name of a row.
    #[must_use]
    pub fn name(&self, row: usize) -> Option<&str> {
        self.names.get(*self.codes.get(row)?)
    }

    /// Return the codes of the names with the largest counts, up to the maximum length of a list, in the
    /// order of the names; ties are broken by name. Names with a count of zero are left out.
    #[must_use]
    pub fn largest(&self, counts: &[u64]) -> Vec<u32> {
        let name = |code: u32| self.names.get(code).unwrap_or_default();
        let count = |code: u32| counts.get(code as usize).copied().unwrap_or(0);
        let mut codes: Vec<u32> = (0..).take(self.names.len()).filter(|&code| count(code) > 0).collect();
        let order = |a: &u32, b: &u32| count(*b).cmp(&count(*a)).then_with(|| name(*a).cmp(name(*b)));
        let (most, bytes) = LISTED;
        if codes.len() > most {
            codes.select_nth_unstable_by(most, order);
            codes.truncate(most);
        }
        codes.sort_unstable_by(order);
        let mut left = bytes;
        let fits = |code: &u32| left.checked_sub(name(*code).len()).map(|rest| left = rest).is_some();
        let mut listed: Vec<u32> = codes.into_iter().filter(fits).collect();
        listed.sort_unstable_by(|a, b| name(*a).cmp(name(*b)));
        listed
    }

    /// Count the rows with each name, by code, and the rows without one; of all rows, or of some.
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

/// Return the codes below `count` in the order of their first occurrence.
fn first_uses(codes: &[u32], count: usize) -> Vec<u32> {
    let mut seen = vec![false; count];
    let mut first =
        |code: u32| seen.get_mut(code as usize).is_some_and(|seen| !std::mem::replace(seen, true));
    codes.iter().copied().filter(|&code| first(code)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_names_are_listed_and_no_more_than_a_list_holds() {
        let mut builder = Builder::new();
        for at in 0..LISTED.0 + 5 {
            builder.push(Some(&format!("n{at:05}")));
            builder.push((at >= LISTED.0).then_some(&*format!("n{at:05}")));
        }
        let column = builder.finish();
        let listed = column.largest(&column.count(None).0);
        let names: Vec<_> = listed.iter().filter_map(|&code| column.names().get(code)).collect();
        assert_eq!((names.len(), names[0], names[LISTED.0 - 1]), (LISTED.0, "n00000", "n10004"));
        assert!(names.is_sorted() && !names.contains(&"n09997"));
        let mut builder = Builder::new();
        for name in [&*"x".repeat(LISTED.1), "a", "b"] {
            builder.push(Some(name));
        }
        let column = builder.finish();
        let listed = column.largest(&[2, 1, 0]);
        assert_eq!(
            listed.iter().map(|&code| column.names().get(code).unwrap().len()).collect::<Vec<_>>(),
            [LISTED.1]
        );
    }

    #[test]
    fn numbers_are_those_of_first_use_for_any_number_of_threads() {
        let mut names = Names::default();
        for (code, name) in (0..).zip(["never", "b", "a", "c"]) {
            assert_eq!(names.push(name), code);
        }
        let codes = vec![NONE, 2, 1, 2, 3, 1, NONE, 3];
        for threads in 0..10 {
            let category = Category::new(codes.clone(), codes.len(), names.clone(), threads);
            assert_eq!(category.names().iter().collect::<Vec<_>>(), ["a", "b", "c"]);
            assert_eq!(category.codes(), [NONE, 0, 1, 0, 2, 1, NONE, 2].as_slice());
            assert_eq!((category.name(4), category.names().get(3)), (Some("c"), None));
        }
        let unnamed = Category::new(vec![NONE; 3], 3, names, 2);
        assert!(unnamed.names().is_empty() && unnamed.names().get(0).is_none());
    }
}
