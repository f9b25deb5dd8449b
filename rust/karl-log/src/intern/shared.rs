//! The way from a name to its number, by a table of hashes.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::hint::black_box;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::table::{Entry, Table};
use super::{NameBatch, Names};
use crate::counting_sort::counting_sort;
use crate::intern::NONE;

/// Names with the way from a name to its number, which is needed only while they are read, by any number of threads.
///
/// A name is known by 96 bits of its XXH3-128, so that a look-up in a table of millions waits for memory once and not
/// for the text too; that two of ten million names share them has a chance of 10^-15. The seed differs from process
/// to process, so that no log can be made to collide; no outcome depends on it. Cut into parts by the hash, each of which
/// one thread at a time looks into. Which number a name has depends on who came first: it is for telling names apart.
#[derive(Debug)]
pub(crate) struct SharedInterner {
    parts: [Mutex<Table>; PARTS as usize],
    seed: u64,
}

const PARTS: u32 = 16;

impl SharedInterner {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self { parts: std::array::from_fn(|_| Mutex::default()), seed: Self::seed() }
    }

    /// A seed that nobody can know before.
    pub(crate) fn seed() -> u64 {
        RandomState::new().build_hasher().finish()
    }

    /// The number of a name in UTF-8, a new one where it was not seen before.
    pub(crate) fn code(&self, name: &[u8]) -> u32 {
        let entry = Entry::new(name, self.seed);
        let part = part(&entry);
        number(part, self.part(part).code(entry, name))
    }

    /// The numbers of many names, part by part. Every line of a part is looked at before the first is needed, so that those
    /// of one part wait for memory together. Threads begin at different parts, so as not to queue for each.
    pub(crate) fn codes(&self, batch: &NameBatch) -> Vec<u32> {
        let names: Vec<(Entry, &[u8])> =
            batch.iter().map(|name| (Entry::new(name, self.seed), name)).collect();
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

    /// All names, and the way to their numbers among all.
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

/// Which part an entry belongs to.
fn part(entry: &Entry) -> u32 {
    entry.high % PARTS
}

/// The number of the name that has a number in a part.
fn number(part: u32, code: u32) -> u32 {
    code * PARTS + part
}

/// From the numbers of names as they were given to those among all: where the numbers of each part begin.
pub(crate) struct Renumbering([u32; PARTS as usize]);

impl Renumbering {
    /// The number among all; [`NONE`] stays.
    #[inline]
    pub(crate) fn code(&self, code: u32) -> u32 {
        if code == NONE { NONE } else { self.0[(code % PARTS) as usize] + code / PARTS }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Names of which each comes several times.
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
