//! Search for signs, texts that a secret begins with or stands beside, at every position of a text.
//!
//! ```text
//! three bytes ──► hash ──► one bit of 8 KiB, set for about one position in fifty ──► the signs with those bytes
//! ```
//!
//! Each sign is found by its rarest three bytes. On x86-64 and ARM `sign_filter` first leaves out all but one position in sixteen,
//! 64 at a time; elsewhere the bits of all positions are read without a branch, so that the pass takes the same time for any
//! text.
//! An automaton over the 570 signs takes three times as long as the bits, because nearly every letter of English leads
//! somewhere in it; Teddy takes no more than about a hundred signs.

use super::base64_text::is_base64;
use super::outlines::is_separator;
use super::rare_bytes::{WIDTH, rarest};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::sign_filter::{OnCandidates, SignFilter, filter};

/// Positions of one step. Most strings of a row are short.
const STEP: usize = 16;

/// Number of bits: 16 are the upper half of a hash.
const BITS: usize = 1 << 16;

/// Number of lists of signs, by the upper bits of a hash.
const LISTS: usize = 1 << 12;

/// Sign that occurs in a text. Hits are ordered by their ends, at one end the longest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hit {
    pub(super) to: usize,
    pub(super) from: usize,
    pub(super) sign: usize,
}

/// Signs, each in the list of its rarest bytes.
pub(super) struct SignFinder {
    signs: Vec<Vec<u8>>,
    bits: Box<[u8; BITS / 8]>,
    /// Number of the first entry of each list, from 1; 0 for an empty one.
    lists: Box<[u16; LISTS]>,
    entries: Vec<Entry>,
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    filter: SignFilter,
}

/// Sign in a list.
struct Entry {
    sign: u16,
    /// Position of its rarest bytes.
    offset: u16,
    next: u16,
}

impl SignFinder {
    /// Prepare a search for signs of two bytes or more. One of two bytes counts where a token goes on behind it.
    pub(super) fn new(signs: impl IntoIterator<Item = String>) -> Self {
        let signs: Vec<Vec<u8>> = signs.into_iter().map(String::into_bytes).collect();
        let mut finder = Self {
            bits: Box::new([0; BITS / 8]),
            lists: Box::new([0; LISTS]),
            entries: Vec::new(),
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            filter: SignFilter::new(signs.iter().flat_map(|sign| keys(sign))),
            signs,
        };
        for number in 0..finder.signs.len() {
            let (offset, keys) = (rarest(&finder.signs[number]), keys(&finder.signs[number]));
            for key in keys {
                finder.add(number, offset, key);
            }
        }
        finder
    }

    #[cfg(test)]
    pub(super) fn signs(&self) -> impl Iterator<Item = &[u8]> {
        self.signs.iter().map(Vec::as_slice)
    }

    fn add(&mut self, sign: usize, offset: usize, [first, second, third]: [u8; WIDTH]) {
        let hash = hash([first, second, third, 0]);
        self.bits[hash / 8] |= 1 << (hash % 8);
        let list = &mut self.lists[hash / (BITS / LISTS)];
        let number = |number: usize| u16::try_from(number).unwrap_or_default();
        self.entries.push(Entry { sign: number(sign), offset: number(offset), next: *list });
        *list = number(self.entries.len());
    }

    /// Return the signs in a text, ordered, and show its other marks.
    pub(super) fn find(&self, text: &[u8], marks: &mut impl OnMarks) -> Vec<Hit> {
        // Code has a sign in 160 bytes.
        let mut hits = Vec::with_capacity(text.len() / 128);
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        let is_done =
            filter(&self.filter, text, &mut Candidates { finder: self, text, hits: &mut hits, marks });
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let is_done = false;
        if !is_done {
            self.find_without_vectors(text, &mut hits);
            show_marks(text, marks);
        }
        hits.sort_unstable();
        hits
    }

    fn find_without_vectors(&self, text: &[u8], hits: &mut Vec<Hit>) {
        let mut from = 0;
        while let Some(step) = text[from..].first_chunk::<{ STEP + WIDTH }>() {
            self.check(text, from, self.candidates(step), hits);
            from += STEP;
        }
        while from < text.len() {
            let mut step = [0; STEP + WIDTH];
            let length = (text.len() - from).min(STEP + WIDTH);
            step[..length].copy_from_slice(&text[from..from + length]);
            self.check(text, from, self.candidates(&step), hits);
            from += STEP;
        }
    }

