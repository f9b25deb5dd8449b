//! Statistics of a batch besides its loss: how far the policy has moved, and what a bound held.

use super::arithmetic::RealArithmetic;
use crate::numeric::simd::{SIDE, fold_side};

/// How far the policy has moved from the behaviour policy and from the reference, over the tokens that count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// Number of tokens that count.
    pub tokens: u64,
    /// Number of rollouts with one.
    pub rollouts: u64,
    /// Mean over tokens of the ratio at the level of the objective.
    pub ratio: f64,
    /// Its standard deviation, ddof 0.
    pub ratio_std: f64,
    /// The largest ratio.
    pub ratio_max: f64,
    /// The least ratio.
    pub ratio_min: f64,
    /// Share of tokens below the bounds for the sign of their advantage.
    pub clip_low: f64,
    /// Share of tokens above them.
    pub clip_high: f64,
    /// Share of tokens above them with a negative advantage (dual clip); `clip_high` counts them too.
    pub clip_bound: f64,
    /// Effective sample size of the rollouts' ratios, as a share of their number.
    pub ratio_ess: f64,
    /// Mean of `ratio - 1 - log ratio` of a token: k3 of the behaviour policy from this one, in nats.
    pub kl_old: f64,
    /// Mean of k3 of this policy from the reference; None where the objective does not read the reference.
    pub kl: Option<f64>,
}

/// A loss, and how far the policy has moved. The coefficients are in the column that was given for them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluation {
    /// The loss; 0 where no token counts.
    pub loss: f64,
    /// Drift, clipping and divergence.
    pub statistics: Statistics,
}

/// Sums over a block of rollouts, or over all.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    pub(super) loss: f64,
    pub(super) tokens: u64,
    pub(super) rollouts: u64,
    pub(super) below: u64,
    pub(super) above: u64,
    pub(super) bound: u64,
    pub(super) ratios: Ratios,
    pub(super) kl: f64,
    products: f64,
    squares: f64,
    pub(super) kl_old: f64,
}

/// The largest log ratio of a rollout that an effective sample size takes in: its square is still a number.
const LARGEST: f64 = 80.0;

impl Sums {
    pub(super) const NONE: Self = Self {
        loss: 0.0,
        tokens: 0,
        rollouts: 0,
        below: 0,
        above: 0,
        bound: 0,
        ratios: Ratios::NONE,
        kl: 0.0,
        products: 0.0,
        squares: 0.0,
        kl_old: 0.0,
    };

    /// Take in the log ratios of the tokens of a rollout, which have this sum.
    pub(super) fn moved(&mut self, log_ratio: f64) {
        let product = libm::exp(log_ratio.min(LARGEST));
        self.products += product;
        self.squares += product * product;
    }

    pub(super) fn merge(mut self, other: &Self) -> Self {
        self.loss += other.loss;
        self.tokens += other.tokens;
        self.rollouts += other.rollouts;
        self.below += other.below;
        self.above += other.above;
        self.bound += other.bound;
        self.ratios.merge(&other.ratios);
        self.kl += other.kl;
        self.products += other.products;
        self.squares += other.squares;
        self.kl_old += other.kl_old;
        self
    }

    pub(super) fn statistics(&self, old: bool, reference: bool) -> Statistics {
        let count = self.tokens as f64;
        let still = !old || self.tokens == 0;
        let of = |value: f64, rest: f64| if still { rest } else { value };
        Statistics {
            tokens: self.tokens,
            rollouts: self.rollouts,
            ratio: of(self.ratios.mean(), 1.0),
            ratio_std: of(self.ratios.std(), 0.0),
            ratio_max: of(self.ratios.max, 1.0),
            ratio_min: of(self.ratios.min, 1.0),
            clip_low: of(self.below as f64 / count, 0.0),
            clip_high: of(self.above as f64 / count, 0.0),
            clip_bound: of(self.bound as f64 / count, 0.0),
            ratio_ess: of(self.products * self.products / self.squares / self.rollouts as f64, 1.0),
            kl_old: of(self.kl_old / count, 0.0),
            kl: reference.then(|| if self.tokens == 0 { 0.0 } else { self.kl / count }),
        }
    }
}

