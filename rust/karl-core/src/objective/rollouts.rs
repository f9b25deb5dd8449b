//! Rollouts as every objective reads them: log-probabilities under up to three policies, and which tokens count.

use std::ops::Range;

use super::arithmetic::{RealArithmetic, sum_of_kept, sum_of_kept_differences};
use crate::check::check_length;
use crate::error::{Error, Result};
use crate::group::offsets::Offsets;
use crate::numeric::Real;
use crate::numeric::parallel::each;
use crate::numeric::simd::SIDE;

/// Tokens of a piece: its columns stay in the first-level cache.
pub(super) const PIECE: usize = 1024;

/// The tokens of all rollouts, end to end. A masked token enters no sum, whatever its values.
#[derive(Clone, Copy, Debug)]
pub struct Rollouts<'a, T> {
    pub(super) logp: &'a [T],
    pub(super) old: Option<&'a [T]>,
    pub(super) reference: Option<&'a [T]>,
    pub(super) mask: &'a [bool],
    pub(super) offsets: Offsets<'a>,
}

impl<'a, T: RealArithmetic> Rollouts<'a, T> {
    /// Take the log-probabilities of the tokens under the policy, under the behaviour policy and under the reference,
    /// which tokens count, and where each rollout begins.
    ///
    /// Shapes: columns `[N]`, `offsets` `[B + 1]`.
    ///
    /// # Errors
    /// [`Error::Length`] where columns differ in length.
    pub fn new(
        logp: &'a [T],
        old: Option<&'a [T]>,
        reference: Option<&'a [T]>,
        mask: &'a [bool],
        offsets: Offsets<'a>,
    ) -> Result<Self> {
        check_length("logp", logp.len(), offsets.values())?;
        check_length("mask", mask.len(), logp.len())?;
        check_length("logp_old", old.map_or(logp.len(), <[T]>::len), logp.len())?;
        check_length("logp_ref", reference.map_or(logp.len(), <[T]>::len), logp.len())?;
        Ok(Self { logp, old, reference, mask, offsets })
    }

    /// Return the column of the behaviour policy.
    pub(super) fn behaviour(&self) -> Result<&'a [T]> {
        self.old.ok_or(Error::Length { what: "logp_old", got: 0, wanted: self.logp.len() })
    }

    /// Return the error of the first token that counts with a log-probability or log ratio that is not finite.
    #[cold]
    #[inline(never)]
    pub(super) fn fault(&self) -> Option<Error> {
        let old = self.old.unwrap_or(self.logp);
        (0..self.logp.len()).filter(|&at| self.mask[at]).find_map(|at| {
            not_finite("logp", at, self.logp[at])
                .or_else(|| not_finite("logp_old", at, old[at]))
                .or_else(|| not_finite("log_ratio", at, self.logp[at] - old[at]))
        })
    }

    /// Return the number of rollouts.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.offsets.len()
    }

    /// Return the number of tokens of some rollouts.
    pub(super) fn tokens(&self, rows: &Range<usize>) -> usize {
        self.offsets.begin(rows.end) - self.offsets.begin(rows.start)
    }

    /// Return the tokens of a rollout from the first that counts to the last: padding is not read.
    #[inline(always)]
    pub(super) fn live(&self, row: usize) -> Range<usize> {
        let tokens = self.offsets.row(row);
        let keep = &self.mask[tokens.clone()];
        let Some(start) = first_kept(keep) else { return tokens.start..tokens.start };
        tokens.start + start..tokens.start + last_kept(keep) + 1
    }

    /// Cut the live tokens of a rollout from the beginning of a column, clear those around them, and return the rest.
    #[inline(always)]
    pub(super) fn split<'c>(&self, row: usize, column: &'c mut [T]) -> (&'c mut [T], &'c mut [T]) {
        let (tokens, live) = (self.offsets.row(row), self.live(row));
        let (own, rest) = column.split_at_mut(tokens.len());
        let (own, after) = own.split_at_mut(live.end - tokens.start);
        let (before, own) = own.split_at_mut(live.start - tokens.start);
        before.fill(T::default());
        after.fill(T::default());
        (own, rest)
    }

    /// Return some tokens.
    #[inline(always)]
    pub(super) fn part(&self, tokens: Range<usize>) -> RolloutPart<'a, T> {
        RolloutPart {
            logp: &self.logp[tokens.clone()],
            old: self.old.map(|old| &old[tokens.clone()]),
            reference: self.reference.map(|reference| &reference[tokens.clone()]),
            keep: &self.mask[tokens],
        }
    }
}

