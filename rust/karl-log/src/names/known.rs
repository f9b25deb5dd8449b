//! The way from a name to its number, by a table of hashes.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::hint::black_box;

use twox_hash::XxHash3_128;

use super::{Batch, Names};
use crate::category::NONE;
use crate::parallel::map;

/// Names with the way from a name to its number, which is needed only while they are read.
///
/// A name is known by 96 bits of its XXH3-128, so that a look-up in a table of millions waits for memory once and not
/// for the text too; that two of ten million names share them has a chance of 10^-15. The seed differs from process
/// to process, so that no log can be made to collide; no outcome depends on it. Cut into parts by the hash, so that
/// sets can be merged part by part.
#[derive(Debug, Default)]
pub(crate) struct Known {
    parts: Vec<Part>,
    seed: u64,
}

#[derive(Debug, Default)]
struct Part {
    names: Names,
    /// A power of two, at most three quarters taken. An entry lies where the low bits of its hash say, or as soon after that
    /// as there is room: a general table looks into two places for one name, and memory is what a look-up waits for.
    slots: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    low: u64,
    high: u32,
    /// [`NONE`] in a free slot.
    code: u32,
}

const PARTS: u32 = 16;

impl Known {
    /// None yet. Sets that are to be merged must have one seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self { parts: (0..PARTS).map(|_| Part::default()).collect(), seed }
    }

    /// A seed that nobody can know before.
    pub(crate) fn seed() -> u64 {
        RandomState::new().build_hasher().finish()
    }

    /// The number of a name in UTF-8, a new one where it was not seen before; [`NONE`] for no name.
    pub(crate) fn code(&mut self, name: Option<&[u8]>) -> u32 {
        name.map_or(NONE, |name| self.of(name, Entry::new(name, self.seed)))
    }

    /// The numbers of many names. Every slot is looked at before the first is needed, so that all of them wait for memory
    /// together.
    pub(crate) fn codes(&mut self, batch: &Batch) -> impl Iterator<Item = u32> {
        let entries: Vec<Entry> = batch.iter().map(|name| Entry::new(name, self.seed)).collect();
        let touched = entries.iter().map(|entry| self.parts[(entry.high % PARTS) as usize].touch(entry));
        black_box(touched.fold(0, |all, code| all ^ code));
        batch.iter().zip(entries).map(|(name, entry)| self.of(name, entry))
    }

    fn of(&mut self, name: &[u8], entry: Entry) -> u32 {
        let part = entry.high % PARTS;
        self.parts[part as usize].code(entry, || name) * PARTS + part
    }

    /// Several sets of names as one, and for each set the way from its numbers to the new ones.
    pub(crate) fn merge(sets: Vec<Self>, threads: usize) -> (Names, Vec<Way>) {
        let mut ways: Vec<Way> = sets.iter().map(|_| Way(Vec::new())).collect();
        let mut parts: Vec<Vec<Part>> = (0..PARTS).map(|_| Vec::new()).collect();
        for set in sets {
            parts.iter_mut().zip(set.parts).for_each(|(all, part)| all.push(part));
        }
        let mut all = Names::default();
        for (names, steps) in map(parts, threads, Part::merge) {
            let start = u32::try_from(all.len()).unwrap_or(NONE);
            for (way, mut step) in ways.iter_mut().zip(steps) {
                step.start = start;
                way.0.push(step);
            }
            all.append(&names);
        }
        (all, ways)
    }
}

impl Entry {
    fn new(name: &[u8], seed: u64) -> Self {
        let hash = XxHash3_128::oneshot_with_seed(seed, name).to_le_bytes();
        let low = u64::from_le_bytes(std::array::from_fn(|at| hash[at]));
        let high = u32::from_le_bytes(std::array::from_fn(|at| hash[8 + at]));
        Self { low, high, code: NONE }
    }

    /// Whether both are of one name.
    fn is(&self, other: &Self) -> bool {
        (self.low, self.high) == (other.low, other.high)
    }
}

