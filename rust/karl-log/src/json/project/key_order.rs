//! Order of keys, learned from record to record.
//!
//! An expected key is the text from the end of one value to the start of the next, `, "group": `, with the
//! child that its key selects. A text with the same beginning selects the same child; if none matches, the
//! key is parsed and learned.

/// Maximum length of a kept text: four words.
const LONGEST: usize = 32;

/// Maximum number of kept texts.
const MOST: usize = 64;

/// Maximum number of expected keys to skip, for keys that not every record has.
const NEAR: usize = 8;

/// Expected keys with their order, and the position in it.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyOrder {
    all: Vec<ExpectedKey>,
    next: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ExpectedKey {
    text: [u64; 4],
    /// All ones in the bytes of the text.
    mask: [u64; 4],
    pub(super) length: usize,
    /// Position of its object in the tree, and whether it is the first key there.
    place: usize,
    /// Child as returned by [`PathNode::child`](super::paths::PathNode::child).
    pub(super) child: usize,
}

impl KeyOrder {
    /// Begin a record.
    pub(super) fn restart(&mut self) {
        self.next = 0;
    }

    /// Return the next expected key if the text matches it.
    #[inline(always)]
    pub(super) fn follow(&mut self, bytes: &[u8], place: usize) -> Option<&ExpectedKey> {
        let habit = self.all.get(self.next).filter(|habit| habit.place == place && habit.fits(bytes))?;
        self.next += 1;
        Some(habit)
    }

    /// Keep a parsed key; the order continues after it.
    pub(super) fn learn(&mut self, text: &[u8], place: usize, child: usize) {
        let near = self.all.iter().skip(self.next).take(NEAR);
        let known = near.enumerate().find(|(_, habit)| habit.is(text, place)).map(|(at, _)| self.next + at);
        if known.is_none() && (text.len() > LONGEST || self.all.len() == MOST) {
            return;
        }
        let at = known.unwrap_or(self.next);
        if known.is_none() {
            self.all.insert(at, ExpectedKey::new(text, place, child));
        }
        self.next = at + 1;
    }
}

impl ExpectedKey {
    fn new(text: &[u8], place: usize, child: usize) -> Self {
        let (mut bytes, mut mask) = ([0; LONGEST], [0; LONGEST]);
        bytes[..text.len()].copy_from_slice(text);
        mask[..text.len()].fill(u8::MAX);
        Self { text: words(&bytes), mask: words(&mask), length: text.len(), place, child }
    }

    /// Return whether bytes begin with the text.
    #[inline(always)]
    fn fits(&self, bytes: &[u8]) -> bool {
        let Some(bytes) = bytes.first_chunk() else { return self.fits_end(bytes) };
        let ([a, b, c, d], [text, mask]) = (words(bytes), [&self.text, &self.mask]);
        let other = ((a ^ text[0]) & mask[0]) | ((b ^ text[1]) & mask[1]);
        other | ((c ^ text[2]) & mask[2]) | ((d ^ text[3]) & mask[3]) == 0
    }

    /// Return the same for fewer bytes than the maximum length of a text.
    #[inline(never)]
    fn fits_end(&self, bytes: &[u8]) -> bool {
        bytes.starts_with(&self.text.map(u64::to_le_bytes).as_flattened()[..self.length])
    }

    fn is(&self, text: &[u8], place: usize) -> bool {
        self.place == place && self.length == text.len() && self.fits_end(text)
    }
}

#[inline(always)]
fn words(bytes: &[u8; LONGEST]) -> [u64; 4] {
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[8 * at + byte]));
    [word(0), word(1), word(2), word(3)]
}
