//! The items of the largest keys, of a stream in any order and in any parts.

use std::cmp::Ordering;

use super::codec::{Reader, SketchKind, Writer};
use crate::check::{check_length, check_logs, check_weights};
use crate::error::{Error, Result};
use crate::rng::keys::Keys;
use crate::rng::xxh3::Hashes;
use crate::rng::{Key, Purpose, gumbel};
use crate::sample::gumbel::inclusion;
use crate::sample::pps::share;
use crate::sample::priority::priority;

/// Law of the ranks of items: which size an item has, and which items are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// Log weight plus Gumbel number: k without replacement, Plackett-Luce ([`gumbel`](crate::sample::gumbel)).
    Gumbel,
    /// Minus the uniform: k without replacement, all alike ([`reservoir`](crate::sample::reservoir)). Sizes are not looked at.
    Uniform,
    /// Weight over uniform: estimates of totals ([`priority`](crate::sample::priority)).
    Priority,
}

impl Law {
    fn rank(self, size: f64, u: f64) -> f64 {
        match self {
            Self::Gumbel => size + gumbel(u),
            Self::Uniform => -u,
            Self::Priority => priority(size, u),
        }
    }

    fn check(self, sizes: &[f64]) -> Result<()> {
        match self {
            Self::Gumbel => check_logs("log_weights", sizes),
            Self::Uniform => Ok(()),
            Self::Priority => check_weights(sizes),
        }
    }

    /// Return the name of the argument with the sizes.
    const fn sizes(self) -> &'static str {
        if matches!(self, Self::Gumbel) { "log_weights" } else { "weights" }
    }

    fn kind(self) -> SketchKind {
        match self {
            Self::Gumbel => SketchKind::Gumbel,
            Self::Uniform => SketchKind::Uniform,
            Self::Priority => SketchKind::Priority,
        }
    }

    /// Return whether an item of this size can be in a state; unused sizes are 0.
    fn holds(self, size: f64) -> bool {
        match self {
            Self::Gumbel => size.is_finite(),
            Self::Uniform => size.to_bits() == 0,
            Self::Priority => size > 0.0 && size.is_finite(),
        }
    }
}

/// An item that is held.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TopEntry {
    /// The rank, by which items are ordered.
    pub rank: f64,
    /// The item.
    pub key: Key,
    /// Its weight or log weight, as the law has it.
    pub size: f64,
}

impl TopEntry {
    /// Compare by falling rank; a total order, so that a state has one form.
    fn order(&self, other: &Self) -> Ordering {
        let by_rank = other.rank.total_cmp(&self.rank).then(self.key.cmp(&other.key));
        by_rank.then(self.size.total_cmp(&other.size))
    }
}

/// The k + 1 items of the largest ranks; the last of them is the threshold of the others.
///
/// An item's rank follows from (seed, key, size) alone, so any parts in any order leave the same state. An item that comes
/// twice with one size counts once; with two sizes it is two items. An item without weight is passed over.
///
/// ```
/// use karl_core::rng::keys::Keys;
/// use karl_core::rng::Key;
/// use karl_core::sketch::{Law, TopK};
/// let keys: Vec<Key> = (0..100).map(Key::of_index).collect();
/// let (mut whole, mut first, mut last) = (TopK::new(Law::Uniform, 5, 7), TopK::new(Law::Uniform, 5, 7), TopK::new(Law::Uniform, 5, 7));
/// whole.update(&Keys::given(keys.clone()), None)?;
/// first.update(&Keys::given(keys[..30].to_vec()), None)?;
/// last.update(&Keys::given(keys[30..].to_vec()), None)?;
/// last.merge(&first)?;
/// assert_eq!(last.to_bytes(), whole.to_bytes());
/// # Ok::<(), karl_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TopK {
    law: Law,
    k: usize,
    seed: u64,
    hashes: Hashes,
    /// Among others the items of the k + 1 largest ranks.
    held: Vec<TopEntry>,
    /// A rank that k + 1 items have reached.
    least: f64,
}

impl TopK {
    /// Return a state that has seen nothing.
    #[must_use]
    pub fn new(law: Law, k: usize, seed: u64) -> Self {
        let hashes = Hashes::new(seed, Purpose::Draw);
        Self { law, k, seed, hashes, held: Vec::new(), least: f64::NEG_INFINITY }
    }

