//! A variance-optimal sample that is filled in parts and merged.

use super::codec::{Reader, SketchKind, Writer};
use crate::check::{check_length, check_positive, check_total, check_weights};
use crate::error::{Error, Result};
use crate::rng::keys::Keys;
use crate::rng::xxh3::Hashes;
use crate::rng::{Key, Purpose};
use crate::sample::var_opt;

/// First bit of the ordinal that numbers the rounds: no log has so many records of one id.
const ROUNDS_FROM: u32 = 40;

/// At most k items of a stream of (key, weight), and what each counts for.
///
/// Which item goes when one comes is decided by the uniform of (seed, key of the one that comes). So the same items in the
/// same order leave the same sample; in another order, or in parts that are merged, they leave another draw of the same law.
/// Keys have to differ.
#[derive(Clone, Debug)]
pub struct VarOptSketch {
    k: usize,
    seed: u64,
    /// Depth of merges below this state: an item that is added again needs another number.
    round: u64,
    hashes: Hashes,
    sample: var_opt::VarOpt<Key>,
}

impl VarOptSketch {
    /// Return a state that has seen nothing.
    ///
    /// # Errors
    /// [`Error::Positive`] for k = 0.
    pub fn new(k: usize, seed: u64) -> Result<Self> {
        check_positive("k", k as f64)?;
        Ok(Self::of(k, seed, 0, var_opt::VarOpt::new(k)))
    }

    fn of(k: usize, seed: u64, round: u64, sample: var_opt::VarOpt<Key>) -> Self {
        Self { k, seed, round, hashes: Hashes::new(seed, Purpose::Drop), sample }
    }

    /// Take items in, one after the other. On error nothing is taken. Shapes: all `[B]`.
    ///
    /// # Errors
    /// [`Error::Length`] where keys and weights differ in number; [`Error::Weight`] for a weight that is negative, NaN or
    /// infinite; [`Error::NotFinite`] where the total of all weights overflows.
    pub fn update(&mut self, keys: &Keys, weights: &[f64]) -> Result<()> {
        check_length("weights", weights.len(), keys.len())?;
        check_weights(weights)?;
        check_total(self.sample.total(), weights)?;
        keys.iter().zip(weights).for_each(|(key, &weight)| self.push(key, weight));
        Ok(())
    }

    fn push(&mut self, key: Key, weight: f64) {
        let ordinal = key.ordinal.wrapping_add(self.round << ROUNDS_FROM);
        self.sample.push(key, weight, self.hashes.uniform(Key { ordinal, ..key }));
    }

    /// Take in the items of another state for what they count there: exact in law, with a draw of its own. On error
    /// nothing is taken.
    ///
    /// # Errors
    /// [`Error::Merge`] for a state of another k or seed; [`Error::NotFinite`] where the total of both overflows.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        let settings = [("k", self.k == other.k), ("seed", self.seed == other.seed)];
        if let Some((differs, _)) = settings.into_iter().find(|&(_, same)| !same) {
            return Err(Error::Merge { what: SketchKind::VarOpt.name(), differs });
        }
        check_total(self.sample.total(), &[other.sample.total()])?;
        self.round = self.round.max(other.round).wrapping_add(1);
        other.sample.items().into_iter().for_each(|(key, weight)| self.push(key, weight));
        Ok(())
    }

    /// Return the items held and what each counts for: heavy ones by rising weight, then the light ones.
    #[must_use]
    pub fn items(&self) -> Vec<(Key, f64)> {
        self.sample.items()
    }

    /// Return the estimated weight of a light item; 0 where every item has been kept.
    #[must_use]
    pub fn threshold(&self) -> f64 {
        self.sample.threshold()
    }

    /// Return the largest number of items.
    #[must_use]
    pub const fn k(&self) -> usize {
        self.k
    }

    /// Return the seed of the uniforms.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Return the state as bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Writer::new(SketchKind::VarOpt);
        for number in [self.k as u64, self.seed, self.round] {
            bytes.number(number);
        }
        bytes.float(self.sample.light_total());
        let heavy = self.sample.heavy_len();
        bytes.number(heavy as u64);
        for (at, (key, weight)) in self.sample.items().into_iter().enumerate() {
            bytes.key(key);
            if at < heavy {
                bytes.float(weight);
            }
        }
        bytes.finish()
    }

    /// Return the state of bytes, which goes on as the one that was written would have.
    ///
    /// # Errors
    /// [`Error::Bytes`] for bytes that no state was written as.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut bytes = Reader::open(SketchKind::VarOpt, bytes)?;
        let (k, seed, round) = (bytes.count()?, bytes.number()?, bytes.number()?);
        let total = bytes.float()?;
        let (mut heavy, mut light): (Vec<(Key, f64)>, Vec<Key>) = Default::default();
        for _ in 0..bytes.number()? {
            heavy.push((bytes.key()?, bytes.float()?));
        }
        while !bytes.is_empty() {
            light.push(bytes.key()?);
        }
        let weighed = heavy.iter().all(|&(_, weight)| weight > 0.0 && weight.is_finite());
        let sorted = heavy.is_sorted_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)).is_le());
        bytes.require(weighed && sorted, "an item is out of place")?;
        let held = heavy.len() + light.len();
        let counted = if light.is_empty() { total.to_bits() == 0 && held <= k } else { held == k };
        bytes
            .require(k > 0 && counted && total >= 0.0 && total.is_finite(), "its parts do not go together")?;
        Ok(Self::of(k, seed, round, var_opt::VarOpt::of_parts(k, heavy, light, total)))
    }
}
