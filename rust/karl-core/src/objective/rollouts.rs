//! Rollouts as every objective reads them: log-probabilities under up to three policies, and which tokens count.

use std::ops::Range;

use super::lane::Lane;
use super::tokens::kept;
use crate::check::check_length;
use crate::error::Result;
use crate::group::offsets::Offsets;

/// The tokens of all rollouts, end to end. A masked token enters no sum, whatever its values.
#[derive(Clone, Copy, Debug)]
pub struct Rollouts<'a, T> {
    pub(super) logp: &'a [T],
    pub(super) old: Option<&'a [T]>,
    pub(super) reference: Option<&'a [T]>,
    pub(super) mask: &'a [bool],
    pub(super) offsets: Offsets<'a>,
}

impl<'a, T: Lane> Rollouts<'a, T> {
    /// Take the log-probabilities of the tokens under the policy, under the behaviour policy and under the reference,
    /// which tokens count, and where each rollout begins.
    ///
    /// Shapes: columns `[N]`, `offsets` `[B + 1]`.
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length) where columns differ in length.
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

    /// Return the number of rollouts.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.offsets.len()
    }

    /// Return the number of tokens of some rollouts.
    pub(super) fn tokens(&self, rows: &Range<usize>) -> usize {
        self.offsets.begin(rows.end) - self.offsets.begin(rows.start)
    }

    /// Return some tokens.
    #[inline(always)]
    pub(super) fn part(&self, tokens: Range<usize>) -> Part<'a, T> {
        Part {
            logp: &self.logp[tokens.clone()],
            old: self.old.map(|old| &old[tokens.clone()]),
            reference: self.reference.map(|reference| &reference[tokens.clone()]),
            keep: &self.mask[tokens],
        }
    }
}

/// Some tokens of one rollout.
#[derive(Clone, Copy)]
pub(super) struct Part<'a, T> {
    pub(super) logp: &'a [T],
    pub(super) old: Option<&'a [T]>,
    pub(super) reference: Option<&'a [T]>,
    pub(super) keep: &'a [bool],
}

impl<T: Lane> Part<'_, T> {
    #[inline(always)]
    pub(super) fn cut(&self, tokens: Range<usize>) -> Self {
        Self {
            logp: &self.logp[tokens.clone()],
            old: self.old.map(|old| &old[tokens.clone()]),
            reference: self.reference.map(|reference| &reference[tokens.clone()]),
            keep: &self.keep[tokens],
        }
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
        let terms = self.logp.iter().zip(self.keep);
        terms.map(|(logp, &keep)| if keep { logp.widen() } else { 0.0 }).sum()
    }

    /// Fill a column with the log ratio to another policy, 0 for masked tokens.
    #[inline(always)]
    pub(super) fn log_ratios(&self, other: &[T], out: &mut [T]) {
        for (out, ((&logp, &other), &keep)) in out.iter_mut().zip(self.logp.iter().zip(other).zip(self.keep))
        {
            *out = if keep { logp - other } else { T::default() };
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
