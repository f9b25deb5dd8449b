//! A uniform reservoir over a stream of unknown length, by skips: Algorithm L (Li 1994).
//!
//! The first k items fill the reservoir; then whole runs of items are passed over, and the next takes a random place. It
//! needs about `3 k ln(n / k)` uniforms instead of n. The draw depends on the order of the stream, so it is for arrays
//! and iterators without ids; records of a log are drawn by [`reservoir`](super::reservoir).
//!
//! Speed: random numbers only where an item enters. Record: `benches/record/kernels.json`, "uniform reservoir: n =
//! 1,000,000, k = 10,000".

use crate::rng::{Key, Purpose, uniform};

/// Uniforms of (seed, how many came before): the stream under the kernels of one pass.
pub fn stream(seed: u64) -> impl FnMut() -> f64 {
    let mut count = 0;
    move || {
        count += 1;
        uniform(seed, Key::of_index(count - 1), Purpose::Stream)
    }
}

/// One step of the algorithm: pass over `skip` items, then put the next one into `slot`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// Items to pass over.
    pub skip: u64,
    /// The place in the reservoir that the item after them takes.
    pub slot: usize,
}

/// The steps after the reservoir is full; they never end.
///
/// ```text
/// W = u^(1/k);   each step: skip = floor(ln u / ln(1 - W)), slot = floor(u k), W = W u^(1/k)
/// ```
///
/// Uniforms are used in that order.
#[derive(Debug)]
pub struct Jumps<U> {
    k: usize,
    /// The k-th smallest of the uniforms that the items passed so far would have had.
    largest: f64,
    uniforms: U,
}

impl<U: FnMut() -> f64> Jumps<U> {
    /// Steps for a reservoir of k items, one or more.
    pub fn new(k: usize, mut uniforms: U) -> Self {
        let k = k.max(1);
        let largest = root(uniforms(), k);
        Self { k, largest, uniforms }
    }
}

fn root(u: f64, k: usize) -> f64 {
    libm::exp(libm::log(u) / k as f64)
}

impl<U: FnMut() -> f64> Iterator for Jumps<U> {
    type Item = Jump;

    fn next(&mut self) -> Option<Jump> {
        let skip = libm::floor(libm::log((self.uniforms)()) / libm::log1p(-self.largest));
        let slot = libm::floor((self.uniforms)() * self.k as f64);
        self.largest *= root((self.uniforms)(), self.k);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturates; never negative"
        )]
        let jump = Jump { skip: skip as u64, slot: (slot as usize).min(self.k - 1) };
        Some(jump)
    }
}

/// Return a reservoir of k of `items`, in the order of its places; all items where there are fewer.
///
/// ```
/// use karl_core::sample::algorithm_l::{reservoir, stream};
/// assert_eq!(reservoir(0..3, 5, stream(7)), [0, 1, 2]);
/// assert_eq!(reservoir(0..1_000, 2, stream(7)).len(), 2);
/// ```
pub fn reservoir<T>(items: impl IntoIterator<Item = T>, k: usize, uniforms: impl FnMut() -> f64) -> Vec<T> {
    let mut items = items.into_iter();
    let mut held: Vec<T> = items.by_ref().take(k).collect();
    if k == 0 || held.len() < k {
        return held;
    }
    for Jump { skip, slot } in Jumps::new(k, uniforms) {
        let Some(item) = usize::try_from(skip).ok().and_then(|skip| items.nth(skip)) else { break };
        held[slot] = item;
    }
    held
}