    /// Return one bit for each position that may have the rarest bytes of a sign.
    #[inline]
    fn candidates(&self, step: &[u8; STEP + WIDTH]) -> u32 {
        let bits: [u32; STEP] = std::array::from_fn(|at| {
            u32::from(self.has(step[at..].first_chunk().copied().unwrap_or_default())) << at
        });
        bits.into_iter().fold(0, |all, bit| all | bit)
    }

    /// Return whether a sign may have the first three of these bytes.
    #[inline]
    fn has(&self, word: [u8; WIDTH + 1]) -> bool {
        let hash = hash(word);
        self.bits[hash / 8] >> (hash % 8) & 1 == 1
    }

    /// Add the signs around candidates.
    #[inline]
    fn check(&self, text: &[u8], from: usize, mut candidates: u32, hits: &mut Vec<Hit>) {
        while candidates != 0 {
            self.signs_around(text, from + candidates.trailing_zeros() as usize, hits);
            candidates &= candidates - 1;
        }
    }

    fn signs_around(&self, text: &[u8], at: usize, hits: &mut Vec<Hit>) {
        let mut number = self.lists[hash(word_at(text, at)) / (BITS / LISTS)];
        while let Some(entry) = usize::from(number).checked_sub(1).map(|index| &self.entries[index]) {
            let (sign, from) = (usize::from(entry.sign), at.wrapping_sub(usize::from(entry.offset)));
            let bytes = &self.signs[sign];
            let is_here = text.get(from..).is_some_and(|rest| rest.starts_with(bytes));
            if is_here && (bytes.len() >= WIDTH || text.get(from + 2).copied().is_some_and(continues)) {
                hits.push(Hit { to: from + bytes.len(), from, sign });
            }
            number = entry.next;
        }
    }
}

/// Return the rarest bytes of a sign: one key, or of a sign of two bytes one for each byte that may be behind it.
pub(super) fn keys(sign: &[u8]) -> Vec<[u8; WIDTH]> {
    match sign[rarest(sign)..] {
        [first, second, third, ..] => vec![[first, second, third]],
        [first, second] => {
            (0..=u8::MAX).filter(|&third| continues(third)).map(|third| [first, second, third]).collect()
        }
        _ => Vec::new(),
    }
}

/// Work on what is in a text beside signs.
pub(super) trait OnMarks {
    /// Take the position of a `.` or `-`.
    fn on_separator(&mut self, at: usize);

    /// Take which of the 64 bytes from a position on are letters of base64, a bit each.
    fn on_letters(&mut self, from: usize, letters: u64);
}

/// Show the marks of a text, one byte after the other.
fn show_marks(text: &[u8], marks: &mut impl OnMarks) {
    for (step, bytes) in text.chunks(64).enumerate() {
        let mut letters = 0;
        for (at, &byte) in bytes.iter().enumerate() {
            letters |= u64::from(is_base64(byte)) << at;
            if is_separator(byte) {
                marks.on_separator(64 * step + at);
            }
        }
        marks.on_letters(64 * step, letters);
    }
}

/// Candidates of the filter, which become hits if their bits are set and a sign is there.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
struct Candidates<'a, M> {
    finder: &'a SignFinder,
    text: &'a [u8],
    hits: &'a mut Vec<Hit>,
    marks: &'a mut M,
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
impl<M: OnMarks> OnCandidates for Candidates<'_, M> {
    #[inline(always)]
    fn on_step(&mut self, from: usize, mut candidates: u64, mut separators: u64, letters: u64) {
        while separators != 0 {
            self.marks.on_separator(from + separators.trailing_zeros() as usize);
            separators &= separators - 1;
        }
        self.marks.on_letters(from, letters);
        while candidates != 0 {
            let at = from + candidates.trailing_zeros() as usize;
            candidates &= candidates - 1;
            if self.finder.has(word_at(self.text, at)) {
                self.finder.signs_around(self.text, at, self.hits);
            }
        }
    }
}

/// Return the bytes from a position on; behind the end they are 0.
#[inline]
fn word_at(text: &[u8], at: usize) -> [u8; WIDTH + 1] {
    let word = text.get(at..).and_then(|rest| rest.first_chunk().copied());
    word.unwrap_or_else(|| std::array::from_fn(|index| text.get(at + index).copied().unwrap_or(0)))
}

/// Return whether a token may go on with a byte.
fn continues(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.~+".contains(&byte)
}