/// The ratios of tokens, turns or sequences, before any clip: the sum of their distances from 1, and that of the squared
/// distances from their own mean, piece by piece.
///
/// Reference: Chan, Golub and `LeVeque`, Updating formulae and a pairwise algorithm for computing sample variances (1979).
#[derive(Clone, Copy, Debug)]
pub(super) struct Ratios {
    pub(super) count: u64,
    above: f64,
    squares: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Ratios {
    pub(super) const NONE: Self =
        Self { count: 0, above: 0.0, squares: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY };

    /// Take in one ratio, as often as it counts.
    #[inline(always)]
    pub(super) fn push(&mut self, ratio: f64, count: u64) {
        let above = (ratio - 1.0) * count as f64;
        self.merge(&Self { count, above, squares: 0.0, min: ratio, max: ratio });
    }

    /// Take in the ratios of some tokens, of which `kept` count; the others have the ratio of one that does.
    #[inline(always)]
    pub(super) fn extend<T: RealArithmetic>(&mut self, ratios: &[T], kept: usize) {
        let (chunks, rest) = ratios.as_chunks::<FEW>();
        let mut moments = RatioMoments::about(ratios);
        for ratios in chunks {
            moments.add(ratios);
        }
        let mut last = [moments.about; FEW];
        last[..rest.len()].copy_from_slice(rest);
        moments.add(&last);
        self.merge(&moments.fold(kept));
    }

    /// NaN where there is none.
    pub(super) fn mean(&self) -> f64 {
        1.0 + self.above / self.count as f64
    }

    /// With ddof 0; NaN where there is none.
    pub(super) fn std(&self) -> f64 {
        (self.squares / self.count as f64).sqrt()
    }

    #[inline(always)]
    pub(super) fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count > 0 {
            let (ours, theirs) = (self.count as f64, other.count as f64);
            let apart = other.above / theirs - self.above / ours;
            self.squares += apart * apart * (ours * theirs / (ours + theirs));
        }
        self.count += other.count;
        self.above += other.above;
        self.squares += other.squares;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

/// Number of ratios that are summed side by side: four sums to a ratio, few enough that all stay in registers.
const FEW: usize = SIDE / 2;

/// Sums over ratios side by side. They are taken about one of the ratios: where all are equal, their deviation is
/// exactly 0, and where they are near each other, no digit is lost.
struct RatioMoments<T> {
    about: T,
    apart: [f64; FEW],
    squares: [f64; FEW],
    min: [T; FEW],
    max: [T; FEW],
}

impl<T: RealArithmetic> RatioMoments<T> {
    /// No ratio yet, to be taken about the first that is finite.
    #[inline(always)]
    fn about(ratios: &[T]) -> Self {
        let about = ratios.iter().copied().find(|ratio| ratio.is_finite()).unwrap_or(T::ONE);
        Self { about, apart: [0.0; FEW], squares: [0.0; FEW], min: [about; FEW], max: [about; FEW] }
    }

    #[inline(always)]
    fn add(&mut self, ratios: &[T; FEW]) {
        let about = self.about.widen();
        for (lane, &ratio) in ratios.iter().enumerate() {
            let apart = ratio.widen() - about;
            self.apart[lane] += apart;
            self.squares[lane] += apart * apart;
            self.min[lane] = if ratio < self.min[lane] { ratio } else { self.min[lane] };
            self.max[lane] = if ratio > self.max[lane] { ratio } else { self.max[lane] };
        }
    }

    #[inline(always)]
    fn fold(&self, kept: usize) -> Ratios {
        let (apart, count) = (fold_side(&self.apart), kept as f64);
        let squares = fold_side(&self.squares) - apart * (apart / count);
        let (mut min, mut max) = (self.about, self.about);
        for (&low, &high) in self.min.iter().zip(&self.max) {
            min = if low < min { low } else { min };
            max = if high > max { high } else { max };
        }
        Ratios {
            count: kept as u64,
            above: apart + count * (self.about.widen() - 1.0),
            // Rounding may leave less than nothing; a NaN stays one.
            squares: if squares < 0.0 { 0.0 } else { squares },
            min: min.widen(),
            max: max.widen(),
        }
    }
}
