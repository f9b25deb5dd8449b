//! Variance-optimal sampling of a stream: exactly k rows, from which the total weight of any set can be estimated.
//!
//! Of k + 1 rows one is let go, by probabilities that leave each row's expected estimate what it was:
//!
//! ```text
//! tau: sum_i min(1, w_i / tau) = k over the k + 1,    row i goes with probability 1 - min(1, w_i / tau)
//! ```
//!
//! Rows above tau (heavy) keep their weight; those under it (light) all count for tau from then on. Every row is held with
//! probability `min(1, w_i / tau)` of the whole stream, the estimates add up to the true total, and no unbiased scheme of k
//! rows has a smaller average variance of subset sums. Reference: Cohen, Duffield, Kaplan, Lund and Thorup 2009
//! (arXiv:0803.0473).

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::Estimated;
use crate::check::{check_length, check_positive, check_total, check_weights};
use crate::error::Result;
use crate::group::{check_rows, numbered};
use crate::rng::Purpose;
use crate::rng::keys::Keys;
use crate::rng::xxh3::Hashes;

/// An item above the threshold.
#[derive(Clone, Copy, Debug)]
struct Heavy<T> {
    weight: f64,
    item: T,
}

impl<T: Ord> Ord for Heavy<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.weight.total_cmp(&other.weight).then_with(|| self.item.cmp(&other.item))
    }
}

impl<T: Ord> PartialOrd for Heavy<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Ord> PartialEq for Heavy<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T: Ord> Eq for Heavy<T> {}

/// At most k items of a stream, and what each counts for.
#[derive(Clone, Debug)]
pub struct VarOpt<T> {
    k: usize,
    heavy: BinaryHeap<Reverse<Heavy<T>>>,
    light: Vec<T>,
    /// Total estimated weight of the light items.
    total: f64,
    /// Room for the items that become light together; empty between two items.
    fresh: Vec<Heavy<T>>,
}

impl<T: Copy + Ord> VarOpt<T> {
    /// Return a sample of at most k items, one or more, of a stream of which nothing has been seen.
    #[must_use]
    pub fn new(k: usize) -> Self {
        Self { k: k.max(1), heavy: BinaryHeap::new(), light: Vec::new(), total: 0.0, fresh: Vec::new() }
    }

    /// Take an item in; `u` decides which of k + 1 goes. An item without weight is passed over.
    ///
    /// Cost: constant for a light item, `log k` for one that is heavy or lets heavy ones become light.
    pub fn push(&mut self, item: T, weight: f64, u: f64) {
        if weight <= 0.0 {
            return;
        }
        if self.len() < self.k {
            self.heavy.push(Reverse(Heavy { weight, item }));
            return;
        }
        let (mut fresh, mut total) = (std::mem::take(&mut self.fresh), self.total);
        if weight > self.threshold() {
            self.heavy.push(Reverse(Heavy { weight, item }));
        } else {
            total += weight;
            fresh.push(Heavy { weight, item });
        }
        while let Some(Reverse(least)) = self.heavy.peek() {
            let others = (self.light.len() + fresh.len()) as f64 - 1.0;
            if total < others * least.weight {
                break;
            }
            total += least.weight;
            fresh.extend(self.heavy.pop().map(|Reverse(least)| least));
        }
        self.drop_one(fresh, total, u);
    }

    /// Let one of the light and fresh items go; the others count for their total from then on.
    fn drop_one(&mut self, mut fresh: Vec<Heavy<T>>, total: f64, u: f64) {
        let light = self.light.len();
        let threshold = total / ((light + fresh.len()) as f64 - 1.0);
        let mut left = u;
        let goes = fresh.iter().position(|one| {
            left -= 1.0 - one.weight / threshold;
            left < 0.0
        });
        if let Some(at) = goes {
            fresh.swap_remove(at);
        } else if light > 0 {
            // What is left of u is uniform over what is left of 1.
            let rest = fresh.iter().map(|one| one.weight / threshold - 1.0).sum::<f64>() + 1.0;
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a place, zero or more"
            )]
            let at = (left / rest * light as f64) as usize;
            self.light.swap_remove(at.min(light - 1));
        } else {
            fresh.pop();
        }
        self.light.extend(fresh.drain(..).map(|one| one.item));
        self.fresh = fresh;
        self.total = total;
    }

    /// Return the number of items held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heavy.len() + self.light.len()
    }

    /// Return whether there is no item.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Return the estimated weight of a light item; 0 where every item has been kept.
    #[must_use]
    pub fn threshold(&self) -> f64 {
        if self.light.is_empty() { 0.0 } else { self.total / self.light.len() as f64 }
    }

    /// Return the heavy items with their weights, by weight and then by item; then the light ones.
    #[must_use]
    pub fn items(&self) -> Vec<(T, f64)> {
        let mut heavy: Vec<Heavy<T>> = self.heavy.iter().map(|&Reverse(one)| one).collect();
        heavy.sort_unstable();
        let (heavy, threshold) = (heavy.into_iter().map(|one| (one.item, one.weight)), self.threshold());
        heavy.chain(self.light.iter().map(|&item| (item, threshold))).collect()
    }

    pub(crate) fn heavy_len(&self) -> usize {
        self.heavy.len()
    }

    /// Return the total estimated weight of all items: the total weight of the stream.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.heavy.iter().map(|Reverse(one)| one.weight).sum::<f64>() + self.total
    }

    pub(crate) fn light_total(&self) -> f64 {
        self.total
    }

    /// Return a sample with these items.
    pub(crate) fn of_parts(k: usize, heavy: Vec<(T, f64)>, light: Vec<T>, total: f64) -> Self {
        let heavy = heavy.into_iter().map(|(item, weight)| Reverse(Heavy { weight, item })).collect();
        Self { k, heavy, light, total, fresh: Vec::new() }
    }
}

/// Draw k rows of an array, or all rows that have a weight where there are fewer. The result is in row order.
///
/// The uniform of (seed, key of i) decides which row is dropped when row i is added, so that the draw depends on the
/// order of the rows. Shapes: all `[B]`. Cost: one pass, at most `log k` a row.
///
/// # Errors
/// [`Error::Weight`](crate::Error::Weight) for a weight that is negative, NaN or infinite;
/// [`Error::NotFinite`](crate::Error::NotFinite) for weights with a total that overflows;
/// [`Error::Length`](crate::Error::Length) where weights and keys differ in rows, or for more rows than a `u32` can
/// count; [`Error::Positive`](crate::Error::Positive) for k = 0.
pub fn draw(weights: &[f64], k: usize, keys: &Keys, seed: u64) -> Result<Estimated> {
    check_weights(weights)?;
    check_total(0.0, weights)?;
    check_length("keys", keys.len(), weights.len())?;
    check_rows(weights.len())?;
    check_positive("k", k as f64)?;
    let hashes = Hashes::new(seed, Purpose::Drop);
    let mut sample = VarOpt::new(k);
    for (row, &weight) in weights.iter().enumerate() {
        sample.push(numbered(row), weight, hashes.uniform(keys.get(row)));
    }
    let mut items = sample.items();
    items.sort_unstable_by_key(|&(row, _)| row);
    let (rows, estimates) = items.into_iter().unzip();
    Ok(Estimated { rows, threshold: sample.threshold(), estimates })
}
