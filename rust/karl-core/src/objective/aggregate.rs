//! Aggregation of the losses of tokens to one number.

use std::ops::Range;

use super::rollouts::{kept, map_blocks};
use crate::check::{check_length, check_range};
use crate::error::Result;
use crate::group::offsets::Offsets;

/// The axis: the weight of each token in the sum.
///
/// ```text
/// SequenceMean    w_t = 1 / (S T_i)      the mean over sequences of their token means (GRPO, GSPO)
/// TokenMean       w_t = 1 / sum T        the mean over all tokens (DAPO, SAMPO)
/// ConstantLength  w_t = 1 / (S L)        a constant in place of the length (Dr. GRPO)
/// SequenceSum     w_t = 1 / S            the mean over sequences of their token sums (RLOO, LUSPO)
/// ```
///
/// `T_i` is the number of unmasked tokens of sequence i and `S` the number of sequences that have one: a sequence
/// without any has no loss, and counts in no mean. Give the `S` or `sum T` of the whole batch where it comes in parts:
/// the losses of the parts then add up to that of the batch, and the coefficients are those of the batch to the bit.
/// Give the number of all sequences to count empty ones too, as TRL does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aggregate {
    /// Each sequence counts the same, whatever its length.
    SequenceMean {
        /// `S`, where it is not that of these tokens.
        sequences: Option<f64>,
    },
    /// Each token counts the same.
    TokenMean {
        /// `sum T`, where it is not that of these tokens.
        tokens: Option<f64>,
    },
    /// Each token counts the same, whatever the other lengths are.
    ConstantLength {
        /// `L`.
        tokens: f64,
        /// `S`, where it is not that of these tokens.
        sequences: Option<f64>,
    },
    /// A sequence counts by its length.
    SequenceSum {
        /// `S`, where it is not that of these tokens.
        sequences: Option<f64>,
    },
}

/// Return the weight of each token in the sum of an [`Aggregate`], exactly 0 where it is masked.
///
/// A term beside the policy loss, such as a penalty on the divergence, is summed with these: `sum_t w_t k_t`.
/// Shapes: mask `[T]`, `offsets` `[B + 1]`, result `[T]`. Cost: one read, one write.
///
/// # Errors
/// [`Error::Length`](crate::Error::Length) for a mask of another length; [`Error::Range`](crate::Error::Range) for a
/// denominator below 1.
pub fn token_weights(
    offsets: &Offsets<'_>,
    mask: Option<&[bool]>,
    aggregate: Aggregate,
    threads: usize,
) -> Result<Vec<f64>> {
    check_length("mask", mask.map_or(offsets.values(), <[bool]>::len), offsets.values())?;
    let weight = aggregate.weight(offsets, mask, threads)?;
    let mut weights = vec![0.0; offsets.values()];
    for tokens in offsets.rows() {
        let own = &mut weights[tokens.clone()];
        match mask.map(|mask| &mask[tokens]) {
            None => own.fill(weight.of(own.len())),
            Some(mask) => {
                let each = weight.of(kept(mask));
                for (value, &keep) in own.iter_mut().zip(mask) {
                    *value = if keep { each } else { 0.0 };
                }
            }
        }
    }
    Ok(weights)
}

/// Numbers of unmasked tokens and of sequences that have any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    tokens: u64,
    sequences: u64,
}

impl Count {
    fn of(offsets: &Offsets<'_>, mask: Option<&[bool]>, threads: usize) -> Self {
        let one = |rows: Range<usize>, _: &mut [()]| {
            let mut count = Self::default();
            for tokens in rows.map(|row| offsets.row(row)) {
                let kept = mask.map_or(tokens.len(), |mask| kept(&mask[tokens]));
                count.tokens += kept as u64;
                count.sequences += u64::from(kept > 0);
            }
            count
        };
        let counts = map_blocks(offsets, &mut [], threads, |_| 0, one);
        counts.into_iter().fold(Self::default(), |all, block| Self {
            tokens: all.tokens + block.tokens,
            sequences: all.sequences + block.sequences,
        })
    }
}

/// The weight of a token by the length of its sequence.
#[derive(Clone, Copy)]
pub(super) struct Weight {
    scale: f64,
    by_length: bool,
}

impl Aggregate {
    /// Check that the denominators are finite and 1 or more.
    ///
    /// # Errors
    /// [`Error::Range`](crate::Error::Range) for a denominator below 1, NaN or infinite.
    pub fn check(&self) -> Result<()> {
        let one =
            |what, given: Option<f64>| given.map_or(Ok(()), |given| check_range(what, given, 1.0, f64::MAX));
        match *self {
            Self::SequenceMean { sequences } | Self::SequenceSum { sequences } => {
                one("denominator", sequences)
            }
            Self::TokenMean { tokens } => one("denominator", tokens),
            Self::ConstantLength { tokens, sequences } => {
                one("tokens", Some(tokens)).and_then(|()| one("denominator", sequences))
            }
        }
    }

    /// Return whether the tokens must be counted before the first weight is known.
    fn counts(&self) -> bool {
        match self {
            Self::SequenceMean { sequences }
            | Self::SequenceSum { sequences }
            | Self::ConstantLength { sequences, .. } => sequences.is_none(),
            Self::TokenMean { tokens } => tokens.is_none(),
        }
    }

    /// Return the weight that tokens have by the length of their sequence.
    pub(super) fn weight(
        &self,
        offsets: &Offsets<'_>,
        mask: Option<&[bool]>,
        threads: usize,
    ) -> Result<Weight> {
        self.check()?;
        let count = if self.counts() { Count::of(offsets, mask, threads) } else { Count::default() };
        Ok(self.weight_at(count))
    }

    fn weight_at(&self, count: Count) -> Weight {
        let counted = count.sequences as f64;
        let denominator = match *self {
            Self::SequenceMean { sequences } | Self::SequenceSum { sequences } => {
                sequences.unwrap_or(counted)
            }
            Self::TokenMean { tokens } => tokens.unwrap_or(count.tokens as f64),
            Self::ConstantLength { tokens, sequences } => tokens * sequences.unwrap_or(counted),
        };
        Weight { scale: 1.0 / denominator, by_length: matches!(self, Self::SequenceMean { .. }) }
    }
}

impl Weight {
    /// Return the weight of each token of a sequence of so many, which is not empty.
    pub(super) fn of(self, tokens: usize) -> f64 {
        if self.by_length { self.scale / tokens as f64 } else { self.scale }
    }
}
