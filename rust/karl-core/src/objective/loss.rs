//! The loss of a batch and its gradient, in one pass over the tokens.

use std::ops::Range;

use super::advantages::Advantages;
use super::aggregate::{Aggregate, Weight};
use super::chunks;
use super::clip::Clip;
use super::lane::Lane;
use super::level::{Level, Power, sum_log_ratio};
use super::shared_ratio::{Gradient, RatioUnit};
use super::stats::LossSums;
use super::token_loss::{Ratio, Rule, Span, Work, span};
use super::tokens::{Tokens, kept};
use crate::check::check_length;
use crate::error::{Error, Result};
use crate::group::offsets::Offsets;
use crate::numeric::exp::exp;
use crate::numeric::simd::{Kernel, wide};

/// A point in the three axes.
#[derive(Clone, Copy, Debug)]
pub struct Objective<'a> {
    /// Over what the ratio is taken.
    pub level: Level<'a>,
    /// Bounds of an update.
    pub clip: Clip,
    /// Aggregation of tokens to one number.
    pub aggregate: Aggregate,
}

/// A loss, and how far the policy has moved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolicyLoss {
    /// The loss; 0 without an unmasked token.
    pub loss: f64,
    /// The share of tokens below their range, which is that of a negative advantage; NaN without a token.
    pub clip_fraction_low: f64,
    /// The share above it, with a positive advantage or a detached weight.
    pub clip_fraction_high: f64,
    /// The share above it with a negative advantage (dual clip).
    pub clip_fraction_bound: f64,
    /// The mean ratio over tokens, turns or sequences, before any clip; NaN without any.
    pub ratio_mean: f64,
    /// Their standard deviation, ddof 0.
    pub ratio_std: f64,
    /// The least of them.
    pub ratio_min: f64,
    /// The largest of them.
    pub ratio_max: f64,
    /// Unmasked tokens.
    pub tokens: u64,
    /// Sequences that have one.
    pub sequences: u64,
}

/// Compute the clipped policy-gradient loss of packed tokens, and its exact gradient.
///
/// ```text
/// loss = sum_t w_t l_t,    l_t = -A_t bounded(ratio_t),    coefficient_t = d loss / d logp_t
/// ```
///
/// `ratio_t` is that of the [`Level`], `bounded` that of the [`Clip`], `w_t` that of the [`Aggregate`]. A shared
/// ratio passes the sum of its terms' gradients to its tokens, whether or not they share an advantage. A token with
/// advantage 0 adds nothing and is not counted as clipped. A coefficient is exact where no ratio is on a bound; on a
/// bound it is that of the inner side. Shapes: `coefficient` `[N]`, all of it written. Cost: one read of the columns,
/// one write of the coefficients.
///
/// # Errors
/// [`Error::NotFinite`] for the first unmasked token with a log-probability, advantage, term or coefficient that is
/// not finite. [`Error::Number`] for a sum of losses that is not finite; [`Error::Length`] for advantages that do not
/// match; [`Error::Offset`] for a turn that crosses from one sequence into another; [`Error::Range`] for a
/// denominator below 1. The coefficients are then undefined.
pub fn policy_loss<T: Lane>(
    tokens: &Tokens<'_, T>,
    advantages: Advantages<'_>,
    objective: &Objective<'_>,
    coefficient: &mut [T],
    threads: usize,
) -> Result<PolicyLoss> {
    check_length("coefficient", coefficient.len(), tokens.logp.len())?;
    let batch = LossBatch::new(tokens, advantages, objective, threads)?;
    let size = |rows: &Range<usize>| batch.places(rows).len();
    let one = |rows: Range<usize>, out: &mut [T]| wide(LossBlock { batch: &batch, rows, out });
    let totals = chunks::map(&tokens.offsets, coefficient, threads, size, one);
    let mut total = LossSums::NOTHING;
    for block in totals {
        total = total.merge(block?);
    }
    if total.loss.is_finite() {
        Ok(total.into_loss())
    } else {
        Err(Error::Number { what: "loss", value: total.loss })
    }
}

/// The loss of some sequences, and their coefficients.
struct LossBlock<'a, 'b, T> {
    batch: &'b LossBatch<'a, T>,
    rows: Range<usize>,
    out: &'b mut [T],
}

impl<T: Lane> Kernel for LossBlock<'_, '_, T> {
    type Output = Result<LossSums>;

    #[inline(always)]
    fn run(self) -> Result<LossSums> {
        let (mut work, mut out) = (Work::new(), self.out);
        for row in self.rows {
            let tokens = self.batch.tokens.offsets.row(row);
            let (own, rest) = out.split_at_mut(tokens.len());
            self.batch.sequence(row, tokens, &mut work, own)?;
            out = rest;
        }
        Ok(work.total)
    }
}

