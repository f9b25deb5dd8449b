//! One uniform number for each (seed, record, purpose): the same in any order, shard or thread.
//!
//! There is no generator and no state. A number is a hash of what it is for, so a draw is a pure function of
//! the seed and the records, and merging the draws of two shards is exact.
//!
//! The rejected alternative is a counter-based generator (Philox) over the same key: it costs about the same
//! and has a longer record of tests. `tests/all/distribution` holds the tests that this hash has to pass.

pub mod keys;
pub mod xxh3;

use twox_hash::{XxHash3_64, XxHash3_128};

/// Key of a record for random numbers: its id, and its rank among records of one id.
///
/// Ids come from [`id128`]. Records of one id differ in `ordinal`, their rank by the hash of their bytes, so that no
/// number depends on the position of a record in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The hash of the record's id, or of its bytes where it has none.
    pub id: u128,
    /// The rank among records of the same id, from 0.
    pub ordinal: u64,
}

impl Key {
    /// Return the key of row `index` of an array without ids: the index is the id.
    #[must_use]
    pub const fn of_index(index: usize) -> Self {
        Self { id: index as u128, ordinal: 0 }
    }

    /// Return the key as three words: low and high half of the id, and the ordinal.
    #[must_use]
    pub fn words(self) -> [u64; 3] {
        let bytes = self.id.to_le_bytes();
        let half = |from: usize| u64::from_le_bytes(std::array::from_fn(|at| bytes[from + at]));
        [half(0), half(8), self.ordinal]
    }

    /// Return the key of three words.
    #[must_use]
    pub const fn from_words([low, high, ordinal]: [u64; 3]) -> Self {
        Self { id: (high as u128) << 64 | low as u128, ordinal }
    }
}

/// Purpose of a random number. Numbers of one record for two purposes are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum Purpose {
    /// Drawn rows.
    Draw = 1,
    /// Order of writing of the drawn rows.
    Order = 2,
    /// Split of a group.
    Split = 3,
    /// Position of a draw with replacement on the cumulative weights.
    Point = 4,
    /// The numbers of a one-pass kernel, one after another.
    Stream = 5,
    /// Position of a draw in an alias table.
    Alias = 6,
    /// Row dropped from a variance-optimal sample when this one is added.
    Drop = 7,
    /// Row drawn at a place of a bootstrap resample.
    Resample = 8,
    /// Rows with flipped signs in a sign-flip test, 64 a number.
    Flip = 9,
    /// Group in the sample that is looked at before a draw.
    Inspect = 10,
    /// Answer that is rejected in favour of a drawn one.
    Rejected = 11,
}

/// 2^-52: the distance between two neighbours of [`uniform`].
const STEP: f64 = f64::EPSILON;

/// Return a uniform number in the open interval (0, 1).
///
/// ```text
/// u = (k + 1/2) * 2^-52,   k = top 52 bits of XXH3-64(id LE 16 bytes, ordinal LE 8, purpose LE 8; seed)
/// ```
///
/// Every value is an exact f64, 0 and 1 never come, and u and 1 - u have the same law. Not 2^-53: with 53
/// bits k + 1/2 has no f64 of its own at the top and rounds up, u is then 1, and [`gumbel`] of it infinite.
///
/// Cost: one 32-byte hash. Reference: XXH3 (xxHash 0.8).
#[must_use]
pub fn uniform(seed: u64, key: Key, purpose: Purpose) -> f64 {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&key.id.to_le_bytes());
    bytes[16..24].copy_from_slice(&key.ordinal.to_le_bytes());
    bytes[24..].copy_from_slice(&(purpose as u64).to_le_bytes());
    open(XxHash3_64::oneshot_with_seed(seed, &bytes))
}

/// Return the uniform number of a hash: its top 52 bits and a half.
#[inline(always)]
pub(crate) fn open(hash: u64) -> f64 {
    // Below 2^53 the cast and the sum are exact.
    ((hash >> 12) as f64 + 0.5) * STEP
}

/// Return the 128-bit id of a text or of a record's bytes: XXH3-128 with seed 0.
///
/// ```
/// assert_eq!(karl_core::rng::id128(b"a"), karl_core::rng::id128(b"a"));
/// assert_ne!(karl_core::rng::id128(b"a"), karl_core::rng::id128(b"b"));
/// ```
#[must_use]
pub fn id128(bytes: &[u8]) -> u128 {
    XxHash3_128::oneshot(bytes)
}

/// Return the standard Gumbel number of a uniform one: `g = -ln(-ln u)`.
///
/// Over the values of [`uniform`] it lies in [-3.61, 36.74]. Cost: two `log`.
#[must_use]
pub fn gumbel(u: f64) -> f64 {
    -libm::log(-libm::log(u))
}
