//! The loss of tokens whose ratios are known, a piece that fits a first-level cache at a time.

use super::clip::{Bounds, Clip};
use super::credit::Credit;
use super::lane::Lane;
use super::row::{Row, kept, not_finite};
use super::total::{Clipped, Total, sum};
use crate::error::Result;

/// Tokens of a piece.
pub(super) const PIECE: usize = 512;

const ALL: [bool; PIECE] = [true; PIECE];

/// A clip in the type of the log-probabilities.
#[derive(Clone, Copy)]
pub(super) struct Rule<T> {
    positive: (T, T),
    negative: (T, T),
    detached: bool,
}

impl<T: Lane> Rule<T> {
    pub(super) fn of(clip: &Clip) -> Self {
        let narrow = |Bounds { floor, ceiling }| (T::narrow(floor), T::narrow(ceiling));
        Self { positive: narrow(clip.positive), negative: narrow(clip.negative), detached: clip.detached }
    }
}

/// What the tokens of a span share.
#[derive(Clone, Copy)]
pub(super) struct Span<'a, T> {
    pub(super) row: Row<'a, T>,
    pub(super) credit: Credit<'a>,
    pub(super) weight: f64,
}

/// Where the ratios of a span come from.
#[derive(Clone, Copy)]
pub(super) enum Ratio {
    /// Each token has its own.
    Own,
    /// They share that of their turn or sequence.
    Shared(f64),
}

/// Adds the loss of a span to the total, and writes its coefficients.
#[inline(always)]
pub(super) fn span<T: Lane>(
    span: &Span<'_, T>,
    ratio: Ratio,
    rule: &Rule<T>,
    total: &mut Total,
    out: &mut [T],
) -> Result<()> {
    for (number, out) in out.chunks_mut(PIECE).enumerate() {
        let piece = Piece::of(span, number * PIECE, out.len());
        let mut ratios = [T::default(); PIECE];
        let ratios = &mut ratios[..out.len()];
        match ratio {
            Ratio::Own => piece.own_ratios(ratios, total)?,
            Ratio::Shared(ratio) => ratios.fill(T::narrow(ratio)),
        }
        piece.bounded(ratios, rule, total, out)?;
    }
    Ok(())
}

/// Some tokens of a span, all columns of one length.
struct Piece<'a, T> {
    row: Row<'a, T>,
    keep: &'a [bool],
    credit: Credit<'a>,
    /// The place of the first token in the span.
    first: usize,
    weight: f64,
}

impl<'a, T: Lane> Piece<'a, T> {
    #[inline(always)]
    fn of(span: &Span<'a, T>, first: usize, length: usize) -> Self {
        let row = span.row.cut(first..first + length);
        Self {
            row,
            keep: row.mask.unwrap_or(&ALL[..length]),
            credit: span.credit,
            first,
            weight: span.weight,
        }
    }

    /// The ratio of each token, 1 where it is masked.
    #[inline(always)]
    fn own_ratios(&self, ratios: &mut [T], total: &mut Total) -> Result<()> {
        let mut odd = false;
        let columns = self.row.logp.iter().zip(self.row.old).zip(self.keep);
        for (ratio, ((&logp, &old), &keep)) in ratios.iter_mut().zip(columns) {
            let log_ratio = if keep { logp - old } else { T::default() };
            odd |= !log_ratio.is_finite();
            *ratio = log_ratio.exp();
        }
        if let Some(error) = odd.then(|| self.row.fault()).flatten() {
            return Err(error);
        }
        total.ratios.extend(ratios, self.keep, self.row.mask.map_or(ratios.len(), kept));
        Ok(())
    }

    /// Adds the loss, and writes the coefficients.
    #[inline(always)]
    fn bounded(&self, ratios: &[T], rule: &Rule<T>, total: &mut Total, out: &mut [T]) -> Result<()> {
        let (mut advantages, mut terms) = ([T::default(); PIECE], [T::default(); PIECE]);
        let (advantages, terms) = (&mut advantages[..out.len()], &mut terms[..out.len()]);
        self.credit.fill(self.first, advantages);
        let odd = if rule.detached {
            self.apply::<true>(rule, ratios, advantages, terms, out, &mut total.clipped)
        } else {
            self.apply::<false>(rule, ratios, advantages, terms, out, &mut total.clipped)
        };
        total.loss += self.weight * sum(terms, |term| term);
        if odd { self.check(advantages, terms, out) } else { Ok(()) }
    }

    /// The term of each token in the loss, before its weight, and its coefficient. Whether any is not finite.
    #[inline(always)]
    fn apply<const DETACHED: bool>(
        &self,
        rule: &Rule<T>,
        ratios: &[T],
        advantages: &[T],
        terms: &mut [T],
        out: &mut [T],
        clipped: &mut Clipped,
    ) -> bool {
        let (zero, weight) = (T::default(), T::narrow(self.weight));
        let (mut low, mut high, mut bound, mut odd) = (0_u32, 0_u32, 0_u32, false);
        let given = ratios.iter().zip(advantages).zip(self.row.logp).zip(self.keep);
        for ((term, out), (((&ratio, &advantage), &logp), &keep)) in terms.iter_mut().zip(out).zip(given) {
            let negative = advantage < zero;
            let (floor, ceiling) = if negative { rule.negative } else { rule.positive };
            let (below, above) = (ratio < floor, ratio > ceiling);
            let at_most = if above { ceiling } else { ratio };
            let counted = if below { floor } else { at_most };
            // A NaN is not equal to zero, and has to be seen below.
            let live = keep & (advantage != zero);
            let flows = live & (DETACHED | !(below | above));
            let loss = -(advantage * counted) * if DETACHED { logp } else { T::ONE };
            let slope = -(advantage * weight) * counted;
            *term = if live { loss } else { zero };
            *out = if flows { slope } else { zero };
            odd |= !(term.is_finite() & out.is_finite());
            low += u32::from(live & below);
            high += u32::from(live & above & (DETACHED | !negative));
            bound += u32::from(live & above & !DETACHED & negative);
        }
        clipped.low += u64::from(low);
        clipped.high += u64::from(high);
        clipped.bound += u64::from(bound);
        odd
    }

    /// Names the first number that is not finite.
    #[cold]
    fn check(&self, advantages: &[T], terms: &[T], out: &[T]) -> Result<()> {
        let one = |at: usize| {
            let token = self.row.first + at;
            let place = if let Credit::One { index, .. } = self.credit { index } else { token };
            not_finite("advantages", place, advantages[at])
                .or_else(|| not_finite("loss", token, terms[at]))
                .or_else(|| not_finite("coefficient", token, out[at]))
        };
        (0..out.len()).filter(|&at| self.keep[at]).find_map(one).map_or(Ok(()), Err)
    }
}
