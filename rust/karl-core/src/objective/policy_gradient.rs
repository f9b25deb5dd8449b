//! Policy gradients: credit times the log-probability, bounded by how far the policy has moved.

use std::ops::Range;

use super::advantages::{Advantages, TokenAdvantages};
use super::aggregate::{Aggregate, Weight};
use super::arithmetic::{RealArithmetic, sum};
use super::batch_statistics::{Evaluation, Sums};
use super::clip::Clip;
use super::ratio::{Power, Ratio, RatioUnit, Room, drift, local, own_ratios};
use super::rollouts::{PIECE, RolloutPart, Rollouts, map_blocks, not_finite};
use super::turns::Turns;
use super::update::Update;
use crate::check::check_length;
use crate::error::{Error, Result};
use crate::numeric::exp::exp;
use crate::numeric::simd::{Kernel, wide};

/// A point in the axes of policy gradients.
#[derive(Clone, Copy, Debug)]
pub struct PolicyGradient<'a> {
    /// Tokens that share a ratio.
    pub ratio: Ratio<'a>,
    /// What a token adds to the loss.
    pub update: Update,
    /// Drift in nats a token below which a rollout's negative advantages count as 0; None for no such mask.
    pub mask_negatives: Option<f64>,
    /// Penalty on the divergence from the reference.
    pub penalty: Penalty,
    /// Aggregation of tokens to one number, with its denominator.
    pub aggregate: Aggregate,
    /// What each rollout counts, its penalty included; None for all alike. `[B]`
    pub row_weights: Option<&'a [f64]>,
}

/// The axis: with `d = logp - logp_ref`, what is added to the loss of a token.
///
/// ```text
/// K2  coef d^2 / 2               by_ratio: times the ratio logp - logp_old as a constant
/// K3  coef (exp(-d) + d - 1)     by_ratio: times the ratio, gradient and all
/// ```
///
/// Reference: Schulman 2020, Approximating KL Divergence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Penalty {
    /// Nothing.
    None,
    /// Half the square of the drift.
    K2 {
        /// The factor.
        coef: f64,
        /// True to weigh a token by its ratio.
        by_ratio: bool,
    },
    /// The estimate that is never negative.
    K3 {
        /// The factor.
        coef: f64,
        /// True to weigh a token by its ratio.
        by_ratio: bool,
    },
}

/// Compute a policy-gradient objective and its derivative by each log-probability.
///
/// ```text
/// loss = sum_t w_t (update(ratio_t, A_t, logp_t) + penalty_t),    coefficient_t = d loss / d logp_t
/// ```
///
/// `w_t` is the weight of the aggregate, times that of the rollout where there are row weights; the denominator is given
/// then. A ratio on its bound is within: its gradient flows. What is not finite in a token that counts makes the loss
/// infinite or NaN, and raises nothing. Shapes: `coefficient` `[N]`, all of it written, exactly 0 where a token is
/// masked. Cost: one read of the columns, and another from the cache; one write.
///
/// # Errors
/// [`Error::Length`] for columns that do not match; [`Error::Range`] for a
/// denominator below 1.
pub fn policy_gradient<T: RealArithmetic>(
    rollouts: &Rollouts<'_, T>,
    advantages: Advantages<'_>,
    objective: &PolicyGradient<'_>,
    coefficient: &mut [T],
    threads: usize,
) -> Result<Evaluation> {
    check_length("coefficient", coefficient.len(), rollouts.logp.len())?;
    advantages.check(rollouts.offsets)?;
    if let Ratio::Turn(turns) = objective.ratio {
        turns.check(&rollouts.offsets)?;
    }
    if let Some(weights) = objective.row_weights {
        check_length("row_weights", weights.len(), rollouts.rows())?;
    }
    let weight = objective.aggregate.weight(&rollouts.offsets, Some(rollouts.mask), threads)?;
    let batch = Batch { rollouts, advantages, objective, weight };
    let size = |rows: &Range<usize>| rollouts.tokens(rows);
    let one = |rows: Range<usize>, out: &mut [T]| wide(Block { batch: &batch, rows, out });
    let blocks = map_blocks(&rollouts.offsets, coefficient, threads, size, one);
    let sums = blocks.iter().fold(Sums::NONE, Sums::merge);
    let statistics = sums.statistics(rollouts.old.is_some(), rollouts.reference.is_some());
    Ok(Evaluation { loss: sums.loss, statistics })
}

