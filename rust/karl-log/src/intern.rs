//! Distinct names by number, and the map from a name to its number while a log is read.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use twox_hash::XxHash3_128;

use crate::counting_sort::counting_sort;
use crate::json::scalar;

/// Number for a record without a name.
pub const NONE: u32 = u32::MAX;

/// Distinct names by number: one text with the end of each, in a fraction of the memory of as many strings.
#[derive(Clone, Debug, Default)]
pub struct Names {
    text: String,
    ends: Vec<usize>,
    /// Position of the name of each number; empty if positions and numbers are equal.
    places: Vec<u32>,
}

impl PartialEq for Names {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Names {}

impl Names {
    /// Return the number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.places.is_empty() { self.ends.len() } else { self.places.len() }
    }

    /// Return whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Return the name of a number.
    #[must_use]
    pub fn get(&self, code: u32) -> Option<&str> {
        let place = if self.places.is_empty() { code } else { *self.places.get(code as usize)? } as usize;
        let start = if place == 0 { 0 } else { *self.ends.get(place - 1)? };
        self.text.get(start..*self.ends.get(place)?)
    }

    /// Iterate over all names in the order of their numbers.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        (0..self.len())
            .map(|code| u32::try_from(code).ok().and_then(|code| self.get(code)).unwrap_or_default())
    }

    /// Return the numeric values that names spell in several ways; `None` if there are none.
    #[must_use]
    pub fn mixed(&self) -> Option<MixedSpellings> {
        find_mixed_spellings(self.iter())
    }

    /// Select and renumber names in the given order. No text is moved, because each would miss the cache.
    /// Allowed once, and after the last name was added: numbers and positions then differ.
    pub(crate) fn renumber(self, order: Vec<u32>) -> Self {
        debug_assert!(self.places.is_empty(), "names are numbered anew once");
        if order.is_empty() { Self::default() } else { Self { places: order, ..self } }
    }

    fn append(&mut self, other: &Self) {
        debug_assert!(
            self.places.is_empty() && other.places.is_empty(),
            "names are added before they are numbered anew"
        );
        let start = self.text.len();
        self.text.push_str(&other.text);
        self.ends.extend(other.ends.iter().map(|end| start + end));
    }

    /// Add a name; return its number.
    pub(crate) fn push(&mut self, name: &str) -> u32 {
        debug_assert!(self.places.is_empty(), "names are added before they are numbered anew");
        self.text.push_str(name);
        self.ends.push(self.text.len());
        u32::try_from(self.ends.len() - 1).unwrap_or(NONE)
    }
}

/// Batch of names in UTF-8, not distinct.
#[derive(Debug, Default)]
pub(crate) struct NameBatch {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl NameBatch {
    pub(crate) fn push(&mut self, name: &[u8]) {
        self.text.extend_from_slice(name);
        self.ends.push(self.text.len());
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().filter_map(move |&end| self.text.get(std::mem::replace(&mut start, end)..end))
    }

    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }
}

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
        let starts = self.parts.map(|part| {
            let start = u32::try_from(all.len()).unwrap_or(NONE);
            all.append(&part.into_inner().unwrap_or_else(PoisonError::into_inner).names);
            start
        });
        (all, Renumbering(starts))
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

/// Names of one part of the map, and their numbers by hash: 96 bits stand for a name, as two names with equal ones are
/// not expected in any log.
#[derive(Debug, Default)]
struct Table {
    names: Names,
    entries: HashTable<TableEntry>,
}

#[derive(Clone, Copy, Debug)]
struct TableEntry {
    low: u64,
    high: u32,
    /// Number of the name; [`NONE`] before it has one.
    code: u32,
}

impl TableEntry {
    fn new(name: &[u8], seed: u64) -> Self {
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

impl Table {
    /// Return the number of an entry's name; a new one for a new name.
    #[inline]
    fn code(&mut self, entry: TableEntry, name: &[u8]) -> u32 {
        match self.entries.entry(entry.low, |known| known.is(&entry), |known| known.low) {
            Entry::Occupied(known) => known.get().code,
            Entry::Vacant(place) => {
                let code = self.names.push(&String::from_utf8_lossy(name));
                place.insert(TableEntry { code, ..entry });
                code
            }
        }
    }
}

/// Names of a column as one thread sees them: a direct-mapped cache of short names with their numbers, in
/// which a new name replaces the old one in its slot.
#[derive(Debug)]
pub(crate) struct CachedInterner<'k> {
    known: &'k SharedInterner,
    places: Box<[(Short, u32); PLACES]>,
}

const PLACES: usize = 64;

/// Name of at most 16 bytes as two words, and its length. Names of one length have equal words only if they
/// are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Short {
    first: u64,
    last: u64,
    length: usize,
}

impl<'k> CachedInterner<'k> {
    /// Create an empty cache.
    pub(crate) fn new(known: &'k SharedInterner) -> Self {
        Self { known, places: Box::new([(Short::default(), NONE); PLACES]) }
    }

    /// Return the number of a name in UTF-8; [`NONE`] for no name.
    #[inline]
    pub(crate) fn code(&mut self, name: Option<&[u8]>) -> u32 {
        let Some(name) = name else { return NONE };
        let Some(short) = Short::new(name) else { return self.known.code(name) };
        let place = &mut self.places[short.place()];
        if place.0 != short || place.1 == NONE {
            *place = (short, self.known.code(name));
        }
        place.1
    }
}

