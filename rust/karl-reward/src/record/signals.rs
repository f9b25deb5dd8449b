//! The signals of a typed record, each by itself.

use super::files::CallFiles;
use super::measures::Measured;
use super::record_source::{Node, values};
use super::trajectory::TrajectoryCalls;
use super::value::Value;
use crate::fault::Fault;
use crate::formula::outcome::{OUTCOME, signal};
use crate::formula::{efficiency as efficiency_formula, process as process_formula};
use crate::signal::Signal;
use crate::version::Version;

/// Return the values of the outcome's keys; absent where there is no outcome.
///
/// # Errors
/// [`Fault::Attribute`] for an outcome that is not an object.
pub fn said<'a, N: Node<'a>>(node: Option<&N>) -> Result<[Value<'a>; 4], Fault> {
    node.map_or(Ok([const { Value::Absent }; 4]), |node| values(node, OUTCOME))
}

/// Return each flag's truth to Python; none for a flag that is missing or null.
pub(super) fn flags(values: &[Value<'_>; 4]) -> [Option<bool>; 4] {
    values.each_ref().map(|value| (!value.is_none()).then(|| value.truth()))
}

/// Return the signal of the outcome ([`formula::outcome`](crate::formula::outcome)).
#[must_use]
pub fn outcome(values: &[Value<'_>; 4]) -> Signal {
    signal(flags(values))
}

/// Return the signal of the calls' success ([`formula::process`](crate::formula::process)).
///
/// # Errors
/// [`Fault::Type`] and [`Fault::Attribute`] for values of the wrong type, [`Fault::Overflow`] for numbers beyond floats.
pub fn process(trajectory: &TrajectoryCalls<'_>) -> Result<Signal, Fault> {
    let measured = Measured { trajectory, duration: Ok(&Value::Absent), files: &CallFiles::default() };
    match trajectory.version {
        Version::V1 => process_formula::v1(&measured).map(Signal::from),
        Version::V2 => process_formula::v2(&measured).map(Signal::from),
    }
}

/// Return the signal of the trajectory's shape ([`formula::efficiency`](crate::formula::efficiency)); `duration` is in seconds.
///
/// # Errors
/// [`Fault::Attribute`] for counts that are no object; [`Fault::Type`]
/// and [`Fault::Overflow`] for what is not a number, or one beyond floats; [`Fault::ZeroDivision`] as Python has it.
pub fn efficiency(trajectory: &TrajectoryCalls<'_>, duration: &Value<'_>) -> Result<Signal, Fault> {
    let measured = Measured { trajectory, duration: Ok(duration), files: &CallFiles::default() };
    match trajectory.version {
        Version::V1 => efficiency_formula::v1(&measured).map(Signal::from),
        Version::V2 => efficiency_formula::v2(&measured).map(Signal::from),
    }
}