/// Compute [`policy_gradient`], and refuse a number that is not finite where it counts.
///
/// A ratio beyond the range of its type is infinite, and is not an error where a bound takes its place. Cost besides: a read of
/// the coefficients.
///
/// # Errors
/// As [`policy_gradient`]; [`Error::NotFinite`] for the first token that counts with a log-probability, an advantage or a
/// coefficient that is not finite; [`Error::Number`] for a sum of losses that is not. The coefficients are then undefined.
pub fn policy_loss<T: RealArithmetic>(
    rollouts: &Rollouts<'_, T>,
    advantages: Advantages<'_>,
    objective: &PolicyGradient<'_>,
    coefficient: &mut [T],
    threads: usize,
) -> Result<Evaluation> {
    let evaluation = policy_gradient(rollouts, advantages, objective, coefficient, threads)?;
    // The sum over all log ratios has seen each of them: a bound may have hidden one from the loss.
    let finite = evaluation.loss.is_finite() && evaluation.statistics.kl_old.is_finite();
    if finite && wide(Finite(coefficient)) {
        return Ok(evaluation);
    }
    match find_fault(rollouts, advantages, coefficient) {
        Some(error) => Err(error),
        None if evaluation.loss.is_finite() => Ok(evaluation),
        None => Err(Error::Number { what: "loss", value: evaluation.loss }),
    }
}

/// Name the first number that is not finite.
#[cold]
fn find_fault<T: RealArithmetic>(
    rollouts: &Rollouts<'_, T>,
    advantages: Advantages<'_>,
    coefficient: &[T],
) -> Option<Error> {
    let coefficients = || coefficient.iter().enumerate();
    rollouts
        .fault()
        .or_else(|| advantages.fault(&rollouts.offsets, rollouts.mask))
        .or_else(|| coefficients().find_map(|(at, &value)| not_finite("coefficient", at, value)))
}

/// True if all numbers are finite.
struct Finite<'a, T>(&'a [T]);

impl<T: RealArithmetic> Kernel for Finite<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        self.0.iter().fold(true, |finite, value| finite & value.is_finite())
    }
}

/// The loss of some rollouts, and their coefficients.
struct Block<'a, 'b, T> {
    batch: &'b Batch<'a, T>,
    rows: Range<usize>,
    out: &'b mut [T],
}

impl<T: RealArithmetic> Kernel for Block<'_, '_, T> {
    type Output = Sums;

    #[inline(always)]
    fn run(self) -> Sums {
        let (mut sums, mut room, mut out) = (Sums::NONE, Room::new(), self.out);
        for row in self.rows {
            let (own, rest) = self.batch.rollouts.split(row, out);
            self.batch.add_rollout(row, &mut sums, &mut room, own);
            out = rest;
        }
        sums
    }
}

/// All that a block is computed from.
struct Batch<'a, T> {
    rollouts: &'a Rollouts<'a, T>,
    advantages: Advantages<'a>,
    objective: &'a PolicyGradient<'a>,
    weight: Weight,
}

/// Distribution of the gradient of a shared ratio over its tokens: the share of all slopes that each has.
#[derive(Clone, Copy)]
struct Shared {
    log_ratio: f64,
    /// None where each token has the slope of its own term.
    share: Option<f64>,
}