impl Part {
    /// The number of an entry's name, which is asked for where it is new.
    fn code<'n>(&mut self, entry: Entry, name: impl FnOnce() -> &'n [u8]) -> u32 {
        if 4 * self.names.len() >= 3 * self.slots.len() {
            self.grow();
        }
        let at = self.slot(&entry);
        if self.slots[at].code == NONE {
            self.slots[at] = Entry { code: self.names.push(&String::from_utf8_lossy(name())), ..entry };
        }
        self.slots[at].code
    }

    /// What lies where an entry should.
    fn touch(&self, entry: &Entry) -> u32 {
        self.slots.get(self.start(entry)).map_or(NONE, |slot| slot.code)
    }

    fn start(&self, entry: &Entry) -> usize {
        let last = self.slots.len().saturating_sub(1);
        usize::try_from(entry.low & last as u64).unwrap_or(last)
    }

    /// Where an entry lies, or the free slot where it is to lie.
    fn slot(&self, entry: &Entry) -> usize {
        let mut at = self.start(entry);
        while self.slots[at].code != NONE && !self.slots[at].is(entry) {
            at = (at + 1) & (self.slots.len() - 1);
        }
        at
    }

    fn grow(&mut self) {
        let free = Entry { low: 0, high: 0, code: NONE };
        let slots = vec![free; (2 * self.slots.len()).max(16)];
        for entry in std::mem::replace(&mut self.slots, slots) {
            if entry.code != NONE {
                let at = self.slot(&entry);
                self.slots[at] = entry;
            }
        }
    }

    /// Room for so many more, before the first of them: those that come in the order of their slots would else crowd the
    /// slots from the first on to twice what is good for them.
    fn reserve(&mut self, more: usize) {
        while 4 * (self.names.len() + more) >= 3 * self.slots.len() {
            self.grow();
        }
    }

    fn merge(parts: Vec<Self>) -> (Names, Vec<Step>) {
        let mut parts = parts.into_iter();
        let mut all = parts.next().unwrap_or_default();
        let mut steps = vec![Step { start: 0, codes: None }];
        steps.extend(parts.map(|part| Step { start: 0, codes: Some(all.take_in(&part)) }));
        (all.names, steps)
    }

    /// Takes in the names of another set; the new number of each. By slots, for they lie in the same order in both.
    fn take_in(&mut self, part: &Self) -> Vec<u32> {
        self.reserve(part.names.len());
        let mut codes = vec![NONE; part.names.len()];
        for slot in part.slots.iter().filter(|slot| slot.code != NONE) {
            let name = || part.names.get(slot.code).unwrap_or_default().as_bytes();
            codes[slot.code as usize] = self.code(Entry { code: NONE, ..*slot }, name);
        }
        codes
    }
}

/// From the numbers of one set of names to the numbers of several sets as one.
pub(crate) struct Way(Vec<Step>);

/// The same within one part: where its numbers begin, and which of those each one is. The first set keeps its own, so that
/// most of its rows need not wait for a table.
struct Step {
    start: u32,
    codes: Option<Vec<u32>>,
}

impl Way {
    /// The new number; [`NONE`] stays.
    #[inline]
    pub(crate) fn code(&self, code: u32) -> u32 {
        let (part, at) = (code % PARTS, code / PARTS);
        let Some(step) = self.0.get(part as usize).filter(|_| code != NONE) else { return NONE };
        let at = step.codes.as_ref().map_or(Some(at), |codes| codes.get(at as usize).copied());
        at.map_or(NONE, |at| step.start + at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_names_that_are_all_different_become_one_without_crowding() {
        let sets: Vec<Known> = (0..2)
            .map(|set| {
                let mut known = Known::new(7);
                for at in 0..19_000_u32 {
                    known.code(Some(format!("{set}-{at}").as_bytes()));
                }
                known
            })
            .collect();
        for (mut part, mut other) in {
            let mut sets = sets.into_iter().map(|set| set.parts);
            sets.next().unwrap().into_iter().zip(sets.next().unwrap())
        } {
            other.slots.truncate(other.slots.len() / 4); // as far as the first quarter, where they are crowded most
            part.take_in(&other);
            let way =
                |entry: &Entry| (part.slot(entry) + part.slots.len() - part.start(entry)) % part.slots.len();
            let ways: usize = part.slots.iter().filter(|slot| slot.code != NONE).map(way).sum();
            assert!(ways < 3 * part.names.len(), "{ways} of {}", part.names.len());
        }
    }

    #[test]
    fn a_name_has_one_number_however_many_there_are_and_however_they_come() {
        let names: Vec<String> = (0..5000).map(|at| format!("name-{}", at % 3000)).collect();
        let mut known = Known::new(7);
        let alone: Vec<u32> = names.iter().map(|name| known.code(Some(name.as_bytes()))).collect();
        let mut batch = Batch::default();
        for name in &names {
            batch.push(name.as_bytes());
        }
        assert_eq!(Known::new(7).codes(&batch).collect::<Vec<_>>(), alone);
        assert_eq!(known.codes(&batch).collect::<Vec<_>>(), alone);
        let (all, ways) = Known::merge(vec![known], 2);
        let back: Vec<_> = alone.iter().map(|&code| all.get(ways[0].code(code)).unwrap()).collect();
        assert_eq!(back, names);
        assert_eq!(all.len(), 3000);
    }

    #[test]
    fn names_whose_hashes_share_a_place_are_told_apart() {
        let mut part = Part::default();
        let entry = |high| Entry { low: 3, high, code: NONE };
        for (high, name) in (0..40).zip('0'..) {
            let name = name.to_string();
            assert_eq!(part.code(entry(high), || name.as_bytes()), high);
        }
        assert!((0..40).all(|high| part.code(entry(high), || b"") == high));
    }
}
