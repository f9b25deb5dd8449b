//! The way from a name to its number, by a table of hashes.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::hint::black_box;

use super::recent::Recent;
use super::table::{Entry, Part};
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
    recent: Recent,
}

const PARTS: u32 = 16;

impl Known {
    /// None yet. Sets that are to be merged must have one seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self { parts: (0..PARTS).map(|_| Part::default()).collect(), seed, recent: Recent::default() }
    }

    /// A seed that nobody can know before.
    pub(crate) fn seed() -> u64 {
        RandomState::new().build_hasher().finish()
    }

    /// The number of a name in UTF-8, a new one where it was not seen before; [`NONE`] for no name.
    pub(crate) fn code(&mut self, name: Option<&[u8]>) -> u32 {
        let Some(name) = name else { return NONE };
        self.recent.code(name).unwrap_or_else(|| {
            let code = self.of(name, Entry::new(name, self.seed));
            self.recent.learn(name, code);
            code
        })
    }

    /// The numbers of many names. Every line is looked at before the first is needed, so that all of them wait for memory
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
        for (names, steps) in map(parts, threads, merge) {
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

/// The names of one part of several sets, and the step from the numbers of each.
fn merge(parts: Vec<Part>) -> (Names, Vec<Step>) {
    let mut parts = parts.into_iter();
    let mut all = parts.next().unwrap_or_default();
    let mut steps = vec![Step { start: 0, codes: None }];
    steps.extend(parts.map(|part| Step { start: 0, codes: Some(all.take_in(&part)) }));
    (all.names, steps)
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
            other.lines.truncate(other.lines.len() / 4); // as far as the first quarter, where they are crowded most
            part.take_in(&other);
            let count = part.lines.len();
            let lines = part.lines.iter().enumerate();
            let entries = lines.flat_map(|(at, line)| line.0.map(|entry| (at, entry)));
            let ways: usize = entries
                .filter(|(_, entry)| entry.code != NONE)
                .map(|(at, entry)| (at + count - part.start(&entry)) % count)
                .sum();
            assert!(2 * ways < part.names.len(), "{ways} of {}", part.names.len());
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
}
