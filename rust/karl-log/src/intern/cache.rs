//! Cache of recently used names: most categories have few names, and each recurs soon.

use super::SharedInterner;
use crate::intern::NONE;

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

#[cfg(test)]
mod tests {
    use super::*;

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
