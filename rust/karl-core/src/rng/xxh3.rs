//! The hash under [`uniform`](crate::rng::uniform) for whole columns: what depends on the seed alone is computed once, and
//! what is left of a row is one multiplication for the key and one for the last mixing, over as many lanes as there are.
//!
//! ```text
//! hash = mix(32 P + fold(low ^ (s0 + seed), high ^ (s1 - seed)) + fold(ordinal ^ (s2 + seed), purpose ^ (s3 - seed)))
//! fold(a, b) = low half of a b ^ high half of a b
//! ```
//!
//! That is XXH3-64 of 32 bytes, with the words s0 to s3 of its secret. The crate that hashes texts takes one input at a
//! time, and so leaves the lanes empty. Reference: XXH3 (xxHash 0.8), inputs of 17 to 32 bytes.
//!
//! Speed: the part of the hash that depends on the seed alone is computed once a column. Record:
//! `benches/record/instructions.json`, `core::gumbel_keys`.

use crate::rng::{Key, Purpose};

/// The first 32 bytes of XXH3's secret.
const SECRET: [u64; 4] =
    [0xbe4b_a423_396c_feb8, 0x1cad_21f7_2c81_017c, 0xdb97_9083_e96d_d4de, 0x1f67_b3b7_a4a4_4072];

const PRIME: u64 = 0x9e37_79b1_85eb_ca87;
const MIX: u64 = 0x1656_6791_9e37_79f9;

/// The hashes of one seed and purpose.
///
/// ```
/// use karl_core::rng::xxh3::Hashes;
/// use karl_core::rng::{Key, Purpose, uniform};
/// let hashes = Hashes::new(7, Purpose::Draw);
/// let key = Key { id: 1 << 100, ordinal: 3 };
/// assert_eq!(hashes.uniform(key), uniform(7, key, Purpose::Draw));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Hashes {
    secret: [u64; 4],
    /// Term of ordinal and purpose for a key of ordinal 0.
    first: u64,
}

impl Hashes {
    /// Return the hashes of this seed and purpose.
    #[must_use]
    pub fn new(seed: u64, purpose: Purpose) -> Self {
        let [low, high, ordinal, last] = SECRET;
        let secret = [
            low.wrapping_add(seed),
            high.wrapping_sub(seed),
            ordinal.wrapping_add(seed),
            last.wrapping_sub(seed) ^ purpose as u64,
        ];
        Self { secret, first: PRIME.wrapping_mul(32).wrapping_add(fold(secret[2], secret[3])) }
    }

    /// Return the hash of a row with its index as id.
    #[inline(always)]
    #[must_use]
    pub fn of_index(&self, index: usize) -> u64 {
        mix(self.first.wrapping_add(fold(self.secret[0] ^ index as u64, self.secret[1])))
    }

    /// Return the hash of a key.
    #[inline(always)]
    #[must_use]
    pub fn of(&self, key: Key) -> u64 {
        let [low, high, ordinal] = key.words();
        let id = fold(self.secret[0] ^ low, self.secret[1] ^ high);
        let rest = fold(self.secret[2] ^ ordinal, self.secret[3]);
        mix(PRIME.wrapping_mul(32).wrapping_add(id).wrapping_add(rest))
    }

    /// Return the uniform number of a key: [`uniform`](crate::rng::uniform) to the bit.
    #[must_use]
    pub fn uniform(&self, key: Key) -> f64 {
        crate::rng::open(self.of(key))
    }
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "both halves of the product are used")]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline(always)]
fn mix(sum: u64) -> u64 {
    let hash = (sum ^ (sum >> 37)).wrapping_mul(MIX);
    hash ^ (hash >> 32)
}