/// Some tokens of one rollout.
#[derive(Clone, Copy)]
pub(super) struct RolloutPart<'a, T> {
    pub(super) logp: &'a [T],
    pub(super) old: Option<&'a [T]>,
    pub(super) reference: Option<&'a [T]>,
    pub(super) keep: &'a [bool],
}

impl<T: RealArithmetic> RolloutPart<'_, T> {
    #[inline(always)]
    pub(super) fn cut(&self, tokens: Range<usize>) -> Self {
        Self {
            logp: &self.logp[tokens.clone()],
            old: self.old.map(|old| &old[tokens.clone()]),
            reference: self.reference.map(|reference| &reference[tokens.clone()]),
            keep: &self.keep[tokens],
        }
    }

    /// Return its tokens in pieces that stay in the first-level cache.
    #[inline(always)]
    pub(super) fn pieces(&self) -> impl Iterator<Item = Self> {
        let n = self.len();
        (0..n).step_by(PIECE).map(move |first| self.cut(first..n.min(first + PIECE)))
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.keep.len()
    }

    #[inline(always)]
    pub(super) fn kept(&self) -> usize {
        kept(self.keep)
    }

    /// Return the sum of the log-probabilities.
    #[inline(always)]
    pub(super) fn kept_sum(&self) -> f64 {
        sum_of_kept(self.logp, self.keep)
    }

    /// Return the sum of the log ratios to another policy.
    #[inline(always)]
    pub(super) fn kept_sum_over(&self, other: &[T]) -> f64 {
        sum_of_kept_differences(self.logp, other, self.keep)
    }

    /// Return the sum of the log ratios to the behaviour policy; 0 without one.
    #[inline(always)]
    pub(super) fn sum_log_ratio(&self) -> f64 {
        // No closure: it would be compiled apart, for narrow vectors.
        match self.old {
            Some(old) => sum_of_kept_differences(self.logp, old, self.keep),
            None => 0.0,
        }
    }

    /// Fill a column with the log ratio to another policy, 0 for masked tokens.
    #[inline(always)]
    pub(super) fn log_ratios(&self, other: &[T], out: &mut [T]) {
        let given = self.logp.iter().zip(other).zip(self.keep);
        for (out, ((&logp, &other), &keep)) in out.iter_mut().zip(given) {
            *out = if keep { logp - other } else { T::default() };
        }
    }

    /// Fill a column with the ratio to another policy, 1 for masked tokens.
    #[inline(always)]
    pub(super) fn ratios(&self, other: &[T], out: &mut [T]) {
        let given = self.logp.iter().zip(other).zip(self.keep);
        for (out, ((&logp, &other), &keep)) in out.iter_mut().zip(given) {
            *out = (if keep { logp - other } else { T::default() }).exp();
        }
    }

    /// Write one coefficient to all tokens that count.
    #[inline(always)]
    pub(super) fn spread(&self, value: T, out: &mut [T]) {
        for (out, &keep) in out.iter_mut().zip(self.keep) {
            *out = if keep { value } else { T::default() };
        }
    }
}

/// Return an error where the number is not finite.
pub(super) fn not_finite<T: Real>(what: &'static str, index: usize, value: T) -> Option<Error> {
    let value = value.widen();
    (!value.is_finite()).then_some(Error::NotFinite { what, index, value })
}

/// Return the first token that counts; None without one.
#[inline(always)]
pub(super) fn first_kept(mask: &[bool]) -> Option<usize> {
    // A register of tokens at a time, then those of the first that has one.
    let start = mask.chunks(SIDE).take_while(|some| none(some)).count() * SIDE;
    mask.get(start..)?.iter().position(|&keep| keep).map(|at| start + at)
}

