//! Turns of rollouts.

use std::ops::Range;

use crate::check::check_length;
use crate::error::{Error, Result};
use crate::group::offsets::Offsets;

/// The turn of each token that counts.
#[derive(Clone, Copy, Debug)]
pub enum Turns<'a> {
    /// The number of each token's turn in its rollout, negative for none, and which tokens count. Along a rollout the
    /// numbers of these never fall.
    Numbers(&'a [i64], &'a [bool]),
    /// Where each turn begins, with a turn's beginning at the beginning of each rollout.
    Offsets(Offsets<'a>),
}

impl<'a> Turns<'a> {
    pub(super) fn check(self, offsets: &Offsets<'_>) -> Result<()> {
        match self {
            Self::Numbers(numbers, mask) => check_numbers(numbers, mask, offsets),
            Self::Offsets(turns) => check_offsets(&turns, offsets),
        }
    }

    /// Return the stretches of a rollout that are one turn, or lie between turns, and whether they are a turn. Tokens that
    /// do not count divide no stretch.
    pub(super) fn units(self, tokens: &Range<usize>) -> impl Iterator<Item = (Range<usize>, bool)> + use<'a> {
        let Range { start: mut next, end } = *tokens;
        std::iter::from_fn(move || {
            (next < end).then(|| {
                let start = next;
                let turn;
                (next, turn) = match self {
                    Self::Numbers(numbers, mask) => stretch(numbers, mask, start..end),
                    Self::Offsets(turns) => (turns.row(turns.row_of(start)).end.min(end), true),
                };
                (start..next, turn)
            })
        })
    }
}

/// Return the end of the stretch with one number that begins the tokens, and whether it is that of a turn.
fn stretch(numbers: &[i64], mask: &[bool], tokens: Range<usize>) -> (usize, bool) {
    let (mut next, mut of) = (tokens.start, None);
    while next < tokens.end {
        let here = mask[next].then(|| numbers[next].max(-1));
        if here.is_some() && of.is_some() && here != of {
            break;
        }
        of = of.or(here);
        next += 1;
    }
    (next, of.is_some_and(|of| of >= 0))
}

fn check_numbers(numbers: &[i64], mask: &[bool], offsets: &Offsets<'_>) -> Result<()> {
    check_length("turns", numbers.len(), offsets.values())?;
    for tokens in offsets.rows() {
        let mut least = 0;
        for at in tokens.filter(|&at| mask[at] && numbers[at] >= 0) {
            if numbers[at] < least {
                let [got, low, high] = [numbers[at], least, i64::MAX];
                return Err(Error::Offset { what: "turns", index: at, got, low, high });
            }
            least = numbers[at];
        }
    }
    Ok(())
}

/// Reject turns that do not lie within rollouts.
fn check_offsets(turns: &Offsets<'_>, offsets: &Offsets<'_>) -> Result<()> {
    let mut rows = turns.rows().enumerate().peekable();
    for tokens in offsets.rows() {
        while let Some((turn, part)) = rows.next_if(|(_, part)| part.start < tokens.end) {
            if part.end > tokens.end {
                let [got, low, high] =
                    [part.end, part.start, tokens.end].map(|place| i64::try_from(place).unwrap_or(i64::MAX));
                return Err(Error::Offset { what: "turn_offsets", index: turn + 1, got, low, high });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_goes_on_over_tokens_that_do_not_count() {
        let (numbers, mask) = ([0, 9, 0, -1, 1, 1, 7], [true, false, true, true, true, true, false]);
        let turns = Turns::Numbers(&numbers, &mask);
        let found: Vec<_> = turns.units(&(0..7)).collect();
        assert_eq!(found, [(0..3, true), (3..4, false), (4..7, true)]);
        let offsets = Offsets::new("offsets", &[0, 7], 7).unwrap();
        assert!(turns.check(&offsets).is_ok());
        assert!(Turns::Numbers(&[0, 1, 0, 0, 0, 0, 0], &[true; 7]).check(&offsets).is_err());
    }

    #[test]
    fn turns_by_offsets_are_cut_to_the_tokens() {
        let offsets = Offsets::new("turn_offsets", &[0, 2, 2, 5, 7], 7).unwrap();
        let found: Vec<_> = Turns::Offsets(offsets).units(&(1..6)).collect();
        assert_eq!(found, [(1..2, true), (2..5, true), (5..6, true)]);
    }
}
