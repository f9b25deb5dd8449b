//! Policy gradients: credit times the log-probability, bounded by how far the policy has moved.

use std::ops::Range;

use super::advantages::{Advantages, TokenAdvantages};
use super::aggregate::{Aggregate, Weight};
use super::batch_statistics::{Evaluation, Sums};
use super::geometric::geometric;
use super::log_ratio::Power;
use super::penalty::Penalty;
use super::ratio_pieces::{Ratio, RatioUnit, Room, drift, local, own_ratios};
use super::real_arithmetic::RealArithmetic;
use super::rollouts::{PIECE, RolloutPart, Rollouts};
use super::thread_blocks;
use super::token_coefficients::{fill_advantages, steps};
use super::token_sums::sum;
use super::turns::Turns;
use super::update::Update;
use crate::check::check_length;
use crate::error::Result;
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
}

/// Compute a policy-gradient objective and its derivative by each log-probability.
///
/// ```text
/// loss = sum_t w_t (update(ratio_t, A_t, logp_t) + penalty_t),    coefficient_t = d loss / d logp_t
/// ```
///
/// A ratio on its bound is within: its gradient flows. What is not finite in a token that counts makes the loss
/// infinite or NaN, and raises nothing. Shapes: `coefficient` `[N]`, all of it written, exactly 0 where a token is
/// masked. Cost: one read of the columns, and another from the cache; one write.
///
/// # Errors
/// [`Error::Length`](crate::Error::Length) for columns that do not match; [`Error::Range`](crate::Error::Range) for a
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
    let weight = objective.aggregate.weight(&rollouts.offsets, Some(rollouts.mask), threads)?;
    let batch = Batch { rollouts, advantages, objective, weight };
    let size = |rows: &Range<usize>| rollouts.tokens(rows);
    let one = |rows: Range<usize>, out: &mut [T]| wide(Block { batch: &batch, rows, out });
    let blocks = thread_blocks::map(&rollouts.offsets, coefficient, threads, size, one);
    let sums = blocks.iter().fold(Sums::NONE, Sums::merge);
    let statistics = sums.statistics(rollouts.old.is_some(), rollouts.reference.is_some());
    Ok(Evaluation { loss: sums.loss, statistics })
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
            self.batch.rollout(row, &mut sums, &mut room, own);
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
    fn rollout(&self, row: usize, sums: &mut Sums, room: &mut Room<T>, out: &mut [T]) {
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
        let unit = RatioUnit { row, tokens: &tokens, part, weight: self.weight.of(kept), masked: false };
        let masked = self.masks(&unit, moved, kept);
        let unit = RatioUnit { masked, ..unit };
        match self.objective.ratio {
            Ratio::Token => match self.objective.update.geometric() {
                Some(clip) => geometric(&clip, self.advantages, &unit, kept, sums, room, out),
                None => self.own(&unit, sums, room, out),
            },
            Ratio::OnPolicy => self.shared(&unit, Shared { log_ratio: 0.0, share: None }, sums, room, out),
            Ratio::Turn(turns) => self.by_turn(&unit, turns, sums, room, out),
            Ratio::SequenceProduct => {
                self.shared(&unit, Shared { log_ratio: moved, share: Some(1.0) }, sums, room, out);
            }
            Ratio::Sequence | Ratio::SequenceToken => {
                let mean = Power::Mean.of(moved, kept);
                let own = matches!(self.objective.ratio, Ratio::SequenceToken);
                let share = (!own).then_some(1.0 / kept as f64);
                self.shared(&unit, Shared { log_ratio: mean, share }, sums, room, out);
            }
        }
        if !matches!(self.objective.ratio, Ratio::Token) {
            drift(&unit.part, false, sums, room);
        }
        self.penalise(&unit, sums, room, out);
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
    fn by_turn(
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
                self.shared(&turn, Shared { log_ratio, share }, sums, room, &mut out[place]);
            }
        }
    }

    /// Each token has a ratio of its own.
    #[inline(always)]
    fn own(&self, unit: &RatioUnit<'_, T>, sums: &mut Sums, room: &mut Room<T>, out: &mut [T]) {
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
                fill_advantages(credit, places, unit.masked, &mut room.advantages);
                let terms = steps(&self.objective.update, &piece, unit.weight, sums, room, out);
                sums.loss += unit.weight * terms;
            }
        }
    }

    /// All tokens share a ratio.
    #[inline(always)]
    fn shared(
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
                let slope = self.alike(&part, ratio, value, unit, sums);
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
                fill_advantages(credit, places, unit.masked, &mut room.advantages);
                sums.loss +=
                    unit.weight * steps(&self.objective.update, &piece, unit.weight, sums, room, out);
                slopes += if share.is_some() { sum(out) } else { 0.0 };
            }
        }
        if let Some(share) = share {
            unit.part.spread(T::narrow(slopes * share), out);
        }
    }

    /// The tokens share ratio and advantage: return the slope of each, before its weight.
    #[inline(always)]
    fn alike(
        &self,
        part: &RolloutPart<'_, T>,
        ratio: f64,
        advantage: f64,
        unit: &RatioUnit<'_, T>,
        sums: &mut Sums,
    ) -> f64 {
        let advantage = if unit.masked && advantage < 0.0 { 0.0 } else { advantage };
        let (kept, step) = (part.kept(), self.objective.update.shared(ratio, advantage));
        sums.below += if step.below { kept as u64 } else { 0 };
        sums.above += if step.above { kept as u64 } else { 0 };
        sums.bound += if step.bound { kept as u64 } else { 0 };
        sums.loss += unit.weight * kept as f64 * step.term;
        step.slope
    }

    #[inline(always)]
    fn penalise(&self, unit: &RatioUnit<'_, T>, sums: &mut Sums, room: &mut Room<T>, out: &mut [T]) {
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
