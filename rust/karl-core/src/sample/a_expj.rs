//! A weighted reservoir over a stream of unknown length, by exponential jumps: A-ExpJ (Efraimidis and Spirakis 2006).
//!
//! The law is that of [`gumbel`](super::gumbel): k of n without replacement, each next in proportion to weight among those
//! left. It needs about `k ln(n / k)` uniforms instead of n. The draw depends on the order of the stream, so it is for arrays
//! and iterators without ids; records of a log are drawn by [`reservoir`](super::reservoir).
//!
//! Keys are `ln(u) / w` throughout: `u^(1/w)` itself is 0 for w below 1e-3 and 1 for w above 1e15.
//!
//! Speed: random numbers and logarithms only where an item enters. Record: `benches/record/kernels.json`, "weighted
//! reservoir: n = 1,000,000, k = 10,000".

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::algorithm_l::stream;
use crate::check::check_logs;
use crate::error::Result;
use crate::group::check_rows;

/// Return a weighted reservoir of k rows of an array of log weights, to which any constant may be added.
///
/// # Errors
/// [`Error::NotFinite`](crate::Error::NotFinite) for a log weight that is NaN or plus infinity;
/// [`Error::Length`](crate::Error::Length) for more rows than a `u32` can count.
pub fn by_logs(log_weights: &[f64], k: usize, seed: u64) -> Result<Vec<u32>> {
    check_logs("log_weights", log_weights)?;
    check_rows(log_weights.len())?;
    let top = log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Ok(weighted_reservoir((0..).zip(log_weights.iter().map(|log| libm::exp(log - top))), k, stream(seed)))
}

/// An item in the reservoir; the heap has the smallest key on top.
struct ReservoirItem<T> {
    key: f64,
    item: T,
}

impl<T> Ord for ReservoirItem<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.total_cmp(&self.key)
    }
}

impl<T> PartialOrd for ReservoirItem<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for ReservoirItem<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for ReservoirItem<T> {}

/// Return a weighted reservoir of k of `items`, by descending key; all items of positive weight where there are
/// fewer.
///
/// ```text
/// fill     key = ln(u) / w
/// jump     X = ln(u) / T,  T the smallest key held; pass over items until their weights add up to X or more
/// insert   t = exp(w T),   key = ln(t + (1 - t) u) / w,    in place of the smallest
/// ```
///
/// Uniforms are used in that order, and a jump follows the filling and each insertion. Items of weight 0 are never
/// drawn; a weight has to be finite and not negative.
///
/// ```
/// use karl_core::sample::{algorithm_l::stream, a_expj::weighted_reservoir};
/// assert_eq!(weighted_reservoir([('a', 0.0), ('b', 2.0)], 2, stream(7)), ['b']);
/// ```
pub fn weighted_reservoir<T>(
    items: impl IntoIterator<Item = (T, f64)>,
    k: usize,
    mut uniforms: impl FnMut() -> f64,
) -> Vec<T> {
    let mut items = items.into_iter().filter(|&(_, weight)| weight > 0.0);
    let fill = items
        .by_ref()
        .take(k)
        .map(|(item, weight)| ReservoirItem { key: libm::log(uniforms()) / weight, item });
    let mut held: BinaryHeap<ReservoirItem<T>> = fill.collect();
    let Some(mut smallest) = held.peek().map(|held| held.key) else { return Vec::new() };
    let mut ahead = libm::log(uniforms()) / smallest;
    for (item, weight) in items {
        ahead -= weight;
        if ahead > 0.0 {
            continue;
        }
        let t = libm::exp(weight * smallest);
        let key = libm::log(t + (1.0 - t) * uniforms()) / weight;
        if let Some(mut last) = held.peek_mut() {
            *last = ReservoirItem { key, item };
        }
        smallest = held.peek().map_or(key, |held| held.key);
        ahead = libm::log(uniforms()) / smallest;
    }
    held.into_sorted_vec().into_iter().map(|held| held.item).collect()
}
