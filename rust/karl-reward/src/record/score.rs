//! Records, and the reward of each.

use super::canonical;
use super::files::CallFiles;
use super::measures::Measured;
use super::record_source::{Node, value_of, values};
use super::signals::{flags, said};
use super::trajectory::TrajectoryCalls;
use super::value::Value;
use crate::fault::Fault;
use crate::formula::{SignalsV1, SignalsV2};
use crate::reward::Reward;
use crate::version::Version;

/// The keys that are looked at: of KARL's records the first three, of a canonical trajectory the first and the others.
const KEYS: [&str; 6] =
    ["outcome", "trajectory", "timing", "karl_fast_trajectory", "messages", "duration_seconds"];

/// Parsed values of a record, before it is scored.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// Flags of the outcome, in the order of [`OUTCOME`](crate::OUTCOME); a fault where it is not an object.
    pub outcome: Result<[Value<'a>; 4], Fault>,
    /// The calls and their counts.
    pub trajectory: TrajectoryCalls<'a>,
    /// The seconds that it took.
    pub duration: Result<Value<'a>, Fault>,
}

impl<'a> Record<'a> {
    /// Read the keys `outcome`, `trajectory` and `timing` of a record, or `outcome`, `messages` and
    /// `duration_seconds` of a canonical trajectory, which has its events in calls of tools.
    ///
    /// # Errors
    /// Those of [`TrajectoryCalls::read`] in v1, of [`TrajectoryCalls::derived`] in v2.
    pub fn read<N: Node<'a>>(node: &N, version: Version) -> Result<Self, Fault> {
        let [outcome, trajectory, timing, canonical, messages, seconds] = node.fields(KEYS)?;
        let outcome = said(outcome.as_ref());
        if canonical.is_some() {
            let trajectory = canonical::trajectory(messages.as_ref(), version)?;
            return Ok(Self { outcome, trajectory, duration: value_of(seconds.as_ref()) });
        }
        let duration = timing.as_ref().map_or(Ok([Value::Absent]), |timing| values(timing, ["duration_s"]));
        let trajectory = match version {
            Version::V1 => TrajectoryCalls::read(trajectory.as_ref(), version)?,
            Version::V2 => TrajectoryCalls::derived(trajectory.as_ref())?,
        };
        Ok(Self { outcome, trajectory, duration: duration.map(|[duration]| duration) })
    }

    /// Return the reward; `weights` are those of v1: outcome, process, efficiency.
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
        let flags = flags(self.outcome.as_ref().map_err(|fault| *fault)?);
        let duration = self.duration.as_ref().map_err(|fault| *fault);
        if self.trajectory.version == Version::V1 {
            let measured = Measured { trajectory: &self.trajectory, duration, files: &CallFiles::default() };
            return Ok(Reward::v1(&SignalsV1::of(&measured)?, flags, weights));
        }
        let files = &CallFiles::of_events(&self.trajectory.events);
        let measured = Measured { trajectory: &self.trajectory, duration, files };
        Ok(Reward::v2(&SignalsV2::of(&measured)?, flags))
    }
}

/// Return the reward of a record: [`Record::read`], then [`Record::reward`].
///
/// # Errors
/// As theirs.
pub fn score<'a, N: Node<'a>>(node: &N, version: Version, weights: [f64; 3]) -> Result<Reward, Fault> {
    Record::read(node, version)?.reward(weights)
}