/// Return a number below [`BITS`] for the first three of four bytes.
#[inline]
fn hash(word: [u8; WIDTH + 1]) -> usize {
    // The shift drops the fourth byte. The factor is 2^32 over the golden ratio, which spreads near numbers far.
    ((u32::from_le_bytes(word) << 8).wrapping_mul(0x9e37_79b1) >> 16) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compare every sign with every position.
    fn find_naively(signs: &[&str], text: &str) -> Vec<Hit> {
        let at = |from: usize| {
            let here = move |&(_, sign): &(usize, &&str)| {
                let goes_on = || text.as_bytes().get(from + 2).copied().is_some_and(continues);
                text.as_bytes()[from..].starts_with(sign.as_bytes()) && (sign.len() > 2 || goes_on())
            };
            let signs = signs.iter().enumerate().filter(here);
            signs.map(move |(sign, bytes)| Hit { to: from + bytes.len(), from, sign })
        };
        let mut hits: Vec<Hit> = (0..text.len()).flat_map(at).collect();
        hits.sort_unstable();
        hits
    }

    #[derive(Default, Debug, PartialEq)]
    struct Seen {
        separators: Vec<usize>,
        letters: Vec<usize>,
    }

    impl OnMarks for Seen {
        fn on_separator(&mut self, at: usize) {
            self.separators.push(at);
        }

        fn on_letters(&mut self, from: usize, letters: u64) {
            self.letters.extend((0..64).filter(|at| letters >> at & 1 == 1).map(|at| from + at));
        }
    }

    fn is_naive(finder: &SignFinder, signs: &[&str], text: &str) {
        let wanted = find_naively(signs, text);
        let positions = |is: fn(u8) -> bool| {
            text.bytes().enumerate().filter(|&(_, byte)| is(byte)).map(|(at, _)| at).collect()
        };
        let marks = Seen { separators: positions(is_separator), letters: positions(is_base64) };
        let mut seen = Seen::default();
        assert_eq!((finder.find(text.as_bytes(), &mut seen), &seen), (wanted.clone(), &marks), "{text:?}");
        let (mut hits, mut seen) = (Vec::new(), Seen::default());
        finder.find_without_vectors(text.as_bytes(), &mut hits);
        show_marks(text.as_bytes(), &mut seen);
        hits.sort_unstable();
        assert_eq!((&hits, &seen), (&wanted, &marks), "{text:?}");
        #[cfg(target_arch = "x86_64")]
        if pulp::x86::V3::try_new().is_some() {
            let (mut hits, mut seen) = (Vec::new(), Seen::default());
            let mut work = Candidates { finder, text: text.as_bytes(), hits: &mut hits, marks: &mut seen };
            super::super::sign_filter::filter_by_256_bits(&finder.filter, text.as_bytes(), &mut work);
            hits.sort_unstable();
            assert_eq!((&hits, &seen), (&wanted, &marks), "{text:?}");
        }
    }

    #[test]
    fn marks_of_every_byte_are_seen() {
        let finder = SignFinder::new(["key".to_owned()]);
        let text: String = (0..=0x2ff_u32).filter_map(char::from_u32).collect();
        is_naive(&finder, &["key"], &text);
    }

    #[test]
    fn signs_are_found_wherever_they_begin_and_end() {
        let signs = ["s.", "key", "KEY", "_key", "://", "AKIA", "AKIA", "secret", "token=", "é_"];
        let finder = SignFinder::new(signs.map(str::to_owned));
        for text in ["", "s", "s.", "key", "ke", "a-key s.-", "AKIAKIA", "é_key", "xtoken=://secret_keys."] {
            for before in 0..2 * STEP + 2 {
                for behind in [0, 1, STEP] {
                    let text = "n".repeat(before) + text + &"\0".repeat(behind);
                    is_naive(&finder, &signs, &text);
                }
            }
        }
    }

    #[test]
    fn texts_of_pieces_of_signs_have_the_signs_that_a_naive_search_finds() {
        let signs = ["s.", "sk-", "sk-ant-", "task", "pass", "password", "-pat", "_pat", "$2a$", "\\$2a\\"];
        let finder = SignFinder::new(signs.map(str::to_owned));
        let pieces = ["s", "sk", "-", "ant-", "ta", "pass", "word", "_pat", "$2a", "\\", ".", "$"];
        let mut number = 1_usize;
        for _ in 0..2000 {
            let mut text = String::new();
            for _ in 0..30 {
                number = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                text.push_str(pieces[(number >> 40) % pieces.len()]);
            }
            is_naive(&finder, &signs, &text);
        }
    }
}
