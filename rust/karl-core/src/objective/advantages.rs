//! The advantage of each token.

use std::ops::Range;

use super::arithmetic::RealArithmetic;
use super::rollouts::not_finite;
use super::turns::Turns;
use crate::check::check_length;
use crate::error::{Error, Result};
use crate::group::offsets::Offsets;
use crate::numeric::Real;

/// Unit that has one advantage.
#[derive(Clone, Copy, Debug)]
pub enum Per<'a> {
    /// A sequence: all its tokens have the same.
    Sequence,
    /// A turn: where each begins, with a turn's beginning at the beginning of each sequence.
    Turn(Offsets<'a>),
    /// A token.
    Token,
}

/// The advantages of a batch, as they are stored.
#[derive(Clone, Copy, Debug)]
pub struct Advantages<'a> {
    values: Values<'a>,
    per: Per<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Values<'a> {
    Single(&'a [f32]),
    Double(&'a [f64]),
}

impl<'a> Advantages<'a> {
    /// Advantages of double precision, one for each of what `per` says.
    #[must_use]
    pub fn double(values: &'a [f64], per: Per<'a>) -> Self {
        Self { values: Values::Double(values), per }
    }

    /// Advantages of single precision.
    #[must_use]
    pub fn single(values: &'a [f32], per: Per<'a>) -> Self {
        Self { values: Values::Single(values), per }
    }

    pub(super) fn check(&self, offsets: Offsets) -> Result<()> {
        let wanted = match self.per {
            Per::Sequence => offsets.len(),
            Per::Turn(turns) => turns.len(),
            Per::Token => offsets.values(),
        };
        check_length("advantages", self.values.len(), wanted)?;
        if let Per::Turn(turns) = self.per { Turns::Offsets(turns).check(&offsets) } else { Ok(()) }
    }

    /// Return the first advantage of a token that counts which is not finite, by its index.
    pub(super) fn fault(self, offsets: &Offsets, mask: &[bool]) -> Option<Error> {
        let what = "advantages";
        let spans = offsets.rows().enumerate().flat_map(|(row, tokens)| self.spans(row, tokens));
        spans.filter(|(tokens, _)| mask[tokens.clone()].contains(&true)).find_map(|(tokens, credit)| {
            let live = tokens.clone().filter(|&at| mask[at]);
            let (mut places, start) = (live, tokens.start);
            match credit {
                TokenAdvantages::One { value, index } => not_finite(what, index, value),
                TokenAdvantages::Single(values) => {
                    places.find_map(|at| not_finite(what, at, values[at - start]))
                }
                TokenAdvantages::Double(values) => {
                    places.find_map(|at| not_finite(what, at, values[at - start]))
                }
            }
        })
    }

    /// Return the stretches of some tokens of a sequence, each with what its advantage is.
    pub(super) fn spans(
        self,
        sequence: usize,
        tokens: Range<usize>,
    ) -> impl Iterator<Item = (Range<usize>, TokenAdvantages<'a>)> {
        let rows = match self.per {
            Per::Sequence => sequence..sequence + 1,
            Per::Turn(turns) => turns.rows_of(&tokens),
            Per::Token => 0..1,
        };
        rows.map(move |row| match self.per {
            Per::Sequence => (tokens.clone(), self.values.one(row)),
            Per::Turn(turns) => (intersect(&turns.row(row), &tokens), self.values.one(row)),
            Per::Token => (tokens.clone(), self.values.each(tokens.clone())),
        })
    }
}

fn intersect(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    let start = a.start.max(b.start);
    start..a.end.min(b.end).max(start)
}

impl<'a> Values<'a> {
    fn len(self) -> usize {
        match self {
            Self::Single(values) => values.len(),
            Self::Double(values) => values.len(),
        }
    }

    fn one(self, index: usize) -> TokenAdvantages<'a> {
        let value = match self {
            Self::Single(values) => values[index].widen(),
            Self::Double(values) => values[index],
        };
        TokenAdvantages::One { value, index }
    }

    fn each(self, tokens: Range<usize>) -> TokenAdvantages<'a> {
        match self {
            Self::Single(values) => TokenAdvantages::Single(&values[tokens]),
            Self::Double(values) => TokenAdvantages::Double(&values[tokens]),
        }
    }
}

/// The advantages of some tokens.
#[derive(Clone, Copy)]
pub(super) enum TokenAdvantages<'a> {
    /// One value for all, at this index.
    One { value: f64, index: usize },
    /// One each.
    Single(&'a [f32]),
    /// One each.
    Double(&'a [f64]),
}

impl TokenAdvantages<'_> {
    /// Fill in the advantages of some places of a span; negative ones count as 0 where they are masked.
    #[inline(always)]
    pub(super) fn fill<T: RealArithmetic>(self, places: Range<usize>, masked: bool, out: &mut [T]) {
        let out = &mut out[..places.len()];
        match self {
            Self::One { value, .. } => out.fill(T::narrow(value)),
            Self::Single(values) => fill_narrow(&values[places], out),
            Self::Double(values) => fill_narrow(&values[places], out),
        }
        if masked {
            for advantage in out {
                *advantage = if *advantage < T::default() { T::default() } else { *advantage };
            }
        }
    }
}

#[inline(always)]
fn fill_narrow<T: RealArithmetic, A: Real>(values: &[A], out: &mut [T]) {
    for (out, value) in out.iter_mut().zip(values) {
        *out = T::narrow(value.widen());
    }
}
