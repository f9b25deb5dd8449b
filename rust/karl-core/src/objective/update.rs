//! Rules of an update: the term of a token in the loss, and its slope.

use super::arithmetic::{RealArithmetic, sum};
use super::batch_statistics::Sums;
use super::clip::{Bounds, Clip};
use super::ratio::Room;
use super::rollouts::RolloutPart;

/// The axis: what a token adds to the loss, given its ratio, its advantage A and its log-probability.
///
/// ```text
/// Bounded    -A bounded(ratio), or -A sg(bounded(ratio)) logp where the clip is detached
/// Geometric  -A exp(mean over the sequence of the clipped log ratios)                      (GMPO)
/// Variance   strength (ratio - 1)^2 - ratio A                                              (R2VPO)
/// SoftGate   -A (4 / t) sigmoid(t (ratio - 1)),  t by the sign of A                        (SAPO)
/// Flip       -A sg(min(w, bound)) logp,  w = 1 / ratio where A > 0, ratio where A < 0      (ASPO)
/// Delight    -A sg(sigmoid(-A logp / temperature)) logp                                    (DG)
/// ProbabilityMask  -A sg(min(ratio, ceiling)) logp, 0 where A > 0 and p - p_old > high,
///                  or A < 0 and p - p_old < -low                                           (DPPO)
/// ProbabilityBand  -A ratio, 0 where |p - p_old| > width                                   (IPO of prime-rl)
/// ```
///
/// The last two want the ratio of a token: `p = exp(logp)`, `p_old = p / ratio`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Update {
    /// A range for the ratio.
    Bounded(Clip),
    /// Tokens are clipped before the geometric mean of their ratios is taken; `low` and `high` bound the log ratio.
    Geometric {
        /// The log ratio is at least minus this where A < 0.
        low: f64,
        /// The log ratio is at most this where A > 0.
        high: f64,
    },
    /// A price on the variance of the ratio, and no bound.
    Variance {
        /// The price.
        strength: f64,
    },
    /// A gate that fades.
    SoftGate {
        /// Steepness for a positive advantage.
        positive: f64,
        /// Steepness for another.
        negative: f64,
    },
    /// The inverse ratio for a gain. A token beyond `1 + high` or below `1 - low` is dropped.
    Flip {
        /// Distance from 1 below which a token with A < 0 is dropped.
        low: f64,
        /// Distance from 1 above which a token with A > 0 is dropped.
        high: f64,
        /// The largest weight.
        bound: f64,
    },
    /// A gate by advantage times surprise.
    Delight {
        /// Softness of the gate.
        temperature: f64,
    },
    /// No update that takes a probability further than so much in the direction it goes in already.
    ProbabilityMask {
        /// The largest fall of a probability where A < 0.
        low: f64,
        /// The largest rise of a probability where A > 0.
        high: f64,
        /// The largest weight.
        ceiling: f64,
    },
    /// No update of a token whose probability has changed by more than so much, either way.
    ProbabilityBand {
        /// The largest change.
        width: f64,
    },
}

/// The largest log ratio of [`Update::SoftGate`]: at a ratio of e^20 its gate is 1 to the last bit.
const FLAT: f64 = 20.0;

/// A token under a rule.
#[derive(Clone, Copy)]
pub(super) struct TokenStep<T> {
    /// What it adds to the loss, before its weight.
    pub(super) term: T,
    /// Derivative of the term by the log ratio, or by the log-probability for a detached rule; 0 beyond a bound.
    pub(super) slope: T,
    pub(super) below: bool,
    pub(super) above: bool,
    /// Above with a negative advantage, in the range of a ratio that carries the gradient.
    pub(super) bound: bool,
}

/// A rule in the type of the log-probabilities.
pub(super) trait UpdateRule<T: RealArithmetic>: Copy {
    /// True if a token with advantage 0 adds nothing, whatever its ratio.
    const BY_ADVANTAGE: bool = true;

    fn step(self, ratio: T, advantage: T, logp: T) -> TokenStep<T>;
}

/// [`Update::Bounded`]: floor and ceiling for a positive and for a negative advantage.
#[derive(Clone, Copy)]
pub(super) struct Bounded<T, const DETACHED: bool> {
    floors: (T, T),
    ceilings: (T, T),
}

impl<T: RealArithmetic, const DETACHED: bool> Bounded<T, DETACHED> {
    pub(super) fn of(clip: &Clip) -> Self {
        Self {
            floors: (T::narrow(clip.positive.floor), T::narrow(clip.negative.floor)),
            ceilings: (T::narrow(clip.positive.ceiling), T::narrow(clip.negative.ceiling)),
        }
    }
}

impl<T: RealArithmetic, const DETACHED: bool> UpdateRule<T> for Bounded<T, DETACHED> {
    #[inline(always)]
    fn step(self, ratio: T, advantage: T, logp: T) -> TokenStep<T> {
        let negative = advantage < T::default();
        let floor = if negative { self.floors.1 } else { self.floors.0 };
        let ceiling = if negative { self.ceilings.1 } else { self.ceilings.0 };
        let (below, above) = (ratio < floor, ratio > ceiling);
        let at_most = if above { ceiling } else { ratio };
        let counted = if below { floor } else { at_most };
        let slope = -(advantage * counted);
        let term = if DETACHED { slope * logp } else { slope };
        let flows = DETACHED | !(below | above);
        TokenStep {
            term,
            slope: if flows { slope } else { T::default() },
            below,
            above,
            bound: !DETACHED & above & negative,
        }
    }
}