/// Return the last token that counts, of some of which one does.
#[inline(always)]
fn last_kept(mask: &[bool]) -> usize {
    let end = mask.len() - mask.rchunks(SIDE).take_while(|some| none(some)).count() * SIDE;
    mask[..end].iter().rposition(|&keep| keep).unwrap_or(0)
}

/// True if no token counts.
#[inline(always)]
fn none(mask: &[bool]) -> bool {
    !mask.iter().fold(false, |any, &keep| any | keep)
}

/// Return the number of tokens that count.
#[inline(always)]
pub(super) fn kept(mask: &[bool]) -> usize {
    let mut count = 0;
    // In bytes, for as many as a byte counts: a register of them in one addition.
    for some in mask.chunks(usize::from(u8::MAX)) {
        let mut bytes = 0_u8;
        for &keep in some {
            bytes += u8::from(keep);
        }
        count += usize::from(bytes);
    }
    count
}

/// Tokens of one block: three columns of f64 then stay in a second-level cache.
const BLOCK: usize = 1 << 15;

/// Fewer tokens than this are not worth a second thread.
const ALONE: usize = 4 * BLOCK;

/// Return the sequences of each block: those that begin in one stretch of [`BLOCK`] tokens.
fn cut_blocks(offsets: &Offsets) -> Vec<Range<usize>> {
    let mut blocks = Vec::with_capacity(offsets.values() / BLOCK + 1);
    let (mut first, mut stretch) = (0, 0);
    for (row, tokens) in offsets.rows().enumerate() {
        if tokens.start / BLOCK > stretch {
            blocks.push(first..row);
            (first, stretch) = (row, tokens.start / BLOCK);
        }
    }
    blocks.push(first..offsets.len());
    blocks
}

/// Return the results of `one` for each block of rollouts and its part of `column`, in the order of the blocks. Threads
/// share the blocks, which have about as many tokens each.
///
/// The cut depends on the offsets alone: what is folded from the blocks in their order has the same bits for any
/// number of threads.
///
/// Speed: work for several threads in chunks of whole rollouts. Record: `benches/record/kernels.json`, "policy loss and
/// coefficients, token level, float32".
///
/// `size` returns the number of elements of the column in a block.
pub(super) fn map_blocks<T: Send, R: Send>(
    offsets: &Offsets,
    mut column: &mut [T],
    threads: usize,
    size: impl Fn(&Range<usize>) -> usize,
    one: impl Fn(Range<usize>, &mut [T]) -> R + Sync,
) -> Vec<R> {
    let mut work = Vec::new();
    for rows in cut_blocks(offsets) {
        let (block, rest) = column.split_at_mut(size(&rows));
        work.push((rows, block));
        column = rest;
    }
    let threads = if offsets.values() < ALONE { 1 } else { threads.max(1) };
    let share = work.len().div_ceil(threads).max(1);
    let run = |share: &mut [(Range<usize>, &mut [T])]| -> Vec<R> {
        share.iter_mut().map(|(rows, block)| one(rows.clone(), block)).collect()
    };
    each(work.chunks_mut(share), run).into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_the_same_for_any_number_of_threads() {
        let ends = [0, 0, 5, BLOCK, BLOCK, BLOCK + 1, 4 * BLOCK, 4 * BLOCK + 7, 6 * BLOCK, 6 * BLOCK];
        let offsets: Vec<i64> = ends.iter().map(|&end| i64::try_from(end).unwrap()).collect();
        let offsets = Offsets::new("offsets", &offsets, 6 * BLOCK).unwrap();
        let filled = |threads| {
            let mut column = vec![0; offsets.values()];
            let size = |rows: &Range<usize>| ends[rows.end] - ends[rows.start];
            let blocks = map_blocks(&offsets, &mut column, threads, size, |rows, block| {
                block.fill(rows.start);
                rows
            });
            (blocks, column)
        };
        let alone = filled(1);
        assert_eq!(alone.0, [0..3, 3..6, 6..8, 8..9]);
        for threads in [0, 2, 3, 64] {
            assert_eq!(filled(threads), alone);
        }
    }
}
