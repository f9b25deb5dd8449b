//! Packed tokens, a sequence or a turn at a time.

use std::ops::Range;

use super::lane::Lane;
use crate::check::check_length;
use crate::error::{Error, Result};
use crate::group::offsets::Offsets;

/// The tokens of all rollouts, end to end.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'a, T> {
    pub(super) logp: &'a [T],
    pub(super) logp_old: &'a [T],
    pub(super) mask: Option<&'a [bool]>,
    pub(super) offsets: Offsets<'a>,
}

impl<'a, T: Lane> Tokens<'a, T> {
    /// Take the log-probabilities of the tokens under the policy and under the behaviour policy, which tokens count
    /// (all without a mask), and where each sequence begins.
    ///
    /// Shapes: `logp`, `logp_old`, `mask` `[N]`, `offsets` `[B + 1]`.
    ///
    /// # Errors
    /// [`Error::Length`] where columns differ in length.
    pub fn new(
        logp: &'a [T],
        logp_old: &'a [T],
        mask: Option<&'a [bool]>,
        offsets: Offsets<'a>,
    ) -> Result<Self> {
        check_columns(logp, logp_old, mask)?;
        check_length("logp", logp.len(), offsets.values())?;
        Ok(Self { logp, logp_old, mask, offsets })
    }

    pub(super) fn row(&self, tokens: Range<usize>) -> Row<'a, T> {
        Row { logp: self.logp, old: self.logp_old, mask: self.mask, first: 0 }.cut(tokens)
    }
}

pub(super) fn check_columns<T>(logp: &[T], logp_old: &[T], mask: Option<&[bool]>) -> Result<()> {
    check_length("logp_old", logp_old.len(), logp.len())?;
    check_length("mask", mask.map_or(logp.len(), <[bool]>::len), logp.len())
}

/// The tokens of one sequence or turn.
#[derive(Clone, Copy)]
pub(super) struct Row<'a, T> {
    pub(super) logp: &'a [T],
    pub(super) old: &'a [T],
    pub(super) mask: Option<&'a [bool]>,
    /// The place of its first token among all.
    pub(super) first: usize,
}

impl<T: Lane> Row<'_, T> {
    /// Some of its tokens.
    #[inline(always)]
    pub(super) fn cut(&self, tokens: Range<usize>) -> Self {
        Self {
            logp: &self.logp[tokens.clone()],
            old: &self.old[tokens.clone()],
            mask: self.mask.map(|mask| &mask[tokens.clone()]),
            first: self.first + tokens.start,
        }
    }

    pub(super) fn keeps(&self, at: usize) -> bool {
        self.mask.is_none_or(|mask| mask[at])
    }

    /// Return the error of the first unmasked token with a log-probability or log ratio that is not finite.
    #[cold]
    #[inline(never)]
    pub(super) fn fault(&self) -> Option<Error> {
        (0..self.logp.len()).filter(|&at| self.keeps(at)).find_map(|at| {
            let (index, log_ratio) = (self.first + at, self.logp[at] - self.old[at]);
            not_finite("logp", index, self.logp[at])
                .or_else(|| not_finite("logp_old", index, self.old[at]))
                .or_else(|| not_finite("log_ratio", index, log_ratio))
        })
    }
}

/// Return an error where the number is not finite.
pub(super) fn not_finite<T: Lane>(what: &'static str, index: usize, value: T) -> Option<Error> {
    (!value.is_finite()).then(|| Error::NotFinite { what, index, value: value.widen() })
}

/// Return the number of unmasked tokens.
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