/// [`Update::Variance`].
#[derive(Clone, Copy)]
pub(super) struct Variance<T>(pub(super) T);

impl<T: RealArithmetic> UpdateRule<T> for Variance<T> {
    const BY_ADVANTAGE: bool = false;

    #[inline(always)]
    fn step(self, ratio: T, advantage: T, _: T) -> TokenStep<T> {
        let (gain, apart) = (ratio * advantage, ratio - T::ONE);
        let price = self.0 * apart;
        let slope = (price + price) * ratio - gain;
        TokenStep { term: price * apart - gain, slope, below: false, above: false, bound: false }
    }
}

/// [`Update::SoftGate`]: steepness for a positive and for another advantage, and the ratio at which the gate is flat.
#[derive(Clone, Copy)]
pub(super) struct SoftGate<T> {
    positive: T,
    negative: T,
    flat: T,
}

impl<T: RealArithmetic> SoftGate<T> {
    pub(super) fn of(positive: f64, negative: f64) -> Self {
        Self {
            positive: T::narrow(positive),
            negative: T::narrow(negative),
            flat: T::narrow(libm::exp(FLAT)),
        }
    }
}

impl<T: RealArithmetic> UpdateRule<T> for SoftGate<T> {
    #[inline(always)]
    fn step(self, ratio: T, advantage: T, _: T) -> TokenStep<T> {
        let steepness = if advantage > T::default() { self.positive } else { self.negative };
        let within = ratio <= self.flat;
        let ratio = if within { ratio } else { self.flat };
        let (gate, fall) = sigmoid(steepness * (ratio - T::ONE));
        let four = T::narrow(4.0) * advantage;
        let slope = if within { -(four * (gate * fall) * ratio) } else { T::default() };
        TokenStep { term: -(four / steepness * gate), slope, below: false, above: false, bound: false }
    }
}

/// Return the logistic function of x, and that of -x: their product is its slope.
#[inline(always)]
fn sigmoid<T: RealArithmetic>(x: T) -> (T, T) {
    let negative = x < T::default();
    let shrunk = (if negative { x } else { -x }).exp();
    let large = T::ONE / (T::ONE + shrunk);
    let small = shrunk * large;
    if negative { (small, large) } else { (large, small) }
}

/// [`Update::Flip`].
#[derive(Clone, Copy)]
pub(super) struct Flip<T> {
    least: T,
    most: T,
    bound: T,
    inverse: T,
}

impl<T: RealArithmetic> Flip<T> {
    pub(super) fn of(low: f64, high: f64, bound: f64) -> Self {
        Self {
            least: T::narrow(1.0 - low),
            most: T::narrow(1.0 + high),
            bound: T::narrow(bound),
            inverse: T::narrow(1.0 / bound),
        }
    }
}

impl<T: RealArithmetic> UpdateRule<T> for Flip<T> {
    #[inline(always)]
    fn step(self, ratio: T, advantage: T, logp: T) -> TokenStep<T> {
        let gain = advantage > T::default();
        let dropped = if gain { ratio > self.most } else { ratio < self.least };
        let weight = if gain { T::ONE / ratio } else { ratio };
        let weight = if weight < self.bound { weight } else { self.bound };
        let slope = if dropped { T::default() } else { -(weight * advantage) };
        let below = if gain { ratio < self.inverse } else { dropped };
        let above = if gain { dropped } else { ratio > self.bound };
        TokenStep { term: slope * logp, slope, below, above, bound: false }
    }
}

/// [`Update::Delight`]: the inverse of its temperature.
#[derive(Clone, Copy)]
pub(super) struct Delight<T>(pub(super) T);

impl<T: RealArithmetic> UpdateRule<T> for Delight<T> {
    #[inline(always)]
    fn step(self, _: T, advantage: T, logp: T) -> TokenStep<T> {
        let (gate, _) = sigmoid(-(advantage * logp) * self.0);
        let slope = -(gate * advantage);
        TokenStep { term: slope * logp, slope, below: false, above: false, bound: false }
    }
}

/// [`Update::ProbabilityMask`].
#[derive(Clone, Copy)]
pub(super) struct ProbabilityMask<T> {
    low: T,
    high: T,
    ceiling: T,
}

impl<T: RealArithmetic> ProbabilityMask<T> {
    pub(super) fn of(low: f64, high: f64, ceiling: f64) -> Self {
        Self { low: T::narrow(low), high: T::narrow(high), ceiling: T::narrow(ceiling) }
    }
}

