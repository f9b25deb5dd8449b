//! Policy gradients of a geometric mean of clipped ratios (GMPO).

use std::ops::Range;

use super::advantages::Advantages;
use super::batch_statistics::Sums;
use super::clip::Clip;
use super::ratio_pieces::{RatioUnit, Room, local, own_ratios};
use super::real_arithmetic::RealArithmetic;
use super::rollouts::PIECE;
use super::token_coefficients::fill_advantages;
use super::token_sums::sum;
use crate::numeric::exp::exp;

/// Tokens are clipped before the geometric mean of their ratios is taken: one that was has no gradient.
#[inline(always)]
pub(super) fn geometric<T: RealArithmetic>(
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
        credits(advantages, unit, places, room);
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
fn credits<T: RealArithmetic>(
    advantages: Advantages<'_>,
    unit: &RatioUnit<'_, T>,
    places: Range<usize>,
    room: &mut Room<T>,
) {
    let tokens = unit.tokens.start + places.start..unit.tokens.start + places.end;
    for (part, credit) in advantages.spans(unit.row, tokens.clone()) {
        let out = &mut room.advantages[local(&tokens, &part)];
        fill_advantages(credit, 0..out.len(), unit.masked, out);
    }
}
