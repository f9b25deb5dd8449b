//! The composite.

use super::node::value_of;
use super::{
    Component, Fault, Node, Trajectory, Version, canonical, consistency, efficiency, motion, outcome,
    process, round4, verification,
};

/// The weights of v2: outcome, process, efficiency, verification, consistency, motion.
const V2: [f64; 6] = [0.25, 0.22, 0.13, 0.13, 0.13, 0.14]; // code: karl/reward_engine.py of c41d1c5

/// A record's reward. Scores are rounded to four decimals.
#[derive(Clone, Debug, PartialEq)]
pub struct Reward {
    /// The weighted sum of the signals.
    pub score: f64,
    /// The signals in the order of the weights: three of v1, six of v2.
    pub signals: Vec<f64>,
    /// What the signals are made of, in KARL's order; those of motion are left out, as there.
    pub components: Vec<Component>,
}

/// The keys that are looked at: of KARL's records the first three, of a canonical trajectory the first and the others.
const KEYS: [&str; 6] =
    ["outcome", "trajectory", "timing", "karl_fast_trajectory", "messages", "duration_seconds"];

/// The reward of a record, whose keys are `outcome`, `trajectory` and `timing`; or of a canonical trajectory, whose
/// calls of tools are the events.
///
/// ```text
/// v1: w_o outcome + w_p process + w_e efficiency
/// v2: .25 outcome + .22 process + .13 efficiency + .13 verification + .13 consistency + .14 motion
/// ```
///
/// Terms are added from left to right. `weights` are those of v1: outcome, process, efficiency. Cost: the length of the
/// record.
///
/// # Errors
/// The [`Fault`] of the class of what KARL raises.
pub fn score<'a, N: Node<'a>>(node: &N, version: Version, weights: [f64; 3]) -> Result<Reward, Fault> {
    let [outcome_node, trajectory, timing, canonical, messages, seconds] = node.fields(KEYS)?;
    let outcome = outcome(outcome_node.as_ref());
    let (trajectory, outcome) = match version {
        _ if canonical.is_some() => (canonical::trajectory(messages.as_ref(), version)?, outcome?),
        Version::V1 => (Trajectory::read(trajectory.as_ref(), version)?, outcome?),
        // KARL makes the fields of v2 before it looks at the outcome.
        Version::V2 => (Trajectory::derived(trajectory.as_ref())?, outcome?),
    };
    let duration = || match timing.as_ref().map(|timing| timing.fields(["duration_s"])).transpose()? {
        Some([duration]) => value_of(duration.as_ref()),
        None => value_of(seconds.as_ref().filter(|_| canonical.is_some())),
    };
    let mut signals = vec![outcome, process(&trajectory)?, efficiency(&trajectory, duration())?];
    if version == Version::V2 {
        signals.extend([verification(&trajectory)?, consistency(&trajectory)?, motion(&trajectory)?]);
    }
    let weights = if version == Version::V1 { &weights[..] } else { &V2 };
    let mut terms = signals.iter().zip(weights).map(|(signal, weight)| weight * signal.score);
    let first = terms.next().unwrap_or_default();
    Ok(Reward {
        score: round4(terms.fold(first, |sum, term| sum + term)),
        signals: signals.iter().map(|signal| round4(signal.score)).collect(),
        components: signals.into_iter().flat_map(|signal| signal.components).collect(),
    })
}
