//! Texts within one record as numbers.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use twox_hash::XxHash3_128;

use crate::intern::SharedInterner;

/// How many texts there may be room for between records.
const MANY: usize = 1 << 10;

/// Numbers of texts, from 1 in order of appearance.
///
/// A text is known by its XXH3-128, whose seed differs from process to process: no record can be made to collide.
pub(super) struct TextInterner {
    seed: u64,
    seen: HashMap<u128, u32, BuildHasherDefault<Hashed>>,
}

impl TextInterner {
    pub(super) fn new() -> Self {
        Self { seed: SharedInterner::seed(), seen: HashMap::default() }
    }

    /// The number of a text, a new one where it was not seen before.
    pub(super) fn number(&mut self, text: &str) -> u32 {
        let next = u32::try_from(self.seen.len() + 1).unwrap_or(u32::MAX);
        let hash = XxHash3_128::oneshot_with_seed(self.seed, text.as_bytes());
        *self.seen.entry(hash).or_insert(next)
    }

    pub(super) fn len(&self) -> usize {
        self.seen.len()
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        if self.seen.len() > MANY {
            self.seen = HashMap::default();
        }
        self.seen.clear();
    }
}

/// What is hashed already.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }

    #[allow(clippy::cast_possible_truncation, reason = "the low half is as good as the whole")]
    fn write_u128(&mut self, hash: u128) {
        self.0 = hash as u64;
    }
}
