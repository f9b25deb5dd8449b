//! The share of n-grams that differ.

use super::ngram::{Grams, Sequences};
use crate::error::Result;

/// Compute distinct-n: the share of different n-grams among all of them, pooled over the sequences.
///
/// ```text
/// distinct_n = (number of different n-grams) / (number of n-grams)
/// ```
///
/// An n-gram never spans two sequences. It lies in (0, 1], and falls as a set grows even where its variety does not:
/// compare sets of like size. NaN where no sequence has n tokens. Cost: as numbering n-grams n - 1 times. Reference: Li
/// et al. 2016 (arXiv:1510.03055).
///
/// # Errors
/// [`Error::Positive`](crate::Error::Positive) for `n = 0`.
pub fn distinct_n(sequences: Sequences<'_>, n: usize, threads: usize) -> Result<f64> {
    let grams = Grams::of(sequences, n, threads)?;
    Ok(grams.distinct as f64 / grams.total() as f64)
}
