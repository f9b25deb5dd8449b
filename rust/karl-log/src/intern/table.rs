//! Hash table of names.
//!
//! No record isolates it; see [`super::shared`] for the time of all names.

use twox_hash::XxHash3_128;

use super::Names;
use crate::intern::NONE;

#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) names: Names,
    /// Cache lines, a power of two, at most three quarters full. An entry is in the line that the low bits of
    /// its hash select, or in the first later one with a free slot: a general table reads two places for one
    /// name, and cache misses dominate a look-up.
    lines: Vec<CacheLine>,
}

/// One cache line of entries, filled from the front.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct CacheLine([TableEntry; WIDTH]);

const WIDTH: usize = 4;

#[derive(Clone, Copy, Debug)]
pub(super) struct TableEntry {
    low: u64,
    pub(super) high: u32,
    /// Number; [`NONE`] in a free slot.
    code: u32,
}

impl TableEntry {
    pub(super) fn new(name: &[u8], seed: u64) -> Self {
        let hash = XxHash3_128::oneshot_with_seed(seed, name).to_le_bytes();
        let low = u64::from_le_bytes(std::array::from_fn(|at| hash[at]));
        let high = u32::from_le_bytes(std::array::from_fn(|at| hash[8 + at]));
        Self { low, high, code: NONE }
    }

    /// Return whether both are entries of one name.
    fn is(&self, other: &Self) -> bool {
        (self.low, self.high) == (other.low, other.high)
    }
}

impl CacheLine {
    const FREE: Self = Self([TableEntry { low: 0, high: 0, code: NONE }; WIDTH]);

    /// Return the code of an entry. Its slot is unpredictable, so there is one branch on all slots together.
    #[inline]
    fn find(&self, entry: &TableEntry) -> Option<u32> {
        let one = |at: usize| u32::from(self.0[at].is(entry)) << at;
        let found = one(0) | one(1) | one(2) | one(3);
        self.0.get(found.trailing_zeros() as usize).map(|found| found.code).filter(|&code| code != NONE)
    }

    fn free(&mut self) -> Option<&mut TableEntry> {
        self.0.iter_mut().find(|entry| entry.code == NONE)
    }

    fn is_full(&self) -> bool {
        self.0[WIDTH - 1].code != NONE
    }
}

impl Table {
    /// Return the number of an entry's name; a new one for a new name.
    #[inline]
    pub(super) fn code(&mut self, entry: TableEntry, name: &[u8]) -> u32 {
        self.find(&entry).unwrap_or_else(|| self.learn(entry, name))
    }

    #[inline]
    fn find(&self, entry: &TableEntry) -> Option<u32> {
        let mut at = self.start(entry);
        loop {
            let line = self.lines.get(at)?;
            let found = line.find(entry);
            if found.is_some() || !line.is_full() {
                return found;
            }
            at = self.after(at);
        }
    }

    #[cold]
    fn learn(&mut self, entry: TableEntry, name: &[u8]) -> u32 {
        if 4 * self.names.len() >= 3 * WIDTH * self.lines.len() {
            self.grow();
        }
        let entry = TableEntry { code: self.names.push(&String::from_utf8_lossy(name)), ..entry };
        self.put(entry);
        entry.code
    }

    /// Load the cache line of an entry.
    pub(super) fn touch(&self, entry: &TableEntry) -> u32 {
        self.lines.get(self.start(entry)).map_or(NONE, |line| line.0[0].code)
    }

    fn start(&self, entry: &TableEntry) -> usize {
        let last = self.lines.len().saturating_sub(1);
        usize::try_from(entry.low & last as u64).unwrap_or(last)
    }

    fn after(&self, line: usize) -> usize {
        (line + 1) & (self.lines.len() - 1)
    }

    /// Insert an entry that is not in the table.
    fn put(&mut self, entry: TableEntry) {
        let mut at = self.start(&entry);
        loop {
            if let Some(free) = self.lines[at].free() {
                break *free = entry;
            }
            at = self.after(at);
        }
    }

    fn grow(&mut self) {
        let lines = vec![CacheLine::FREE; (2 * self.lines.len()).max(4)];
        for line in std::mem::replace(&mut self.lines, lines) {
            line.0.into_iter().filter(|entry| entry.code != NONE).for_each(|entry| self.put(entry));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_whose_hashes_share_a_place_are_told_apart() {
        let mut part = Table::default();
        let entry = |high| TableEntry { low: 0, high, code: NONE };
        for (high, name) in (0..40).zip('0'..) {
            let name = name.to_string();
            assert_eq!(part.code(entry(high), name.as_bytes()), high);
        }
        assert!((0..40).all(|high| part.code(entry(high), b"") == high));
    }
}