    /// Take items in, with their sizes where the law looks at them. On error nothing is taken. Shapes: all `[B]`.
    ///
    /// Cost: one hash an item and two logarithms at most; `log k` for one that is held.
    ///
    /// # Errors
    /// [`Error::Length`] where keys and sizes differ in number; [`Error::NotFinite`] for a log weight that is NaN or plus
    /// infinity; [`Error::Weight`] for a weight that is negative, NaN or infinite.
    pub fn update(&mut self, keys: &Keys, sizes: Option<&[f64]>) -> Result<()> {
        if let Some(sizes) = sizes {
            check_length(self.law.sizes(), sizes.len(), keys.len())?;
            self.law.check(sizes)?;
        }
        for (row, key) in keys.iter().enumerate() {
            // Minus zero is zero: equal sizes have equal bits.
            let size = sizes.map_or(0.0, |sizes| sizes[row] + 0.0);
            self.push(key, size);
        }
        Ok(())
    }

    fn push(&mut self, key: Key, size: f64) {
        let rank = self.law.rank(size, self.hashes.uniform(key));
        if rank >= self.least && rank > f64::NEG_INFINITY {
            self.held.push(TopEntry { rank, key, size });
            if self.held.len() >= self.room().saturating_mul(2).max(64) {
                self.drop_extra();
            }
        }
    }

    fn room(&self) -> usize {
        self.k.saturating_add(1)
    }

    /// Leave the k + 1 largest, each once, in their order.
    fn drop_extra(&mut self) {
        self.held.sort_unstable_by(TopEntry::order);
        self.held.dedup();
        self.held.truncate(self.room());
        if self.held.len() == self.room() {
            self.least = self.held.last().map_or(self.least, |last| last.rank);
        }
    }

    /// Take in what another state has seen. On error nothing is taken.
    ///
    /// # Errors
    /// [`Error::Merge`] for a state of another law, k or seed.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        let what = self.law.kind().name();
        let settings =
            [("law", self.law == other.law), ("k", self.k == other.k), ("seed", self.seed == other.seed)];
        if let Some((differs, _)) = settings.into_iter().find(|&(_, same)| !same) {
            return Err(Error::Merge { what, differs });
        }
        self.held.extend(&other.held);
        self.drop_extra();
        Ok(())
    }

    /// Return the k items drawn, by falling rank, and the rank of the next; all items that have a weight, and no
    /// rank, where there are no more.
    pub fn drawn(&mut self) -> (&[TopEntry], Option<f64>) {
        self.drop_extra();
        let next = self.held.get(self.k).map(|next| next.rank);
        (&self.held[..self.held.len().min(self.k)], next)
    }

    /// Return the probability of an item drawn, given the ranks of all others: what an estimate divides by.
    ///
    /// ```text
    /// gumbel  1 - exp(-w exp(-threshold))        uniform  -threshold        priority  min(1, w / threshold)
    /// ```
    #[must_use]
    pub fn inclusion(&self, entry: &TopEntry, threshold: Option<f64>) -> f64 {
        let Some(threshold) = threshold else { return 1.0 };
        match self.law {
            Law::Gumbel => inclusion(entry.size, Some(threshold)),
            Law::Uniform => -threshold,
            Law::Priority => share(entry.size, threshold),
        }
    }

    /// Return the law.
    #[must_use]
    pub const fn law(&self) -> Law {
        self.law
    }

    /// Return the number of items to draw.
    #[must_use]
    pub const fn k(&self) -> usize {
        self.k
    }

    /// Return the seed of the uniforms.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Return the state as bytes: the same for the same items in any order and parts.
    #[must_use]
    pub fn to_bytes(&mut self) -> Vec<u8> {
        self.drop_extra();
        let mut bytes = Writer::new(self.law.kind());
        bytes.number(self.k as u64);
        bytes.number(self.seed);
        for entry in &self.held {
            bytes.key(entry.key);
            bytes.float(entry.size);
        }
        bytes.finish()
    }

    /// Return the state of bytes. Ranks are computed anew.
    ///
    /// # Errors
    /// [`Error::Bytes`] for bytes that no state of this law was written as.
    pub fn from_bytes(law: Law, bytes: &[u8]) -> Result<Self> {
        let mut bytes = Reader::open(law.kind(), bytes)?;
        let mut state = Self::new(law, bytes.count()?, bytes.number()?);
        while !bytes.is_empty() {
            let (key, size) = (bytes.key()?, bytes.float()?);
            let entry = TopEntry { rank: law.rank(size, state.hashes.uniform(key)), key, size };
            let follows = state.held.last().is_none_or(|last| last.order(&entry).is_lt());
            bytes.require(law.holds(size) && follows, "an item is out of place")?;
            state.held.push(entry);
        }
        bytes.require(state.held.len() <= state.room(), "there are more than k + 1 items")?;
        state.drop_extra();
        Ok(state)
    }
}
