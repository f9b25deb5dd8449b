//! The numbers of names that came lately: most categories have few names, and each of them comes again soon.

use crate::category::NONE;

/// A few short names with their numbers, each in the one place that its bytes say; the last that came there stays.
#[derive(Debug)]
pub(super) struct Recent(Box<[(Short, u32); PLACES]>);

const PLACES: usize = 64;

/// A name of at most 16 bytes in two words, and its length. Names of one length have the same words only if they are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Short {
    first: u64,
    last: u64,
    length: usize,
}

impl Default for Recent {
    fn default() -> Self {
        Self(Box::new([(Short::default(), NONE); PLACES]))
    }
}

impl Recent {
    /// The number of a name, if it came lately.
    #[inline]
    pub(super) fn code(&self, name: &[u8]) -> Option<u32> {
        let short = Short::new(name)?;
        let (known, code) = self.0[short.place()];
        (known == short && code != NONE).then_some(code)
    }

    /// Keeps a name that came.
    pub(super) fn learn(&mut self, name: &[u8], code: u32) {
        if let Some(short) = Short::new(name) {
            self.0[short.place()] = (short, code);
        }
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
    fn a_name_is_known_as_long_as_no_other_takes_its_place_and_never_by_another_number() {
        let mut recent = Recent::default();
        let names: Vec<Vec<u8>> =
            (0..20).flat_map(|length| (0..9).map(move |byte| vec![byte; length])).collect();
        for (code, name) in (0..).zip(&names) {
            assert_ne!(recent.code(name), Some(code));
            recent.learn(name, code);
            assert_eq!(recent.code(name), (name.len() <= 16).then_some(code), "{name:?}");
            for (other, known) in (0..=code).zip(&names) {
                // The empty name is nine times among them.
                assert!(
                    recent.code(known).is_none_or(|found| found == other || known.is_empty()),
                    "{known:?}"
                );
            }
        }
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
