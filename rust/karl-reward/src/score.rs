//! The composite.

use crate::node::{value_of, values};
use crate::outcome::said;
use crate::{
    Component, Fault, Files, Node, Signal, Trajectory, Value, Version, canonical, consistency, efficiency,
    motion, outcome, process, round4, verification,
};

/// The keys that are looked at: of KARL's records the first three, of a canonical trajectory the first and the others.
const KEYS: [&str; 6] =
    ["outcome", "trajectory", "timing", "karl_fast_trajectory", "messages", "duration_seconds"];

/// The weights of v2: outcome, process, efficiency, verification, consistency, motion.
pub(crate) const V2: [f64; 6] = [0.25, 0.22, 0.13, 0.13, 0.13, 0.14]; // code: karl/reward_engine.py of c41d1c5

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

/// What is read of a record, before it is judged.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// What the outcome says, in the order of [`OUTCOME`](crate::OUTCOME); or that it is no object.
    pub outcome: Result<[Value<'a>; 4], Fault>,
    /// The calls and their counts.
    pub trajectory: Trajectory<'a>,
    /// The seconds that it took.
    pub duration: Result<Value<'a>, Fault>,
}

impl<'a> Record<'a> {
    /// Reads the keys `outcome`, `trajectory` and `timing` of a record; of a canonical trajectory, whose calls of tools are
    /// the events, `outcome`, `messages` and `duration_seconds`.
    ///
    /// # Errors
    /// Those of [`Trajectory::read`] in v1, of [`Trajectory::derived`] in v2.
    pub fn read<N: Node<'a>>(node: &N, version: Version) -> Result<Self, Fault> {
        let [outcome, trajectory, timing, canonical, messages, seconds] = node.fields(KEYS)?;
        let outcome = said(outcome.as_ref());
        if canonical.is_some() {
            let trajectory = canonical::trajectory(messages.as_ref(), version)?;
            return Ok(Self { outcome, trajectory, duration: value_of(seconds.as_ref()) });
        }
        let duration = timing.as_ref().map_or(Ok([Value::Absent]), |timing| values(timing, ["duration_s"]));
        let trajectory = match version {
            Version::V1 => Trajectory::read(trajectory.as_ref(), version)?,
            Version::V2 => Trajectory::derived(trajectory.as_ref())?,
        };
        Ok(Self { outcome, trajectory, duration: duration.map(|[duration]| duration) })
    }

    /// The reward; `weights` are those of v1: outcome, process, efficiency.
    ///
    /// ```text
    /// v1: w_o outcome + w_p process + w_e efficiency
    /// v2: .25 outcome + .22 process + .13 efficiency + .13 verification + .13 consistency + .14 motion
    /// ```
    ///
    /// Terms are added from left to right. Cost: the number of calls, and in v2 the length of their commands.
    ///
    /// # Errors
    /// The [`Fault`] of the class of what KARL raises.
    pub fn reward(&self, weights: [f64; 3]) -> Result<Reward, Fault> {
        let trajectory = &self.trajectory;
        let outcome = outcome(self.outcome.as_ref().map_err(|fault| *fault)?);
        let process = process(trajectory)?;
        let duration = self.duration.as_ref().map_err(|fault| *fault)?;
        let first = [outcome, process, efficiency(trajectory, duration)?];
        if trajectory.version == Version::V1 {
            return Ok(composite(first, weights));
        }
        let [outcome, process, efficiency] = first;
        let files = &Files::of_events(&trajectory.events);
        let verification = verification(trajectory, files)?;
        let (consistency, motion) = (consistency(trajectory, files)?, motion(trajectory, files)?);
        Ok(composite([outcome, process, efficiency, verification, consistency, motion], V2))
    }
}

/// The reward of a record: [`Record::read`], then [`Record::reward`].
///
/// # Errors
/// As theirs.
pub fn score<'a, N: Node<'a>>(node: &N, version: Version, weights: [f64; 3]) -> Result<Reward, Fault> {
    Record::read(node, version)?.reward(weights)
}

/// Terms are added from left to right.
pub(crate) fn weighted<const S: usize>(scores: [f64; S], weights: [f64; S]) -> f64 {
    let mut terms = scores.iter().zip(weights).map(|(score, weight)| weight * score);
    let first = terms.next().unwrap_or_default();
    terms.fold(first, |sum, term| sum + term)
}

fn composite<const S: usize>(signals: [Signal; S], weights: [f64; S]) -> Reward {
    Reward {
        score: round4(weighted(signals.each_ref().map(|signal| signal.score), weights)),
        signals: signals.iter().map(|signal| round4(signal.score)).collect(),
        components: signals.into_iter().flat_map(|signal| signal.components).collect(),
    }
}
