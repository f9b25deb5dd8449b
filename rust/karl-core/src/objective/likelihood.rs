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
use crate::numeric::sum::Compensated;

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

/// The gates of a row.
#[derive(Clone, Copy)]
enum RowGates {
    Open,
    Probability,
    Surprisal(SurprisalGates),
}

impl RowGates {
    fn new<T: RealArithmetic>(part: &RolloutPart<'_, T>, gate: Gate) -> Self {
        match gate {
            Gate::Open => Self::Open,
            Gate::Probability => Self::Probability,
            Gate::Surprisal { kappa, gamma } => Self::Surprisal(SurprisalGates::new(part, kappa, gamma)),
        }
    }
}

/// Gates by surprisal, each relative to the largest of its row. In f64 and so the least mean is 1 over the number of
/// tokens: the gates themselves leave the range of f32, and in the end that of f64, where all tokens surprise.
#[derive(Clone, Copy)]
struct SurprisalGates {
    kappa: f64,
    gamma: f64,
    /// The largest `kappa (logp - gamma)`.
    largest: f64,
    /// The mean of the gates over that of the largest.
    mean: f64,
}

impl SurprisalGates {
    fn new<T: RealArithmetic>(part: &RolloutPart<'_, T>, kappa: f64, gamma: f64) -> Self {
        let learned =
            || part.logp.iter().zip(part.keep).filter(|&(_, &keep)| keep).map(|(logp, _)| logp.widen());
        let mut gates = Self { kappa, gamma, largest: f64::NEG_INFINITY, mean: 1.0 };
        gates.largest = learned().map(|logp| gates.exponent(logp)).fold(f64::NEG_INFINITY, f64::max);
        let (mut total, mut count) = (Compensated::ZERO, 0.0);
        for logp in learned() {
            total.add(gates.relative(logp));
            count += 1.0;
        }
        gates.mean = total.value() / count;
        gates
    }

    fn exponent(&self, logp: f64) -> f64 {
        // Finite, so that a difference of two is a number.
        (self.kappa * (logp - self.gamma)).max(-f64::MAX)
    }

    /// Return the gate of a token over the largest: `sigma(x) = e^min(x, 0) / (1 + e^-|x|)`, one over the other.
    fn relative(&self, logp: f64) -> f64 {
        let (x, largest) = (self.exponent(logp), self.largest);
        libm::exp(x.min(0.0) - largest.min(0.0)) * (1.0 + libm::exp(-largest.abs()))
            / (1.0 + libm::exp(-x.abs()))
    }

    /// Return the gate of a token over the mean.
    fn of(&self, logp: f64) -> f64 {
        self.relative(logp) / self.mean
    }
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
            let each = factors.map_or(factor, |of| factor * of[row]) * self.weight.of(kept);
            let gates = RowGates::new(&part, gate);
            let total = add_row(&part, &values[tokens], gates, each, &mut room, own);
            sums.loss += each * total;
            plain += total;
            add_drift(&part, kept, &mut sums, &mut room);
        }
        (sums, plain)
    }
}

/// Write the coefficients of a row, and return the sum of its terms. Each kind of gate has a loop of its own: a branch in
/// the loop would keep it from becoming vector code.
#[inline(always)]
fn add_row<T: RealArithmetic>(
    part: &RolloutPart<'_, T>,
    values: &[T],
    gates: RowGates,
    each: f64,
    room: &mut Room<T>,
    out: &mut [T],
) -> f64 {
    match gates {
        RowGates::Open => add_scaled(
            part,
            values,
            #[inline(always)]
            |_| T::ONE,
            each,
            room,
            out,
        ),
        RowGates::Probability => add_scaled(part, values, T::exp, each, room, out),
        RowGates::Surprisal(gates) => {
            add_scaled(part, values, |value| T::narrow(gates.of(value.widen())), each, room, out)
        }
    }
}

