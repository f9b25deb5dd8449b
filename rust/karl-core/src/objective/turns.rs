//! Turns of rollouts, by the number of each token's turn.

use std::ops::Range;

use crate::check::check_length;
use crate::error::{Error, Result};
use crate::group::offsets::Offsets;

/// The number of each token's turn in its rollout, negative for none. Along a rollout the numbers of the tokens that
/// count never fall.
#[derive(Clone, Copy, Debug)]
pub struct Turns<'a>(&'a [i64], &'a [bool]);

impl<'a> Turns<'a> {
    /// Take the number of each token's turn, and which tokens count.
    #[must_use]
    pub fn new(numbers: &'a [i64], mask: &'a [bool]) -> Self {
        Self(numbers, mask)
    }

    pub(super) fn check(self, offsets: &Offsets<'_>) -> Result<()> {
        check_length("turns", self.0.len(), offsets.values())?;
        for tokens in offsets.rows() {
            let mut least = 0;
            for at in tokens.filter(|&at| self.1[at] && self.0[at] >= 0) {
                if self.0[at] < least {
                    let [got, low, high] = [self.0[at], least, i64::MAX];
                    return Err(Error::Offset { what: "turns", index: at, got, low, high });
                }
                least = self.0[at];
            }
        }
        Ok(())
    }

    /// Return the stretches of a rollout with one number, and whether it is that of a turn. Tokens that do not count
    /// divide no stretch.
    pub(super) fn units(
        self,
        tokens: &Range<usize>,
        mask: &'a [bool],
    ) -> impl Iterator<Item = (Range<usize>, bool)> + use<'a> {
        let (mut next, end) = (tokens.start, tokens.end);
        let number = move |at: usize| mask[at].then(|| self.0[at].max(-1));
        std::iter::from_fn(move || {
            let start = next;
            let mut of = None;
            while next < end {
                let here = number(next);
                if here.is_some() && of.is_some() && here != of {
                    break;
                }
                of = of.or(here);
                next += 1;
            }
            (start < next).then(|| (start..next, of.is_some_and(|of| of >= 0)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_goes_on_over_tokens_that_do_not_count() {
        let (numbers, mask) = ([0, 9, 0, -1, 1, 1, 7], [true, false, true, true, true, true, false]);
        let turns = Turns::new(&numbers, &mask);
        let found: Vec<_> = turns.units(&(0..7), &mask).collect();
        assert_eq!(found, [(0..3, true), (3..4, false), (4..7, true)]);
        let offsets = Offsets::new("offsets", &[0, 7], 7).unwrap();
        assert!(turns.check(&offsets).is_ok());
        assert!(Turns::new(&[0, 1, 0, 0, 0, 0, 0], &[true; 7]).check(&offsets).is_err());
    }
}
