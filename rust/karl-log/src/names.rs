//! Distinct names, and the way from a name to its number while a log is read.

use std::hash::{BuildHasher, Hasher, RandomState};

use hashbrown::HashTable;
use twox_hash::XxHash3_128;

use crate::category::NONE;
use crate::parallel::map;

/// Distinct names by number: one text with the end of each, at a fraction of the memory of as many strings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    text: String,
    ends: Vec<usize>,
}

impl Names {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The name of that number.
    #[must_use]
    pub fn get(&self, code: u32) -> Option<&str> {
        let code = code as usize;
        let start = if code == 0 { 0 } else { *self.ends.get(code - 1)? };
        self.text.get(start..*self.ends.get(code)?)
    }

    /// All names in the order of their numbers.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        let start = |at: usize| at.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.ends.iter().enumerate().map(move |(at, &end)| &self.text[start(at)..end])
    }

    fn append(&mut self, other: &Self) {
        let start = self.text.len();
        self.text.push_str(&other.text);
        self.ends.extend(other.ends.iter().map(|end| start + end));
    }

    /// Adds a name; its number.
    pub(crate) fn push(&mut self, name: &str) -> u32 {
        self.text.push_str(name);
        self.ends.push(self.text.len());
        u32::try_from(self.ends.len() - 1).unwrap_or(NONE)
    }
}

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
    codes: HashTable<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    low: u64,
    high: u32,
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

    /// The number of a name, a new one where it was not seen before; [`NONE`] for no name.
    pub(crate) fn code(&mut self, name: Option<&str>) -> u32 {
        name.map_or(NONE, |name| self.of(name, Entry::new(name, self.seed)))
    }

    /// The numbers of many names. All hashes come first: look-ups one right after the other wait for memory together.
    pub(crate) fn codes(&mut self, batch: &Batch) -> impl Iterator<Item = u32> {
        let entries: Vec<Entry> = batch.iter().map(|name| Entry::new(name, self.seed)).collect();
        batch.iter().zip(entries).map(|(name, entry)| self.of(name, entry))
    }

    fn of(&mut self, name: &str, entry: Entry) -> u32 {
        let part = entry.high % PARTS;
        self.parts[part as usize].code(name, entry) * PARTS + part
    }

    /// Several sets of names as one, and for each set the way from its numbers to the new ones.
    pub(crate) fn merge(sets: Vec<Self>, threads: usize) -> (Names, Vec<Way>) {
        let seed = sets.first().map_or(0, |set| set.seed);
        let mut ways: Vec<Way> = sets.iter().map(|_| Way(Vec::new())).collect();
        let mut parts: Vec<Vec<Part>> = (0..PARTS).map(|_| Vec::new()).collect();
        for set in sets {
            parts.iter_mut().zip(set.parts).for_each(|(all, part)| all.push(part));
        }
        let mut all = Names::default();
        for (names, found) in map(parts, threads, |parts| Part::merge(parts, seed)) {
            let start = u32::try_from(all.len()).unwrap_or(NONE);
            for (way, mut codes) in ways.iter_mut().zip(found) {
                for code in &mut codes {
                    *code += start;
                }
                way.0.push(codes);
            }
            all.append(&names);
        }
        (all, ways)
    }
}

impl Entry {
    fn new(name: &str, seed: u64) -> Self {
        let hash = XxHash3_128::oneshot_with_seed(seed, name.as_bytes()).to_le_bytes();
        let low = u64::from_le_bytes(std::array::from_fn(|at| hash[at]));
        let high = u32::from_le_bytes(std::array::from_fn(|at| hash[8 + at]));
        Self { low, high, code: NONE }
    }
}

impl Part {
    fn code(&mut self, name: &str, entry: Entry) -> u32 {
        let same = |other: &Entry| (other.low, other.high) == (entry.low, entry.high);
        if let Some(found) = self.codes.find(entry.low, same) {
            return found.code;
        }
        let code = self.names.push(name);
        self.codes.insert_unique(entry.low, Entry { code, ..entry }, |entry| entry.low);
        code
    }

    fn merge(parts: Vec<Self>, seed: u64) -> (Names, Vec<Vec<u32>>) {
        let mut parts = parts.into_iter();
        let mut all = parts.next().unwrap_or_default();
        let mut ways = vec![(0..).take(all.names.len()).collect()];
        ways.extend(parts.map(|part| {
            part.names.iter().map(|name| all.code(name, Entry::new(name, seed))).collect::<Vec<u32>>()
        }));
        (all.names, ways)
    }
}

/// From the numbers of one set of names to the numbers of several sets as one.
pub(crate) struct Way(Vec<Vec<u32>>);

impl Way {
    /// The new number; [`NONE`] stays.
    pub(crate) fn code(&self, code: u32) -> u32 {
        let found = self.0.get((code % PARTS) as usize).and_then(|part| part.get((code / PARTS) as usize));
        found.copied().unwrap_or(NONE)
    }
}

/// Some names, not distinct.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    text: String,
    ends: Vec<usize>,
}

impl Batch {
    pub(crate) fn push(&mut self, name: &str) {
        self.text.push_str(name);
        self.ends.push(self.text.len());
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        let mut start = 0;
        self.ends.iter().filter_map(move |&end| self.text.get(std::mem::replace(&mut start, end)..end))
    }

    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }
}
