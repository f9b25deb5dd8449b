//! Rows of a target.

use std::ops::Range;

use crate::check::{check_length, check_none_infinite};
use crate::error::Result;
use crate::filter::Verdict;
use crate::group::Scopes;

/// Rows that take part in a target: those that have a score, that no rule has dropped, and that are in a scope.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// Score that is tempered; NaN where there is none. `[B]`
    pub scores: &'a [f64],
    /// Verdict on each row; empty where no rule was applied. `[B]`
    pub verdicts: &'a [Verdict],
    /// Scopes that are normalised together.
    pub scopes: Scopes<'a>,
}

impl<'a> Rows<'a> {
    /// Rows to which no rule was applied.
    pub fn all(scores: &'a [f64], within: impl Into<Scopes<'a>>) -> Self {
        Self { scores, verdicts: &[], scopes: within.into() }
    }

    /// Return the number of rows, dropped ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    /// Return whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    /// Return the score of a row; NaN for one that takes no part.
    #[must_use]
    pub fn score(&self, row: usize) -> f64 {
        let kept = self.verdicts.get(row).is_none_or(|&verdict| verdict == Verdict::Kept);
        if kept && self.scopes.of(row).is_some() { self.scores[row] } else { f64::NAN }
    }

    /// The scores of some rows, as many as there are places or fewer, and NaN behind them.
    #[inline(always)]
    pub(super) fn side<const N: usize>(&self, rows: Range<usize>, out: &mut [f64; N]) {
        let count = rows.len().min(N);
        out[count..].fill(f64::NAN);
        let out = &mut out[..count];
        if let Scopes::Whole = self.scopes {
            out.copy_from_slice(&self.scores[rows.clone()]);
            for (score, &verdict) in out.iter_mut().zip(self.verdicts.get(rows).unwrap_or_default()) {
                *score = if verdict == Verdict::Kept { *score } else { f64::NAN };
            }
        } else {
            out.iter_mut().zip(rows).for_each(|(score, row)| *score = self.score(row));
        }
    }

    pub(super) fn check(&self, threads: usize) -> Result<()> {
        check_length("scores", self.len(), self.scopes.rows().unwrap_or(self.len()))?;
        if !self.verdicts.is_empty() {
            check_length("verdicts", self.verdicts.len(), self.len())?;
        }
        check_none_infinite("score", self.scores, threads)
    }
}