impl Short {
    #[inline]
    fn new(name: &[u8]) -> Option<Self> {
        let length = name.len();
        let (first, last) = match (name.first_chunk(), name.last_chunk()) {
            (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
            _ => (name.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)), 0),
        };
        (length <= 16).then_some(Self { first, last, length })
    }

    #[inline]
    fn place(self) -> usize {
        let mixed = (self.first ^ self.last.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        usize::try_from(mixed >> (u64::BITS - PLACES.ilog2())).unwrap_or(0)
    }
}

/// Maximum number of names with a point or an exponent to examine.
const MOST: usize = 100_000;

/// Numeric values that names spell in several ways.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MixedSpellings {
    /// Number of such values.
    pub numbers: usize,
    /// Spellings of the first of them.
    pub first: Vec<String>,
}

/// Return the numeric values that some names spell in several ways; `None` if there are none.
///
/// Integers have one plain spelling, so only names with a point, an exponent or `-0` are stored. Cost: two
/// passes over the names that begin like a number.
fn find_mixed_spellings<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Option<MixedSpellings> {
    let mut spelled: BTreeMap<(bool, String, i64), BTreeSet<&str>> = BTreeMap::new();
    for name in names.clone().filter(|name| !is_plain(name)).take(MOST) {
        if let Some(number) = value(name) {
            spelled.entry(number).or_default().insert(name);
        }
    }
    if spelled.is_empty() {
        return None;
    }
    for name in names.filter(|name| is_plain(name)) {
        if let Some(spellings) = value(name).and_then(|number| spelled.get_mut(&number)) {
            spellings.insert(name);
        }
    }
    spelled.retain(|_, spellings| spellings.len() > 1);
    let first = spelled.values().next()?.iter().map(|&name| name.to_owned()).collect();
    Some(MixedSpellings { numbers: spelled.len(), first })
}

/// Return whether a name is not a number, or has no other plain spelling.
fn is_plain(name: &str) -> bool {
    let begins = name.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    !begins || (name != "-0" && !name.contains(['.', 'e', 'E']))
}

/// Return a number as its sign, its digits and the power of ten of the last; `None` for a text that is not a
/// number, or for a power out of the range of i64.
fn value(name: &str) -> Option<(bool, String, i64)> {
    let text = scalar::number(name.as_bytes())?;
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let negative = mantissa.starts_with('-');
    let (whole, fraction) = mantissa.trim_start_matches('-').split_once('.').unwrap_or((mantissa, ""));
    let whole = whole.trim_start_matches('-');
    let digits = format!("{whole}{fraction}");
    let short = digits.trim_end_matches('0');
    let significant = short.trim_start_matches('0');
    if significant.is_empty() {
        return Some((false, String::new(), 0));
    }
    let exponent: i64 = exponent.trim_start_matches('+').parse().ok()?;
    let dropped = i64::try_from(digits.len() - short.len()).ok()?;
    let power = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?.checked_add(dropped)?;
    Some((negative, significant.to_owned(), power))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn of(names: &[&str]) -> Option<MixedSpellings> {
        find_mixed_spellings(names.iter().copied())
    }

    #[test]
    fn spellings_of_one_number_are_told() {
        for same in [
            ["1", "1.0"],
            ["1e5", "100000"],
            ["0", "-0"],
            ["1E5", "1e+5"],
            ["-2.50", "-25e-1"],
            ["0.0", "0e9"],
        ] {
            let found = of(&["a", same[0], "7", same[1], ""]).unwrap();
            let mut wanted = same.to_vec();
            wanted.sort_unstable();
            assert_eq!((found.numbers, found.first), (1, wanted.iter().map(ToString::to_string).collect()));
        }
        assert_eq!(of(&["1", "1.0", "1e0", "3.5", "35e-1"]).unwrap().numbers, 2);
    }

    #[test]
    fn other_names_are_not() {
        for names in [
            &["1", "2", "-1"][..],
            &["1.5", "1", "15"],
            &["01", "1"],
            &["1.", "1"],
            &["a1.0", "1"],
            &["1e9999999999999999999", "1"],
        ] {
            assert_eq!(of(names), None, "{names:?}");
        }
    }

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
        let (all, renumbering) = known.finish();
        let back = |&code: &u32| all.get(renumbering.code(code)).unwrap();
        assert!(codes[0].iter().map(back).eq(&names));
        let distinct: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!((all.len(), renumbering.code(NONE)), (distinct.len(), NONE));
    }

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

    #[test]
    fn a_name_that_came_lately_has_the_number_that_it_has() {
        let known = SharedInterner::new();
        let mut recent = CachedInterner::new(&known);
        // Many more names than slots, of every length, including the empty one.
        let names: Vec<Vec<u8>> =
            (0..20).flat_map(|length| (b'a'..b'm').map(move |byte| vec![byte; length])).collect();
        for name in names.iter().chain(&names).flat_map(|name| [name, name]) {
            assert_eq!(recent.code(Some(name)), known.code(name), "{name:?}");
        }
        assert_eq!(recent.code(None), NONE);
        let (all, _) = known.finish();
        assert_eq!(all.len(), 19 * 12 + 1);
    }

    #[test]
    fn names_that_differ_in_one_byte_are_told_apart() {
        for (length, at) in (1..=16).flat_map(|length| (0..length).map(move |at| (length, at))) {
            let [one, mut other] = [vec![b'a'; length], vec![b'a'; length]];
            other[at] = b'b';
            assert_ne!(Short::new(&one), Short::new(&other), "{at} of {length}");
        }
    }
}
