//! Weighted likelihood: the likelihood of logged rows, each at its weight; and terms of other quantities of a token.

use std::ops::Range;

use super::aggregate::{Aggregate, Weight};
use super::arithmetic::{RealArithmetic, sum};
use super::batch_statistics::{Evaluation, Sums};
use super::ratio::Room;
use super::rollouts::{PIECE, RolloutPart, Rollouts, map_blocks};
use super::row_sums::add_drift;
use crate::check::{check_finite, check_length, check_positive};
use crate::error::Result;
use crate::numeric::simd::{Kernel, wide};
use crate::numeric::sum::{Compensated, sigmoid};

/// A point in the axes of weighted likelihoods, for one batch.
#[derive(Clone, Copy, Debug)]
pub struct WeightedLikelihood<'a> {
    /// The weight of each row. `[B]`
    pub weights: &'a [f64],
    /// What a token counts besides.
    pub gate: Gate,
    /// Aggregation of tokens to one number, with its denominator.
    pub aggregate: Aggregate,
}

/// What a token counts by its log-probability, without a derivative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gate {
    /// 1.
    Open,
    /// `exp(logp)`: as much as the policy believes it (DFT).
    Probability,
    /// `g_t / mean g`, `g_t = sigma(kappa (logp - gamma))`: hardly anything where the policy is more surprised than
    /// `-gamma` nats. The mean is over the tokens of the row that count. Reference: rl-experiments @879294c, `pedagogy_sandbox`.
    Surprisal {
        /// How sharp it is.
        kappa: f64,
        /// The log-probability at which it is half open.
        gamma: f64,
    },
}

/// Compute a weighted likelihood and its derivative by each log-probability.
///
/// ```text
/// loss = -sum_i w_i sum_t a_t logp_t,    or with each term scaled by a gate of logp_t;    a of the aggregate
/// ```
///
/// Shapes: `coefficient` `[N]`, all of it written. Cost: one read of the columns, one write.
///
/// # Errors
/// [`Error::Length`](crate::Error::Length) for columns that do not match; [`Error::Range`](crate::Error::Range) for a
/// denominator below 1.
pub fn weighted_likelihood<T: RealArithmetic>(
    rollouts: &Rollouts<'_, T>,
    objective: &WeightedLikelihood<'_>,
    coefficient: &mut [T],
    threads: usize,
) -> Result<Evaluation> {
    check_length("weights", objective.weights.len(), rollouts.offsets.len())?;
    check_gate(objective.gate)?;
    let summed = WeightedSum {
        rollouts,
        values: rollouts.logp,
        gate: objective.gate,
        factors: Some(objective.weights),
        factor: -1.0,
    };
    let (sums, _) = summed.fill(objective.aggregate, coefficient, threads)?;
    Ok(Evaluation { loss: sums.loss, statistics: sums.statistics(rollouts.old.is_some(), false) })
}

fn check_gate(gate: Gate) -> Result<()> {
    let Gate::Surprisal { kappa, gamma } = gate else { return Ok(()) };
    check_positive("kappa", kappa)?;
    check_finite("gamma", &[gamma])
}

/// Return what the gates of a row are divided by: their mean for those by surprisal, else 1.
fn mean_gate<T: RealArithmetic>(part: &RolloutPart<'_, T>, gate: Gate) -> f64 {
    let Gate::Surprisal { kappa, gamma } = gate else { return 1.0 };
    let (mut total, mut count) = (Compensated::ZERO, 0.0);
    for (logp, _) in part.logp.iter().zip(part.keep).filter(|&(_, &keep)| keep) {
        total.add(sigmoid(kappa * (logp.widen() - gamma)));
        count += 1.0;
    }
    let mean = total.value() / count;
    if mean > 0.0 { mean } else { 1.0 } // all tokens surprise beyond the smallest number
}