impl<T: RealArithmetic> Batch<'_, T> {
    #[inline(always)]
    fn add_rollout(&self, row: usize, sums: &mut Sums, room: &mut Room<T>, out: &mut [T]) {
        let tokens = self.rollouts.live(row);
        let part = self.rollouts.part(tokens.clone());
        let kept = part.kept();
        if kept == 0 {
            return;
        }
        sums.tokens += kept as u64;
        sums.rollouts += 1;
        let moved = part.sum_log_ratio();
        sums.moved(moved);
        let own = self.objective.row_weights.map_or(1.0, |weights| weights[row]);
        let unit =
            RatioUnit { row, tokens: &tokens, part, weight: self.weight.of(kept) * own, masked: false };
        let masked = self.masks(&unit, moved, kept);
        let unit = RatioUnit { masked, ..unit };
        match self.objective.ratio {
            Ratio::Token => match self.objective.update.geometric() {
                Some(clip) => add_geometric(&clip, self.advantages, &unit, kept, sums, room, out),
                None => self.add_own_ratios(&unit, sums, room, out),
            },
            Ratio::OnPolicy => {
                self.add_shared_ratio(&unit, Shared { log_ratio: 0.0, share: None }, sums, room, out);
            }
            Ratio::Turn(turns) => self.add_turns(&unit, turns, sums, room, out),
            Ratio::SequenceProduct => {
                self.add_shared_ratio(&unit, Shared { log_ratio: moved, share: Some(1.0) }, sums, room, out);
            }
            Ratio::Sequence | Ratio::SequenceToken => {
                let mean = Power::Mean.of(moved, kept);
                let own = matches!(self.objective.ratio, Ratio::SequenceToken);
                let share = (!own).then_some(1.0 / kept as f64);
                self.add_shared_ratio(&unit, Shared { log_ratio: mean, share }, sums, room, out);
            }
        }
        if !matches!(self.objective.ratio, Ratio::Token) {
            drift(&unit.part, false, sums, room);
        }
        self.add_penalty(&unit, sums, room, out);
    }

    /// Return whether the policy has fallen away from the rollout so far that its negative advantages count as 0.
    #[inline(always)]
    fn masks(&self, unit: &RatioUnit<'_, T>, moved: f64, kept: usize) -> bool {
        let Some(delta) = self.objective.mask_negatives else { return false };
        let log_ratio = match self.objective.ratio {
            Ratio::OnPolicy => 0.0,
            Ratio::SequenceProduct => moved,
            Ratio::Turn(turns) => {
                let units = turns.units(unit.tokens).filter(|(_, counts)| *counts);
                let local = |part: Range<usize>| unit.part.cut(local(unit.tokens, &part)).sum_log_ratio();
                units.map(|(part, _)| local(part)).sum::<f64>() / kept as f64
            }
            _ => moved / kept as f64,
        };
        log_ratio < -delta
    }

    /// The tokens of each turn share a ratio; those of no turn have the ratio 1, and no gradient through it.
    #[inline(always)]
    fn add_turns(
        &self,
        unit: &RatioUnit<'_, T>,
        turns: Turns<'_>,
        sums: &mut Sums,
        room: &mut Room<T>,
        out: &mut [T],
    ) {
        out.fill(T::default());
        for (tokens, counts) in turns.units(unit.tokens) {
            let place = local(unit.tokens, &tokens);
            let part = unit.part.cut(place.clone());
            let kept = part.kept();
            if kept > 0 {
                let log_ratio = if counts { part.sum_log_ratio() / kept as f64 } else { 0.0 };
                let share = Some(if counts { 1.0 / kept as f64 } else { 0.0 });
                let turn = RatioUnit { tokens: &tokens, part, ..*unit };
                self.add_shared_ratio(&turn, Shared { log_ratio, share }, sums, room, &mut out[place]);
            }
        }
    }

    /// Each token has a ratio of its own.
    #[inline(always)]
    fn add_own_ratios(&self, unit: &RatioUnit<'_, T>, sums: &mut Sums, room: &mut Room<T>, out: &mut [T]) {
        for (tokens, credit) in self.advantages.spans(unit.row, unit.tokens.clone()) {
            let place = local(unit.tokens, &tokens);
            let (part, out) = (unit.part.cut(place.clone()), &mut out[place]);
            for (number, out) in out.chunks_mut(PIECE).enumerate() {
                let places = number * PIECE..number * PIECE + out.len();
                let piece = part.cut(places.clone());
                let kept = piece.kept();
                if kept == 0 {
                    out.fill(T::default());
                    continue;
                }
                own_ratios(&piece, kept, sums, room);
                sums.ratios.extend(&room.ratios[..out.len()], kept);
                credit.fill(places, unit.masked, &mut room.advantages);
                let terms = self.objective.update.fill_coefficients(&piece, unit.weight, sums, room, out);
                sums.loss += unit.weight * terms;
            }
        }
    }

    /// All tokens share a ratio.
    #[inline(always)]
    fn add_shared_ratio(
        &self,
        unit: &RatioUnit<'_, T>,
        shared: Shared,
        sums: &mut Sums,
        room: &mut Room<T>,
        out: &mut [T],
    ) {
        let ratio = exp(shared.log_ratio);
        sums.ratios.push(ratio, unit.part.kept() as u64);
        let detached = self.objective.update.detached();
        let share = if detached { None } else { shared.share };
        let mut slopes = 0.0;
        for (tokens, credit) in self.advantages.spans(unit.row, unit.tokens.clone()) {
            let place = local(unit.tokens, &tokens);
            let (part, out) = (unit.part.cut(place.clone()), &mut out[place]);
            if let (TokenAdvantages::One { value, .. }, false) = (credit, detached) {
                let slope = self.add_alike(&part, ratio, value, unit, sums);
                if share.is_none() {
                    part.spread(T::narrow(unit.weight * slope), out);
                }
                slopes += slope * unit.weight * part.kept() as f64;
                continue;
            }
            room.ratios.fill(T::narrow(ratio));
            for (number, out) in out.chunks_mut(PIECE).enumerate() {
                let places = number * PIECE..number * PIECE + out.len();
                let piece = part.cut(places.clone());
                credit.fill(places, unit.masked, &mut room.advantages);
                sums.loss += unit.weight
                    * self.objective.update.fill_coefficients(&piece, unit.weight, sums, room, out);
                slopes += if share.is_some() { sum(out) } else { 0.0 };
            }
        }
        if let Some(share) = share {
            unit.part.spread(T::narrow(slopes * share), out);
        }
    }

    /// The tokens share ratio and advantage: return the slope of each, before its weight.
    #[inline(always)]
    fn add_alike(
        &self,
        part: &RolloutPart<'_, T>,
        ratio: f64,
        advantage: f64,
        unit: &RatioUnit<'_, T>,
        sums: &mut Sums,
    ) -> f64 {
        let advantage = if unit.masked && advantage < 0.0 { 0.0 } else { advantage };
        let (kept, step) = (part.kept(), self.objective.update.step_of_shared(ratio, advantage));
        sums.below += if step.below { kept as u64 } else { 0 };
        sums.above += if step.above { kept as u64 } else { 0 };
        sums.bound += if step.bound { kept as u64 } else { 0 };
        sums.loss += unit.weight * kept as f64 * step.term;
        step.slope
    }

    #[inline(always)]
    fn add_penalty(&self, unit: &RatioUnit<'_, T>, sums: &mut Sums, room: &mut Room<T>, out: &mut [T]) {
        if self.objective.penalty == Penalty::None {
            return;
        }
        for (number, out) in out.chunks_mut(PIECE).enumerate() {
            let piece = unit.part.cut(number * PIECE..number * PIECE + out.len());
            if piece.kept() == 0 {
                continue;
            }
            let (terms, k3) = self.objective.penalty.add(&piece, unit.weight, room, out);
            sums.loss += unit.weight * terms;
            sums.kl += k3;
        }
    }
}

