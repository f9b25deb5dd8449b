//! The n-grams of ragged sequences, numbered without a hash: equal n-grams, and only those, have one number.

use std::ops::Range;

use crate::check::check_positive;
use crate::error::{Error, Result};
use crate::group::offsets::Offsets;
use crate::group::{Groups, numbered};
use crate::numeric::parallel;

/// Token ids end to end, and where each sequence of them begins.
#[derive(Clone, Copy, Debug)]
pub struct Sequences<'a> {
    tokens: &'a Groups<'a>,
    offsets: Offsets<'a>,
}

impl<'a> Sequences<'a> {
    /// Take tokens, each of which has an id, and the offsets of the sequences. Shapes: tokens `[T]`, offsets `[B +
    /// 1]`.
    ///
    /// # Errors
    /// [`Error::Outside`] for a token without an id (a negative number, a null); those of [`Offsets::new`].
    pub fn new(tokens: &'a Groups<'a>, offsets: &'a [i64]) -> Result<Self> {
        if let Some(index) = tokens.codes().iter().position(|&code| code == Groups::NONE) {
            let (value, low, high) = (-1.0, 0.0, f64::INFINITY);
            return Err(Error::Outside { what: "tokens", index, value, low, high });
        }
        Ok(Self { tokens, offsets: Offsets::new("offsets", offsets, tokens.rows())? })
    }

    /// Return the number of sequences.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Return whether there is no sequence.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// Return the number of tokens of each sequence.
    pub(super) fn lengths(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.offsets.rows().map(|row| row.len())
    }
}

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
/// [`Error::Positive`] for `n = 0`.
pub fn distinct_n(sequences: Sequences<'_>, n: usize, threads: usize) -> Result<f64> {
    let grams = Grams::of(sequences, n, threads)?;
    Ok(grams.distinct as f64 / grams.total() as f64)
}

/// The n-grams of one order. A sequence shorter than the order has none.
pub(super) struct Grams<'a> {
    sequences: Sequences<'a>,
    order: usize,
    /// The number of the n-gram that begins at each token; `Groups::NONE` where a sequence ends before it.
    codes: Vec<u32>,
    /// Number of distinct n-grams.
    pub(super) distinct: usize,
}

impl<'a> Grams<'a> {
    /// Return the n-grams of order `n`, which is 1 or more.
    pub(super) fn of(sequences: Sequences<'a>, n: usize, threads: usize) -> Result<Self> {
        check_positive("n", n as f64)?;
        let mut grams = Self::unigrams(sequences, threads);
        // Orders beyond the longest sequence are all empty alike.
        let longest = sequences.lengths().max().unwrap_or(0);
        for _ in 1..n.min(longest + 1) {
            grams = grams.extend(threads);
        }
        Ok(grams)
    }

    /// Return the tokens themselves.
    pub(super) fn unigrams(sequences: Sequences<'a>, threads: usize) -> Self {
        let tokens = sequences.tokens;
        let alone = |at| tokens.code(at).map_or(NO_PAIR, |code| pair(0, numbered(code)));
        let pairs: Vec<u64> = (0..tokens.rows()).map(alone).collect();
        // A list of names may hold some that no token has.
        let (codes, distinct) = number(&pairs, [1, tokens.len()], threads);
        Self { sequences, order: 1, codes, distinct }
    }

    /// Return the n-grams that are one token longer: each is a shorter one and the token after it.
    pub(super) fn extend(&self, threads: usize) -> Self {
        let Sequences { tokens, offsets } = self.sequences;
        let mut pairs = vec![NO_PAIR; self.codes.len()];
        for Range { start, end } in offsets.rows() {
            let last = end.saturating_sub(self.order).max(start);
            for (at, longer) in (start..).zip(&mut pairs[start..last]) {
                *longer =
                    tokens.code(at + self.order).map_or(NO_PAIR, |next| pair(self.codes[at], numbered(next)));
            }
        }
        let (codes, distinct) = number(&pairs, [self.distinct, tokens.len()], threads);
        Self { order: self.order + 1, codes, distinct, ..*self }
    }

    /// Return the number of sequences.
    pub(super) fn rows(&self) -> usize {
        self.sequences.len()
    }

    /// Return the numbers of the n-grams of a sequence.
    pub(super) fn row(&self, row: usize) -> &[u32] {
        let Range { start, end } = self.sequences.offsets.row(row);
        &self.codes[start..end.saturating_sub(self.order - 1).max(start)]
    }

    /// Return the number of n-grams.
    pub(super) fn total(&self) -> usize {
        (0..self.rows()).map(|row| self.row(row).len()).sum()
    }
}

/// Marker of no pair.
pub(super) const NO_PAIR: u64 = u64::MAX;

/// Two codes as one number; no code is `u32::MAX`, so no pair is [`NO_PAIR`].
pub(super) const fn pair(left: u32, right: u32) -> u64 {
    ((left as u64) << 32) | right as u64
}

/// Pairs of codes to dense codes in the order of the pairs, and how many there are. `counts` bounds the two codes.
///
/// Cost: linear where all possible pairs fit in a table like the column, as those of tool names do; else one sort, and
/// one binary search a pair.
pub(super) fn number(pairs: &[u64], counts: [usize; 2], threads: usize) -> (Vec<u32>, usize) {
    match counts[0].checked_mul(counts[1]) {
        Some(possible) if possible <= 2 * pairs.len() => number_dense(pairs, counts[1], possible),
        _ => number_any(pairs, threads),
    }
}

fn number_dense(pairs: &[u64], width: usize, possible: usize) -> (Vec<u32>, usize) {
    // No pair leads past the end of the table.
    let place = |pair: u64| if pair == NO_PAIR { possible } else { split(pair)[0] * width + split(pair)[1] };
    let mut table = vec![0; possible + 1];
    for &pair in pairs {
        table[place(pair)] = 1;
    }
    let mut count = 0;
    for seen in &mut table[..possible] {
        (*seen, count) = (count, count + *seen);
    }
    table[possible] = Groups::NONE;
    (pairs.iter().map(|&pair| table[place(pair)]).collect(), count as usize)
}

fn number_any(pairs: &[u64], threads: usize) -> (Vec<u32>, usize) {
    let mut distinct: Vec<u64> = pairs.iter().copied().filter(|&pair| pair != NO_PAIR).collect();
    distinct.sort_unstable();
    distinct.dedup();
    let mut codes = vec![Groups::NONE; pairs.len()];
    parallel::fill(&mut codes, threads, |first, block| {
        for (code, pair) in block.iter_mut().zip(&pairs[first..]) {
            *code = distinct.binary_search(pair).map_or(Groups::NONE, numbered);
        }
    });
    (codes, distinct.len())
}

/// Return the two codes of a pair.
#[allow(clippy::cast_possible_truncation, reason = "each half has 32 bits")]
pub(super) const fn split(pair: u64) -> [usize; 2] {
    [(pair >> 32) as usize, pair as u32 as usize]
}
