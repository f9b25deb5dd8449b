//! The penalty on the divergence from the reference, in the loss of each token.

use super::ratio_pieces::Room;
use super::real_arithmetic::RealArithmetic;
use super::rollouts::RolloutPart;
use super::token_sums::sum;

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

impl Penalty {
    pub(super) fn by_ratio(self) -> bool {
        matches!(self, Self::K2 { by_ratio: true, .. } | Self::K3 { by_ratio: true, .. })
    }

    /// Add the penalty of some tokens to their coefficients; return the sum of its terms, and that of k3.
    #[inline(always)]
    pub(super) fn add<T: RealArithmetic>(
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