/// All that a block is computed from.
struct LossBatch<'a, T> {
    tokens: &'a Tokens<'a, T>,
    advantages: Advantages<'a>,
    level: Level<'a>,
    clip: Clip,
    rule: Rule<T>,
    weight: Weight,
}

impl<'a, T: Lane> LossBatch<'a, T> {
    fn new(
        tokens: &'a Tokens<'a, T>,
        advantages: Advantages<'a>,
        objective: &Objective<'a>,
        threads: usize,
    ) -> Result<Self> {
        let Objective { level, clip, aggregate } = *objective;
        advantages.check(tokens.offsets)?;
        let turns = if let Level::Turn(turns) = level { Some(turns) } else { None };
        for turns in [turns, advantages.turns()].into_iter().flatten() {
            check_turns(&turns, &tokens.offsets)?;
        }
        let weight = aggregate.weight(&tokens.offsets, tokens.mask, threads)?;
        Ok(Self { tokens, advantages, level, clip, rule: Rule::of(&clip), weight })
    }

    /// Return the tokens of some sequences.
    fn places(&self, rows: &Range<usize>) -> Range<usize> {
        let begin = |row| {
            if row == self.tokens.offsets.len() {
                self.tokens.logp.len()
            } else {
                self.tokens.offsets.row(row).start
            }
        };
        begin(rows.start)..begin(rows.end)
    }

    #[inline(always)]
    fn sequence(
        &self,
        sequence: usize,
        tokens: Range<usize>,
        work: &mut Work<T>,
        out: &mut [T],
    ) -> Result<()> {
        let row = self.tokens.row(tokens.clone());
        let count = row.mask.map_or(tokens.len(), kept);
        if count == 0 {
            out.fill(T::default());
            return Ok(());
        }
        work.total.tokens += count as u64;
        work.total.sequences += 1;
        let weight = self.weight.of(count);
        match self.level {
            Level::Token => {
                for (part, credit) in self.advantages.spans(sequence, tokens.clone()) {
                    let place = part.start - tokens.start..part.end - tokens.start;
                    let part = Span { row: row.cut(place.clone()), credit, weight };
                    span(&part, Ratio::Own, &self.rule, work, &mut out[place])?;
                }
            }
            Level::Turn(turns) => {
                for part in turns.meeting(&tokens).map(|turn| turns.row(turn)) {
                    let out = &mut out[part.start - tokens.start..part.end - tokens.start];
                    self.unit(sequence, part, weight, work, out)?;
                }
            }
            _ => self.unit(sequence, tokens, weight, work, out)?,
        }
        Ok(())
    }

    /// The loss of a turn or of a sequence.
    #[inline(always)]
    fn unit(
        &self,
        sequence: usize,
        tokens: Range<usize>,
        weight: f64,
        work: &mut Work<T>,
        out: &mut [T],
    ) -> Result<()> {
        let row = self.tokens.row(tokens.clone());
        let (sum, count) = sum_log_ratio(&row)?;
        if count == 0 {
            out.fill(T::default());
            return Ok(());
        }
        let (power, gradient) = match self.level {
            Level::SequenceProduct => (Power::Sum, Gradient::Sum),
            Level::SequenceToken => (Power::Mean, Gradient::Own),
            _ => (Power::Mean, Gradient::Mean),
        };
        let gradient = if self.clip.detached { Gradient::Own } else { gradient };
        let unit = RatioUnit { row, tokens: count, ratio: exp(power.of(sum, count)), weight, gradient };
        unit.add(self.advantages.spans(sequence, tokens), &self.clip, work, out)
    }
}

impl LossSums {
    fn into_loss(self) -> PolicyLoss {
        let share = |count: u64| count as f64 / self.tokens as f64;
        let seen = |extreme| if self.ratios.count == 0 { f64::NAN } else { extreme };
        PolicyLoss {
            loss: self.loss,
            clip_fraction_low: share(self.clipped.low),
            clip_fraction_high: share(self.clipped.high),
            clip_fraction_bound: share(self.clipped.bound),
            ratio_mean: self.ratios.mean(),
            ratio_std: self.ratios.std(),
            ratio_min: seen(self.ratios.min),
            ratio_max: seen(self.ratios.max),
            tokens: self.tokens,
            sequences: self.sequences,
        }
    }
}

/// Reject turns that do not lie within sequences.
fn check_turns(turns: &Offsets<'_>, offsets: &Offsets<'_>) -> Result<()> {
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
