//! The weighted sum of the signals.

use super::measures::{Measures, MeasuresV2};
use super::verification::{Verification, verification};
use super::{efficiency, motion, outcome, process};
use crate::python_arithmetic::round4;
use crate::signal::Parts;

/// The weights of v2: outcome, process, efficiency, verification, consistency, motion.
pub(crate) const V2: [f64; 6] = [0.25, 0.22, 0.13, 0.13, 0.13, 0.14]; // code: karl/reward_engine.py of c41d1c5

/// The signals of v1 besides the outcome.
pub(crate) struct SignalsV1 {
    pub(crate) process: Parts<3>,
    pub(crate) efficiency: Parts<3>,
}

impl SignalsV1 {
    /// Compute the signals in KARL's order.
    #[inline]
    pub(crate) fn of<M: Measures>(measures: &M) -> Result<Self, M::Fault> {
        Ok(Self { process: process::v1(measures)?, efficiency: efficiency::v1(measures)? })
    }

    /// Return the scores in the order of the weights.
    #[inline]
    pub(crate) fn scores(&self, flags: [Option<bool>; 4]) -> [f64; 3] {
        [outcome::score(flags), self.process.score, self.efficiency.score]
    }
}

/// The signals of v2 besides the outcome.
pub(crate) struct SignalsV2 {
    pub(crate) process: Parts<4>,
    pub(crate) efficiency: Parts<4>,
    pub(crate) verification: Verification,
    pub(crate) consistency: Parts<2>,
    pub(crate) motion: Parts<0>,
}

impl SignalsV2 {
    /// Compute the signals in KARL's order.
    #[inline]
    pub(crate) fn of<M: MeasuresV2>(measures: &M) -> Result<Self, M::Fault> {
        Ok(Self {
            process: process::v2(measures)?,
            efficiency: efficiency::v2(measures)?,
            verification: verification(measures)?,
            consistency: motion::consistency(measures)?,
            motion: motion::motion(measures)?,
        })
    }

    /// Return the scores in the order of the weights.
    #[inline]
    pub(crate) fn scores(&self, flags: [Option<bool>; 4]) -> [f64; 6] {
        [
            outcome::score(flags),
            self.process.score,
            self.efficiency.score,
            self.verification.score,
            self.consistency.score,
            self.motion.score,
        ]
    }
}

/// Return the weighted sum of the scores, added from left to right and rounded to four decimals.
#[inline]
pub(crate) fn composite<const S: usize>(scores: [f64; S], weights: [f64; S]) -> f64 {
    let mut terms = scores.iter().zip(weights).map(|(score, weight)| weight * score);
    let first = terms.next().unwrap_or_default();
    round4(terms.fold(first, |sum, term| sum + term))
}