/// Compute a term that is linear in another quantity of each token, such as the policy's entropy or the divergence of
/// its full distribution from another: the sum, the derivative by each value, and the mean over the tokens that count.
///
/// ```text
/// loss = factor sum_t a_t v_t,    coefficient_t = factor a_t,    a of the aggregate
/// ```
///
/// Shapes: `values` and `coefficient` `[N]`. Cost: one read, one write.
///
/// # Errors
/// As [`weighted_likelihood`].
pub fn linear_term<T: RealArithmetic>(
    rollouts: &Rollouts<'_, T>,
    values: &[T],
    factor: f64,
    aggregate: Aggregate,
    coefficient: &mut [T],
    threads: usize,
) -> Result<(f64, f64)> {
    check_length("values", values.len(), rollouts.logp.len())?;
    let summed = WeightedSum { rollouts, values, gate: Gate::Open, factors: None, factor };
    let (sums, total) = summed.fill(aggregate, coefficient, threads)?;
    Ok((sums.loss, total / sums.tokens.max(1) as f64))
}

/// A weighted sum over tokens.
struct WeightedSum<'a, T> {
    rollouts: &'a Rollouts<'a, T>,
    values: &'a [T],
    gate: Gate,
    /// One factor a row, and one for all.
    factors: Option<&'a [f64]>,
    factor: f64,
}

impl<T: RealArithmetic> WeightedSum<'_, T> {
    /// Write the coefficients; return the sums, and that of the values.
    fn fill(&self, aggregate: Aggregate, coefficient: &mut [T], threads: usize) -> Result<(Sums, f64)> {
        check_length("coefficient", coefficient.len(), self.values.len())?;
        let weight = aggregate.weight(&self.rollouts.offsets, Some(self.rollouts.mask), threads)?;
        let size = |rows: &Range<usize>| self.rollouts.tokens(rows);
        let one = |rows: Range<usize>, out: &mut [T]| wide(SumBlock { summed: self, weight, rows, out });
        let blocks = map_blocks(&self.rollouts.offsets, coefficient, threads, size, one);
        let add = |all: (Sums, f64), one: &(Sums, f64)| (all.0.merge(&one.0), all.1 + one.1);
        Ok(blocks.iter().fold((Sums::NONE, 0.0), add))
    }
}

struct SumBlock<'a, 'b, T> {
    summed: &'b WeightedSum<'a, T>,
    weight: Weight,
    rows: Range<usize>,
    out: &'b mut [T],
}

impl<T: RealArithmetic> Kernel for SumBlock<'_, '_, T> {
    /// The sums of the weighted values, and that of the plain ones.
    type Output = (Sums, f64);

    #[inline(always)]
    fn run(self) -> Self::Output {
        let WeightedSum { rollouts, values, gate, factors, factor } = *self.summed;
        let (mut sums, mut plain) = (Sums::NONE, 0.0);
        let (mut out, mut room) = (self.out, Room::new());
        for row in self.rows {
            let (own, rest) = rollouts.split(row, out);
            out = rest;
            let tokens = rollouts.live(row);
            let part = rollouts.part(tokens.clone());
            let kept = part.kept();
            if kept == 0 {
                continue;
            }
            let each =
                factors.map_or(factor, |of| factor * of[row]) * self.weight.of(kept) / mean_gate(&part, gate);
            let total = add_row(&part, &values[tokens], gate, each, &mut room, own);
            sums.loss += each * total;
            plain += total;
            add_drift(&part, kept, &mut sums, &mut room);
        }
        (sums, plain)
    }
}

/// Write the coefficients of a row, and return the sum of its terms.
#[inline(always)]
fn add_row<T: RealArithmetic>(
    part: &RolloutPart<'_, T>,
    values: &[T],
    gate: Gate,
    each: f64,
    room: &mut Room<T>,
    out: &mut [T],
) -> f64 {
    let (zero, each, mut total) = (T::default(), T::narrow(each), 0.0);
    let pieces = out.chunks_mut(PIECE).zip(values.chunks(PIECE)).zip(part.keep.chunks(PIECE));
    for ((out, values), keep) in pieces {
        let terms = &mut room.terms[..out.len()];
        for (((out, term_of), &value), &keep) in out.iter_mut().zip(terms.iter_mut()).zip(values).zip(keep) {
            let scale = match gate {
                Gate::Open => T::ONE,
                Gate::Probability => value.exp(),
                Gate::Surprisal { kappa, gamma } => {
                    T::ONE / (T::ONE + (T::narrow(kappa) * (T::narrow(gamma) - value)).exp())
                }
            };
            *term_of = if keep { scale * value } else { zero };
            *out = if keep { each * scale } else { zero };
        }
        total += sum(terms);
    }
    total
}
