//! The two versions of the reward, and a reward with its signals and components.

use crate::formula::{Signal, SignalComponent, SignalsV1, SignalsV2, V2, composite, outcome_signal};
use crate::python_arithmetic::round4;

/// A version of KARL's reward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Three signals, of v1.0.0.
    V1,
    /// Six signals, of the commit c41d1c5.
    V2,
}

/// Keys of the signals in a record, in the order of the weights; v1 has the first three.
pub const SCORES: [&str; 6] = [
    "outcome_score",
    "process_score",
    "efficiency_score",
    "verification_score",
    "consistency_score",
    "motion_score",
];

/// A record's reward. Scores are rounded to four decimals.
#[derive(Clone, Debug, PartialEq)]
pub struct Reward {
    /// The weighted sum of the signals.
    pub score: f64,
    /// The signals in the order of the weights: three of v1, six of v2.
    pub signals: Vec<f64>,
    /// Components of the signals, in KARL's order; those of motion are left out, as in KARL.
    pub components: Vec<SignalComponent>,
}

impl Reward {
    /// Return the reward of v1 from its signals and the flags of the outcome.
    pub(crate) fn v1(signals: &SignalsV1, flags: [Option<bool>; 4], weights: [f64; 3]) -> Self {
        let score = composite(signals.scores(flags), weights);
        Self::of(score, [outcome_signal(flags), signals.process.into(), signals.efficiency.into()])
    }

    /// Return the reward of v2 from its signals and the flags of the outcome.
    pub(crate) fn v2(signals: &SignalsV2, flags: [Option<bool>; 4]) -> Self {
        let score = composite(signals.scores(flags), V2);
        let SignalsV2 { process, efficiency, verification, consistency, motion } = *signals;
        let [process, efficiency, verification] = [process.into(), efficiency.into(), verification.into()];
        let [consistency, motion] = [consistency.into(), motion.into()];
        Self::of(score, [outcome_signal(flags), process, efficiency, verification, consistency, motion])
    }

    fn of<const S: usize>(score: f64, signals: [Signal; S]) -> Self {
        Self {
            score,
            signals: signals.iter().map(|signal| round4(signal.score)).collect(),
            components: signals.into_iter().flat_map(|signal| signal.components).collect(),
        }
    }

    /// Return the advantage over a domain's baseline, rounded to four decimals: (score - baseline) / scale.
    #[must_use]
    pub fn advantage(&self, baseline: f64, scale: f64) -> f64 {
        round4((self.score - baseline) / scale)
    }
}
