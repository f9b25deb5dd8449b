//! Map from a name to its number, by a hash table.
//!
//! No record isolates it: numbers of groups by name take 0.22 s of 1.07 s for 3 million records
//! (`benches/README.md`, "What is promised, and what it costs").

use std::hash::{BuildHasher, Hasher, RandomState};
use std::hint::black_box;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::table::{Table, TableEntry};
use super::{NameBatch, Names};
use crate::counting_sort::counting_sort;
use crate::intern::NONE;

/// Names with the map from a name to its number, which any number of threads use while they read.
///
/// A name is identified by 96 bits of its XXH3-128, so a look-up in a table of millions misses the cache once
/// and not for the text too; the probability that two of ten million names collide is 10^-15. The seed
/// differs between processes, so no log can force collisions; no result depends on it. The table is split
/// into parts by the hash, each behind a lock. The number of a name depends on the order of threads: it only
/// identifies the name.
#[derive(Debug)]
pub(crate) struct SharedInterner {
    parts: [Mutex<Table>; PARTS as usize],
    seed: u64,
}

const PARTS: u32 = 16;

impl SharedInterner {
    /// Create an empty table.
    pub(crate) fn new() -> Self {
        Self { parts: std::array::from_fn(|_| Mutex::default()), seed: Self::seed() }
    }

    /// Return an unpredictable seed.
    pub(crate) fn seed() -> u64 {
        RandomState::new().build_hasher().finish()
    }

    /// Return the number of a name in UTF-8; a new one for a new name.
    pub(crate) fn code(&self, name: &[u8]) -> u32 {
        let entry = TableEntry::new(name, self.seed);
        let part = part(&entry);
        number(part, self.part(part).code(entry, name))
    }

    /// Return the numbers of many names, part by part. Every cache line of a part is touched before the first
    /// is needed, so that the misses of one part overlap. Threads begin at different parts to avoid
    /// contention.
    pub(crate) fn codes(&self, batch: &NameBatch) -> Vec<u32> {
        let names: Vec<(TableEntry, &[u8])> =
            batch.iter().map(|name| (TableEntry::new(name, self.seed), name)).collect();
        let places: Vec<usize> = (0..names.len()).collect();
        let (order, ends) = counting_sort(&places, PARTS as usize, |&place| part(&names[place].0) as usize);
        let mut codes = vec![NONE; names.len()];
        let begin = names.first().map_or(0, |(entry, _)| part(entry));
        for at in (begin..PARTS).chain(0..begin) {
            let start = at.checked_sub(1).map_or(0, |before| ends[before as usize] as usize);
            let own = &order[start..ends[at as usize] as usize];
            let mut part = self.part(at);
            black_box(own.iter().fold(0, |all, &name| all ^ part.touch(&names[name].0)));
            for &place in own {
                let (entry, name) = names[place];
                codes[place] = number(at, part.code(entry, name));
            }
        }
        codes
    }

    fn part(&self, part: u32) -> MutexGuard<'_, Table> {
        self.parts[part as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Return all names, and the map to their final numbers.
    pub(crate) fn finish(self) -> (Names, Renumbering) {
        let mut all = Names::default();
        let way = self.parts.map(|part| {
            let start = u32::try_from(all.len()).unwrap_or(NONE);
            all.append(&part.into_inner().unwrap_or_else(PoisonError::into_inner).names);
            start
        });
        (all, Renumbering(way))
    }
}

/// Return the part of an entry.
fn part(entry: &TableEntry) -> u32 {
    entry.high % PARTS
}

/// Return the number of a name from its part and its number in that part.
fn number(part: u32, code: u32) -> u32 {
    code * PARTS + part
}

/// Map from provisional to final numbers of names: the first number of each part.
pub(crate) struct Renumbering([u32; PARTS as usize]);

impl Renumbering {
    /// Return the final number; [`NONE`] stays.
    #[inline]
    pub(crate) fn code(&self, code: u32) -> u32 {
        if code == NONE { NONE } else { self.0[(code % PARTS) as usize] + code / PARTS }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Return names, each of which occurs several times.
    fn names() -> Vec<String> {
        (0..20_000).map(|at| format!("name-{}", at * at % 7919)).collect()
    }

    #[test]
    fn a_name_has_one_number_however_many_there_are_and_whoever_asks() {
        let (known, names) = (SharedInterner::new(), names());
        let one_by_one = || names.iter().map(|name| known.code(name.as_bytes())).collect::<Vec<_>>();
        let together = || {
            let batches = names.chunks(300).map(|names| {
                let mut batch = NameBatch::default();
                for name in names {
                    batch.push(name.as_bytes());
                }
                known.codes(&batch)
            });
            batches.flatten().collect()
        };
        let codes = thread::scope(|scope| {
            let others = [scope.spawn(one_by_one), scope.spawn(together), scope.spawn(together)];
            others.map(|other| other.join().unwrap())
        });
        assert!(codes.iter().all(|other| *other == codes[0]));
        let (all, way) = known.finish();
        let back = |&code: &u32| all.get(way.code(code)).unwrap();
        assert!(codes[0].iter().map(back).eq(&names));
        let distinct: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!((all.len(), way.code(NONE)), (distinct.len(), NONE));
    }
}
