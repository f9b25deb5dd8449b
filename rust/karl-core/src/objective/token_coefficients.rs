//! The coefficients of tokens with known ratios and advantages, a piece at a time.

use std::ops::Range;

use super::advantages::TokenAdvantages;
use super::batch_statistics::Sums;
use super::clip::Clip;
use super::ratio_pieces::Room;
use super::real_arithmetic::RealArithmetic;
use super::rollouts::RolloutPart;
use super::token_sums::sum;
use super::update::{Bounded, Delight, Flip, SoftGate, Update, UpdateRule, Variance};
use crate::numeric::float::Real;

/// Write the coefficients of a piece of known ratios and advantages; return the sum of its terms.
#[inline(always)]
pub(super) fn steps<T: RealArithmetic>(
    update: &Update,
    piece: &RolloutPart<'_, T>,
    weight: f64,
    sums: &mut Sums,
    room: &mut Room<T>,
    out: &mut [T],
) -> f64 {
    match *update {
        Update::Bounded(clip) if clip.detached => {
            under(Bounded::<T, true>::of(&clip), piece, weight, sums, room, out)
        }
        Update::Bounded(clip) => under(Bounded::<T, false>::of(&clip), piece, weight, sums, room, out),
        Update::Geometric { .. } => {
            let free = Bounded::<T, false>::of(&Clip::NONE);
            under(free, piece, weight, sums, room, out)
        }
        Update::Variance { strength } => under(Variance(T::narrow(strength)), piece, weight, sums, room, out),
        Update::SoftGate { positive, negative } => {
            under(SoftGate::of(positive, negative), piece, weight, sums, room, out)
        }
        Update::Flip { low, high, bound } => {
            under(Flip::of(low, high, bound), piece, weight, sums, room, out)
        }
        Update::Delight { temperature } => {
            under(Delight(T::narrow(1.0 / temperature)), piece, weight, sums, room, out)
        }
    }
}

/// Fill in the advantages of some places of a span; negative ones count as 0 where they are masked.
#[inline(always)]
pub(super) fn fill_advantages<T: RealArithmetic>(
    credit: TokenAdvantages<'_>,
    places: Range<usize>,
    masked: bool,
    out: &mut [T],
) {
    let out = &mut out[..places.len()];
    match credit {
        TokenAdvantages::One { value, .. } => out.fill(T::narrow(value)),
        TokenAdvantages::Single(values) => narrow(&values[places], out),
        TokenAdvantages::Double(values) => narrow(&values[places], out),
    }
    if masked {
        for advantage in out {
            *advantage = if *advantage < T::default() { T::default() } else { *advantage };
        }
    }
}

#[inline(always)]
fn narrow<T: RealArithmetic, A: Real>(values: &[A], out: &mut [T]) {
    for (out, value) in out.iter_mut().zip(values) {
        *out = T::narrow(value.widen());
    }
}

/// Write the coefficients under one rule.
#[inline(always)]
fn under<T: RealArithmetic, R: UpdateRule<T>>(
    rule: R,
    piece: &RolloutPart<'_, T>,
    weight: f64,
    sums: &mut Sums,
    room: &mut Room<T>,
    out: &mut [T],
) -> f64 {
    let (zero, weight) = (T::default(), T::narrow(weight));
    let n = out.len();
    let (ratios, advantages, terms) = (&room.ratios[..n], &room.advantages[..n], &mut room.terms[..n]);
    let (mut low, mut high, mut bound) = (0_u32, 0_u32, 0_u32);
    let given = ratios.iter().zip(advantages).zip(piece.logp.iter().zip(piece.keep));
    for ((term, out), ((&ratio, &advantage), (&logp, &keep))) in terms.iter_mut().zip(out).zip(given) {
        let step = rule.step(ratio, advantage, logp);
        // A NaN is not equal to zero, and has to be seen in the sum.
        let live = keep & (!R::BY_ADVANTAGE | (advantage != zero));
        *term = if live { step.term } else { zero };
        *out = if live { weight * step.slope } else { zero };
        low += u32::from(live & step.below);
        high += u32::from(live & step.above);
        bound += u32::from(live & step.bound);
    }
    sums.below += u64::from(low);
    sums.above += u64::from(high);
    sums.bound += u64::from(bound);
    sum(terms)
}