/// Tokens are clipped before the geometric mean of their ratios is taken: one that was has no gradient.
#[inline(always)]
fn add_geometric<T: RealArithmetic>(
    clip: &Clip,
    advantages: Advantages<'_>,
    unit: &RatioUnit<'_, T>,
    kept: usize,
    sums: &mut Sums,
    room: &mut Room<T>,
    out: &mut [T],
) {
    let (high, low) = (T::narrow(clip.positive.ceiling), T::narrow(clip.negative.floor));
    let (mut held, mut credit) = (0.0, 0.0);
    for (number, out) in out.chunks_mut(PIECE).enumerate() {
        let places = number * PIECE..number * PIECE + out.len();
        let piece = unit.part.cut(places.clone());
        let here = piece.kept();
        own_ratios(&piece, here, sums, room);
        sums.ratios.extend(&room.ratios[..out.len()], here);
        fill_advantages(advantages, unit, places, room);
        let (mut below, mut above) = (0_u32, 0_u32);
        let Room { log_ratios, advantages, terms, .. } = room;
        let tokens = out.iter_mut().zip(terms.iter_mut()).zip(log_ratios.iter()).zip(advantages.iter_mut());
        for ((((out, term), &log_ratio), advantage), &keep) in tokens.zip(piece.keep) {
            let over = keep & (*advantage > T::default()) & (log_ratio > high);
            let under = keep & (*advantage < T::default()) & (log_ratio < low);
            *term = if over {
                high
            } else if under {
                low
            } else {
                log_ratio
            };
            *out = if keep & !(over | under) { T::ONE } else { T::default() };
            *advantage = if keep { *advantage } else { T::default() };
            above += u32::from(over);
            below += u32::from(under);
        }
        sums.below += u64::from(below);
        sums.above += u64::from(above);
        held += sum(&room.terms[..out.len()]);
        credit += sum(&room.advantages[..out.len()]);
    }
    let loss = if credit == 0.0 { 0.0 } else { -(unit.weight * credit * exp(held / kept as f64)) };
    sums.loss += loss;
    let slope = T::narrow(loss / kept as f64);
    for out in out {
        *out = *out * slope;
    }
}