#[inline(always)]
fn add_scaled<T: RealArithmetic>(
    part: &RolloutPart<'_, T>,
    values: &[T],
    scale: impl Fn(T) -> T,
    each: f64,
    room: &mut Room<T>,
    out: &mut [T],
) -> f64 {
    let (zero, each, mut total) = (T::default(), T::narrow(each), 0.0);
    let pieces = out.chunks_mut(PIECE).zip(values.chunks(PIECE)).zip(part.keep.chunks(PIECE));
    for ((out, values), keep) in pieces {
        let terms = &mut room.terms[..out.len()];
        for (((out, term_of), &value), &keep) in out.iter_mut().zip(terms.iter_mut()).zip(values).zip(keep) {
            let scale = scale(value);
            *term_of = if keep { scale * value } else { zero };
            *out = if keep { each * scale } else { zero };
        }
        total += sum(terms);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::offsets::Offsets;

    /// Return the loss and the coefficients of one row whose last token does not count.
    fn of<T: RealArithmetic>(logp: &[f64], gate: Gate, weight: f64) -> (f64, Vec<f64>) {
        let logp: Vec<T> = logp.iter().map(|&logp| T::narrow(logp)).collect();
        let mut mask = vec![true; logp.len()];
        mask[logp.len() - 1] = false;
        let ends = [0, i64::try_from(logp.len()).unwrap()];
        let offsets = Offsets::new("offsets", &ends, logp.len()).unwrap();
        let rollouts = Rollouts::new(&logp, None, None, &mask, offsets).unwrap();
        let weights = [weight];
        let objective =
            WeightedLikelihood { weights: &weights, gate, aggregate: Aggregate::TokenMean { tokens: None } };
        let mut out = vec![T::ONE; logp.len()];
        let evaluation = weighted_likelihood(&rollouts, &objective, &mut out, 1).unwrap();
        (evaluation.loss, out.iter().map(|value| value.widen()).collect())
    }

    const GATE: Gate = Gate::Surprisal { kappa: 4.0, gamma: -2.5 };

    #[test]
    fn gates_too_small_for_the_type_count_as_their_share_of_the_mean() {
        for weight in [1.0, 1e-3] {
            // The gate is 1.7e-48, which f32 has not, and the only one of its row.
            for (loss, coefficients) in
                [of::<f32>(&[-30.0, 0.0], GATE, weight), of::<f64>(&[-30.0, 0.0], GATE, weight)]
            {
                assert!((loss - 30.0 * weight).abs() < 1e-5 * weight, "{loss}");
                assert!((coefficients[0] + weight).abs() < 1e-6 * weight, "{coefficients:?}");
            }
            // Beyond f64 too.
            let (loss, coefficients) = of::<f64>(&[-1000.0, -1001.0, 0.0], GATE, weight);
            let open = 2.0 / (1.0 + libm::exp(-4.0));
            let wanted = weight / 2.0 * (open * 1000.0 + (2.0 - open) * 1001.0);
            assert!((loss - wanted).abs() < 1e-9, "{loss}");
            assert!((coefficients[0] + weight / 2.0 * open).abs() < 1e-12, "{coefficients:?}");
        }
    }

    #[test]
    fn coefficients_are_the_derivative_with_the_gates_held() {
        let (logp, kept) = ([-0.1, -2.0, -2.6, -7.0, -0.5], 4);
        let gates: Vec<f64> =
            logp[..kept].iter().map(|logp| 1.0 / (1.0 + libm::exp(-4.0 * (logp + 2.5)))).collect();
        let mean = gates.iter().sum::<f64>() / kept as f64;
        // The loss with these gates, whatever the log-probabilities: linear, so that differences are exact.
        let held = |logp: &[f64]| {
            let terms = logp[..kept].iter().zip(&gates).map(|(logp, gate)| -gate / mean * logp);
            0.7 * terms.sum::<f64>() / kept as f64
        };
        for ((loss, coefficients), slack) in
            [(of::<f64>(&logp, GATE, 0.7), 1e-12), (of::<f32>(&logp, GATE, 0.7), 1e-6)]
        {
            assert!((loss - held(&logp)).abs() < slack, "{loss}");
            for at in 0..kept {
                let mut moved = logp;
                moved[at] += 1.0;
                assert!((coefficients[at] - (held(&moved) - held(&logp))).abs() < slack, "{at}");
            }
            assert!(coefficients[kept].abs() < f64::MIN_POSITIVE, "a token that does not count");
        }
    }
}
