//! The loss of tokens with known ratios, one piece that fits the first-level cache at a time.

use super::advantages::TokenAdvantages;
use super::clip::{Bounds, Clip};
use super::lane::Lane;
use super::stats::{Clipped, LossSums, sum};
use super::tokens::{Row, kept, not_finite};
use crate::error::Result;
use crate::numeric::float::Real;

/// Tokens of a piece.
pub(super) const PIECE: usize = 1024;

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

/// Sums of a block so far, and scratch memory for a piece.
pub(super) struct Work<T> {
    pub(super) total: LossSums,
    ratios: [T; PIECE],
    terms: [T; PIECE],
}

impl<T: Lane> Work<T> {
    pub(super) fn new() -> Self {
        let room = [T::default(); PIECE];
        Self { total: LossSums::NOTHING, ratios: room, terms: room }
    }
}

/// Properties common to the tokens of a span.
#[derive(Clone, Copy)]
pub(super) struct Span<'a, T> {
    pub(super) row: Row<'a, T>,
    pub(super) credit: TokenAdvantages<'a>,
    pub(super) weight: f64,
}

/// Source of the ratios of a span.
#[derive(Clone, Copy)]
pub(super) enum Ratio {
    /// Each token has its own.
    Own,
    /// They share that of their turn or sequence.
    Shared(f64),
}

/// Add the loss of a span to the total, and write its coefficients.
#[inline(always)]
pub(super) fn span<T: Lane>(
    span: &Span<'_, T>,
    ratio: Ratio,
    rule: &Rule<T>,
    work: &mut Work<T>,
    out: &mut [T],
) -> Result<()> {
    for (number, out) in out.chunks_mut(PIECE).enumerate() {
        let piece = Piece::of(span, number * PIECE, out.len());
        match ratio {
            Ratio::Own => piece.own_ratios(work)?,
            Ratio::Shared(ratio) => work.ratios[..out.len()].fill(T::narrow(ratio)),
        }
        piece.bounded(rule, work, out)?;
    }
    Ok(())
}

/// Some tokens of a span, all columns of one length.
struct Piece<'a, T> {
    row: Row<'a, T>,
    keep: &'a [bool],
    credit: TokenAdvantages<'a>,
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

    /// The ratio of each token; a masked one has that of the first which is not, and so moves no statistic.
    #[inline(always)]
    fn own_ratios(&self, work: &mut Work<T>) -> Result<()> {
        let ratios = &mut work.ratios[..self.keep.len()];
        let Row { logp, old, .. } = self.row;
        let first = self.keep.iter().position(|&keep| keep);
        let neutral = first.map_or(T::default(), |at| logp[at] - old[at]);
        let mut odd = false;
        for (ratio, ((&logp, &old), &keep)) in ratios.iter_mut().zip(logp.iter().zip(old).zip(self.keep)) {
            let log_ratio = if keep { logp - old } else { neutral };
            odd |= !log_ratio.is_finite();
            *ratio = log_ratio.exp();
        }
        if let Some(error) = odd.then(|| self.row.fault()).flatten() {
            return Err(error);
        }
        work.total.ratios.extend(ratios, self.row.mask.map_or(ratios.len(), kept));
        Ok(())
    }

    /// Add the loss, and write the coefficients.
    #[inline(always)]
    fn bounded(&self, rule: &Rule<T>, work: &mut Work<T>, out: &mut [T]) -> Result<()> {
        let places = self.first..self.first + out.len();
        match self.credit {
            TokenAdvantages::One { value, .. } => self.under(rule, Same(T::narrow(value)), work, out),
            TokenAdvantages::Single(values) => self.under(rule, &values[places], work, out),
            TokenAdvantages::Double(values) => self.under(rule, &values[places], work, out),
        }
    }

    /// The same under advantages in the type of the log-probabilities.
    #[inline(always)]
    fn under(
        &self,
        rule: &Rule<T>,
        advantages: impl Given<T>,
        work: &mut Work<T>,
        out: &mut [T],
    ) -> Result<()> {
        let Work { total, ratios, terms } = work;
        let (ratios, terms) = (&ratios[..out.len()], &mut terms[..out.len()]);
        if rule.detached {
            self.apply::<true>(rule, ratios, advantages, terms, out, &mut total.clipped);
        } else {
            self.apply::<false>(rule, ratios, advantages, terms, out, &mut total.clipped);
        }
        let loss = sum(terms);
        total.loss += self.weight * loss;
        // A weight is at most 1: where a term is finite, so is its coefficient.
        if loss.is_finite() { Ok(()) } else { self.check(advantages, terms) }
    }

    /// The term of each token in the loss, before its weight, and its coefficient.
    #[inline(always)]
    fn apply<const DETACHED: bool>(
        &self,
        rule: &Rule<T>,
        ratios: &[T],
        advantages: impl Given<T>,
        terms: &mut [T],
        out: &mut [T],
        clipped: &mut Clipped,
    ) {
        let (zero, weight) = (T::default(), T::narrow(self.weight));
        // Numbers on their own: a choice between two pairs of them would be a choice of a place to load from.
        let Rule { positive, negative, .. } = *rule;
        let (floors, ceilings) = ((positive.0, negative.0), (positive.1, negative.1));
        let (mut low, mut high, mut bound) = (0_u32, 0_u32, 0_u32);
        let given = ratios.iter().zip(self.row.logp).zip(self.keep);
        for (at, ((term, out), ((&ratio, &logp), &keep))) in terms.iter_mut().zip(out).zip(given).enumerate()
        {
            let advantage = advantages.at(at);
            let negative = advantage < zero;
            let floor = if negative { floors.1 } else { floors.0 };
            let ceiling = if negative { ceilings.1 } else { ceilings.0 };
            let (below, above) = (ratio < floor, ratio > ceiling);
            let at_most = if above { ceiling } else { ratio };
            let counted = if below { floor } else { at_most };
            // A NaN is not equal to zero, and has to be seen in the sum.
            let live = keep & (advantage != zero);
            let flows = live & (DETACHED | !(below | above));
            let loss = -(advantage * counted) * if DETACHED { logp } else { T::ONE };
            let slope = -(advantage * weight) * counted;
            *term = if live { loss } else { zero };
            *out = if flows { slope } else { zero };
            low += u32::from(live & below);
            high += u32::from(live & above & (DETACHED | !negative));
            bound += u32::from(live & above & !DETACHED & negative);
        }
        clipped.low += u64::from(low);
        clipped.high += u64::from(high);
        clipped.bound += u64::from(bound);
    }

    /// Name the first number that is not finite.
    #[cold]
    #[inline(never)]
    fn check(&self, advantages: impl Given<T>, terms: &[T]) -> Result<()> {
        let one = |at: usize| {
            let token = self.row.first + at;
            let place = if let TokenAdvantages::One { index, .. } = self.credit { index } else { token };
            not_finite("advantages", place, advantages.at(at))
                .or_else(|| not_finite("loss", token, terms[at]))
        };
        (0..terms.len()).filter(|&at| self.keep[at]).find_map(one).map_or(Ok(()), Err)
    }
}

/// The advantages of a piece: what is known to be the same is not read a token at a time.
trait Given<T>: Copy {
    fn at(self, place: usize) -> T;
}

/// One for all.
#[derive(Clone, Copy)]
struct Same<T>(T);

impl<T: Lane> Given<T> for Same<T> {
    #[inline(always)]
    fn at(self, _: usize) -> T {
        self.0
    }
}

impl<T: Lane, A: Real> Given<T> for &[A] {
    #[inline(always)]
    fn at(self, place: usize) -> T {
        T::narrow(self[place].widen())
    }
}