/// Fill in the advantages of some tokens of a rollout.
#[inline(always)]
fn fill_advantages<T: RealArithmetic>(
    advantages: Advantages<'_>,
    unit: &RatioUnit<'_, T>,
    places: Range<usize>,
    room: &mut Room<T>,
) {
    let tokens = unit.tokens.start + places.start..unit.tokens.start + places.end;
    for (part, credit) in advantages.spans(unit.row, tokens.clone()) {
        let out = &mut room.advantages[local(&tokens, &part)];
        credit.fill(0..out.len(), unit.masked, out);
    }
}

impl Penalty {
    fn by_ratio(self) -> bool {
        matches!(self, Self::K2 { by_ratio: true, .. } | Self::K3 { by_ratio: true, .. })
    }

    /// Add the penalty of some tokens to their coefficients; return the sum of its terms, and that of k3.
    #[inline(always)]
    fn add<T: RealArithmetic>(
        self,
        part: &RolloutPart<'_, T>,
        weight: f64,
        room: &mut Room<T>,
        out: &mut [T],
    ) -> (f64, f64) {
        let (square, coef) = match self {
            Self::None => return (0.0, 0.0),
            Self::K2 { coef, .. } => (true, coef),
            Self::K3 { coef, .. } => (false, coef),
        };
        let Some(reference) = part.reference else { return (0.0, 0.0) };
        let (n, by_ratio) = (part.len(), self.by_ratio());
        let Room { ratios, terms, advantages: k3, .. } = room;
        let (ratios, terms, k3) = (&mut ratios[..n], &mut terms[..n], &mut k3[..n]);
        match part.old.filter(|_| by_ratio) {
            None => ratios.fill(T::ONE),
            Some(old) => part.ratios(old, ratios),
        }
        let (half, weight) = (T::narrow(0.5), T::narrow(weight * coef));
        let given = part.logp.iter().zip(reference).zip(part.keep).zip(&*ratios);
        let tokens = out.iter_mut().zip(terms.iter_mut()).zip(k3.iter_mut());
        for (((out, term), k3), (((&logp, &reference), &keep), &ratio)) in tokens.zip(given) {
            let drift = if keep { logp - reference } else { T::default() };
            // exp(-d) - 1 = (exp(-d) - 1 + d) - d, and neither loses digits.
            let (_, value) = (-drift).exp_and_excess();
            *k3 = value;
            // K3 by ratio: ratio (1 - exp(-d)) + ratio k3 = ratio d.
            let slope = if square || by_ratio { drift } else { drift - value };
            *term = ratio * if square { half * drift * drift } else { value };
            *out = *out + weight * (ratio * slope);
        }
        (coef * sum(terms), sum(k3))
    }
}