impl<T: RealArithmetic> UpdateRule<T> for ProbabilityMask<T> {
    #[inline(always)]
    fn step(self, ratio: T, advantage: T, logp: T) -> TokenStep<T> {
        let (gain, rise) = (advantage > T::default(), probability_rise(ratio, logp));
        let (above, below) = (gain & (rise > self.high), !gain & (rise < -self.low));
        let weight = if ratio > self.ceiling { self.ceiling } else { ratio };
        let slope = if above | below { T::default() } else { -(weight * advantage) };
        TokenStep { term: slope * logp, slope, below, above, bound: false }
    }
}

/// [`Update::ProbabilityBand`]: its width.
#[derive(Clone, Copy)]
pub(super) struct ProbabilityBand<T>(pub(super) T);

impl<T: RealArithmetic> UpdateRule<T> for ProbabilityBand<T> {
    #[inline(always)]
    fn step(self, ratio: T, advantage: T, logp: T) -> TokenStep<T> {
        let rise = probability_rise(ratio, logp);
        let (above, below) = (rise > self.0, rise < -self.0);
        let slope = if above | below { T::default() } else { -(ratio * advantage) };
        TokenStep { term: slope, slope, below, above, bound: false }
    }
}

/// Return how much the probability of a token has risen. Where the ratio is 0 to the last bit it is NaN, and within
/// every bound: the slope is 0 there.
#[inline(always)]
fn probability_rise<T: RealArithmetic>(ratio: T, logp: T) -> T {
    let p = logp.exp();
    p - p / ratio
}

impl Update {
    /// Return whether the slope is by the log-probability of the token, and not by the ratio of its level.
    pub(super) fn detached(&self) -> bool {
        match self {
            Self::Bounded(clip) => clip.detached,
            Self::Flip { .. } | Self::Delight { .. } | Self::ProbabilityMask { .. } => true,
            Self::Geometric { .. }
            | Self::Variance { .. }
            | Self::SoftGate { .. }
            | Self::ProbabilityBand { .. } => false,
        }
    }

    /// Return the bounds of a token's ratio for a positive and a negative advantage, where tokens are clipped first.
    pub(super) fn geometric(&self) -> Option<Clip> {
        let Self::Geometric { low, high } = *self else { return None };
        let (floor, ceiling) = (f64::NEG_INFINITY, f64::INFINITY);
        Some(Clip {
            positive: Bounds { floor, ceiling: high },
            negative: Bounds { floor: -low, ceiling },
            detached: false,
        })
    }

    /// Return the step of tokens that share a ratio and an advantage, in f64; the rule is not detached.
    #[inline(always)]
    pub(super) fn step_of_shared(&self, ratio: f64, advantage: f64) -> TokenStep<f64> {
        let still = TokenStep { term: 0.0, slope: 0.0, below: false, above: false, bound: false };
        match *self {
            Self::Variance { strength } => Variance(strength).step(ratio, advantage, 0.0),
            _ if advantage == 0.0 => still,
            Self::SoftGate { positive, negative } => {
                SoftGate::of(positive, negative).step(ratio, advantage, 0.0)
            }
            Self::Bounded(clip) => Bounded::<f64, false>::of(&clip).step(ratio, advantage, 0.0),
            Self::Geometric { .. } => Bounded::<f64, false>::of(&Clip::NONE).step(ratio, advantage, 0.0),
            Self::Flip { .. }
            | Self::Delight { .. }
            | Self::ProbabilityMask { .. }
            | Self::ProbabilityBand { .. } => still,
        }
    }
}

impl Update {
    /// Write the coefficients of a piece of known ratios and advantages; return the sum of its terms.
    #[inline(always)]
    pub(super) fn fill_coefficients<T: RealArithmetic>(
        &self,
        piece: &RolloutPart<'_, T>,
        weight: f64,
        sums: &mut Sums,
        room: &mut Room<T>,
        out: &mut [T],
    ) -> f64 {
        match *self {
            Update::Bounded(clip) if clip.detached => {
                fill_under(Bounded::<T, true>::of(&clip), piece, weight, sums, room, out)
            }
            Update::Bounded(clip) => {
                fill_under(Bounded::<T, false>::of(&clip), piece, weight, sums, room, out)
            }
            Update::Geometric { .. } => {
                let free = Bounded::<T, false>::of(&Clip::NONE);
                fill_under(free, piece, weight, sums, room, out)
            }
            Update::Variance { strength } => {
                fill_under(Variance(T::narrow(strength)), piece, weight, sums, room, out)
            }
            Update::SoftGate { positive, negative } => {
                fill_under(SoftGate::of(positive, negative), piece, weight, sums, room, out)
            }
            Update::Flip { low, high, bound } => {
                fill_under(Flip::of(low, high, bound), piece, weight, sums, room, out)
            }
            Update::Delight { temperature } => {
                fill_under(Delight(T::narrow(1.0 / temperature)), piece, weight, sums, room, out)
            }
            Update::ProbabilityMask { low, high, ceiling } => {
                fill_under(ProbabilityMask::of(low, high, ceiling), piece, weight, sums, room, out)
            }
            Update::ProbabilityBand { width } => {
                fill_under(ProbabilityBand(T::narrow(width)), piece, weight, sums, room, out)
            }
        }
    }
}

/// Write the coefficients under one rule.
#[inline(always)]
fn fill_under<T: RealArithmetic, R: UpdateRule<T>>(
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
