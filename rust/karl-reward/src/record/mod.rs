//! Typed records: values with Python's meaning, the signals of each, and its reward.

mod measures;
mod trajectory;
mod value;

pub use trajectory::{Event, Events, Node, PARAMS, TRAJECTORY, ToolCounts, TrajectoryCalls, longest_failure};
pub use value::{Fault, Value};

use crate::formula::{
    OUTCOME, Signal, SignalsV1, SignalsV2, efficiency_v1, efficiency_v2, outcome_signal, process_v1,
    process_v2,
};
use crate::reward::{Reward, Version};
use measures::{CallFiles, RecordMeasures};
use trajectory::{value_of, values};

/// The keys that are looked at: of KARL's records the first three, of a canonical trajectory the first and the others.
const KEYS: [&str; 6] =
    ["outcome", "trajectory", "timing", "karl_fast_trajectory", "messages", "duration_seconds"];

/// Parsed values of a record, before it is scored.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// Flags of the outcome, in the order of [`OUTCOME`]; a fault where it is not an object.
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
    /// Those of [`TrajectoryCalls::read`] in v1, of [`TrajectoryCalls::derive`] in v2.
    pub fn read<N: Node<'a>>(node: &N, version: Version) -> Result<Self, Fault> {
        let [outcome, trajectory, timing, canonical, messages, seconds] = node.fields(KEYS)?;
        let outcome = read_outcome(outcome.as_ref());
        if canonical.is_some() {
            let trajectory = TrajectoryCalls::from_messages(messages.as_ref(), version)?;
            return Ok(Self { outcome, trajectory, duration: value_of(seconds.as_ref()) });
        }
        let duration = timing.as_ref().map_or(Ok([Value::Absent]), |timing| values(timing, ["duration_s"]));
        let trajectory = match version {
            Version::V1 => TrajectoryCalls::read(trajectory.as_ref(), version)?,
            Version::V2 => TrajectoryCalls::derive(trajectory.as_ref())?,
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
            let measures =
                RecordMeasures { trajectory: &self.trajectory, duration, files: &CallFiles::default() };
            return Ok(Reward::v1(&SignalsV1::of(&measures)?, flags, weights));
        }
        let files = &CallFiles::of_events(&self.trajectory.events);
        let measures = RecordMeasures { trajectory: &self.trajectory, duration, files };
        Ok(Reward::v2(&SignalsV2::of(&measures)?, flags))
    }
}

/// Return the reward of a record: [`Record::read`], then [`Record::reward`].
///
/// # Errors
/// As theirs.
pub fn score<'a, N: Node<'a>>(node: &N, version: Version, weights: [f64; 3]) -> Result<Reward, Fault> {
    Record::read(node, version)?.reward(weights)
}

/// Return the values of the outcome's keys; absent where there is no outcome.
///
/// # Errors
/// [`Fault::Attribute`] for an outcome that is not an object.
pub fn read_outcome<'a, N: Node<'a>>(node: Option<&N>) -> Result<[Value<'a>; 4], Fault> {
    node.map_or(Ok([const { Value::Absent }; 4]), |node| values(node, OUTCOME))
}

/// Return each flag's truth to Python; none for a flag that is missing or null.
fn flags(values: &[Value<'_>; 4]) -> [Option<bool>; 4] {
    values.each_ref().map(|value| (!value.is_none()).then(|| value.truth()))
}

/// Return the signal of the outcome ([`formula`](crate::formula)).
#[must_use]
pub fn outcome(values: &[Value<'_>; 4]) -> Signal {
    outcome_signal(flags(values))
}

/// Return the signal of the calls' success ([`formula`](crate::formula)).
///
/// # Errors
/// [`Fault::Type`] and [`Fault::Attribute`] for values of the wrong type, [`Fault::Overflow`] for numbers beyond floats.
pub fn process(trajectory: &TrajectoryCalls<'_>) -> Result<Signal, Fault> {
    let measures = RecordMeasures { trajectory, duration: Ok(&Value::Absent), files: &CallFiles::default() };
    match trajectory.version {
        Version::V1 => process_v1(&measures).map(Signal::from),
        Version::V2 => process_v2(&measures).map(Signal::from),
    }
}

/// Return the signal of the trajectory's shape ([`formula`](crate::formula)); `duration` is in seconds.
///
/// # Errors
/// [`Fault::Attribute`] for counts that are not an object; [`Fault::Type`]
/// and [`Fault::Overflow`] for what is not a number, or one beyond floats; [`Fault::ZeroDivision`] as Python has it.
pub fn efficiency(trajectory: &TrajectoryCalls<'_>, duration: &Value<'_>) -> Result<Signal, Fault> {
    let measures = RecordMeasures { trajectory, duration: Ok(duration), files: &CallFiles::default() };
    match trajectory.version {
        Version::V1 => efficiency_v1(&measures).map(Signal::from),
        Version::V2 => efficiency_v2(&measures).map(Signal::from),
    }
}
