//! Texts of one record as numbers.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use twox_hash::XxHash3_128;

use crate::intern::SharedInterner;

/// Maximum capacity kept between records.
const MANY: usize = 1 << 10;

/// Numbers of texts, from 1 in order of appearance.
///
/// A text is identified by its XXH3-128 with a seed that differs between processes: no record can force
/// collisions.
pub(super) struct TextInterner {
    seed: u64,
    seen: HashMap<u128, u32, BuildHasherDefault<Hashed>>,
}

impl TextInterner {
    pub(super) fn new() -> Self {
        Self { seed: SharedInterner::seed(), seen: HashMap::default() }
    }

    /// Return the number of a text; a new one for a new text.
    pub(super) fn number(&mut self, text: &str) -> u32 {
        let next = u32::try_from(self.seen.len() + 1).unwrap_or(u32::MAX);
        let hash = XxHash3_128::oneshot_with_seed(self.seed, text.as_bytes());
        *self.seen.entry(hash).or_insert(next)
    }

    pub(super) fn len(&self) -> usize {
        self.seen.len()
    }

    /// Forget all texts.
    pub(super) fn clear(&mut self) {
        if self.seen.len() > MANY {
            self.seen = HashMap::default();
        }
        self.seen.clear();
    }
}

/// Hasher of values that are hashes already.
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
