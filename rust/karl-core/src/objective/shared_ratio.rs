//! The loss of a turn or sequence with one ratio for all its tokens.

use std::ops::Range;

use super::advantages::TokenAdvantages;
use super::clip::Clip;
use super::lane::Lane;
use super::stats::{LossSums, sum};
use super::token_loss::{Ratio, Rule, Span, Work, span};
use super::tokens::{Row, kept, not_finite};
use crate::error::Result;

/// Distribution of the gradient of a shared ratio over its tokens.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Gradient {
    /// Each has that of its own term.
    Own,
    /// Each has the mean of all: the ratio is a geometric mean of theirs.
    Mean,
    /// Each has the sum of all: the ratio is the product of theirs.
    Sum,
}

/// Tokens that share a ratio.
pub(super) struct RatioUnit<'a, T> {
    pub(super) row: Row<'a, T>,
    /// Number of unmasked tokens.
    pub(super) tokens: usize,
    pub(super) ratio: f64,
    /// Weight of each token in the loss.
    pub(super) weight: f64,
    pub(super) gradient: Gradient,
}

impl<'a, T: Lane> RatioUnit<'a, T> {
    /// Add the loss to the total, and write the coefficients.
    #[inline(always)]
    pub(super) fn add(
        &self,
        spans: impl Iterator<Item = (Range<usize>, TokenAdvantages<'a>)>,
        clip: &Clip,
        work: &mut Work<T>,
        out: &mut [T],
    ) -> Result<()> {
        work.total.ratios.push(self.ratio, 1);
        let rule = Rule::of(clip);
        let mut slope = 0.0;
        for (tokens, credit) in spans {
            let place = tokens.start - self.row.first..tokens.end - self.row.first;
            let part = Span { row: self.row.cut(place.clone()), credit, weight: self.weight };
            if let (TokenAdvantages::One { value, index }, Gradient::Mean | Gradient::Sum) =
                (credit, self.gradient)
            {
                slope += self.constant(&part.row, value, index, clip, &mut work.total)?;
            } else {
                let out = &mut out[place];
                span(&part, Ratio::Shared(self.ratio), &rule, work, out)?;
                if self.gradient != Gradient::Own {
                    slope += sum(out);
                }
            }
        }
        match self.gradient {
            Gradient::Own => Ok(()),
            Gradient::Mean => self.write(slope / self.tokens as f64, out),
            Gradient::Sum => self.write(slope, out),
        }
    }

    /// Add the loss of tokens that share an advantage too, and return the sum of their own coefficients.
    #[inline(always)]
    fn constant(
        &self,
        part: &Row<'a, T>,
        advantage: f64,
        index: usize,
        clip: &Clip,
        total: &mut LossSums,
    ) -> Result<f64> {
        let tokens = part.mask.map_or(part.logp.len(), kept);
        if tokens == 0 || advantage == 0.0 {
            return Ok(0.0);
        }
        not_finite("advantages", index, advantage).map_or(Ok(()), Err)?;
        let (negative, share) = (advantage < 0.0, self.weight * tokens as f64);
        let bounds = clip.bounds(negative);
        let loss = -advantage * bounds.bounded(self.ratio);
        not_finite("loss", self.row.first, loss).map_or(Ok(()), Err)?;
        total.loss += share * loss;
        total.clipped.add(bounds, negative, self.ratio, tokens as u64);
        Ok(if bounds.holds(self.ratio) { share * loss } else { 0.0 })
    }

    #[inline(always)]
    fn write(&self, value: f64, out: &mut [T]) -> Result<()> {
        let value = T::narrow(value);
        not_finite("coefficient", self.row.first, value).map_or(Ok(()), Err)?;
        match self.row.mask {
            None => out.fill(value),
            Some(mask) => {
                for (out, &keep) in out.iter_mut().zip(mask) {
                    *out = if keep { value } else { T::default() };
                }
            }
        }
        Ok(())
    }
}
