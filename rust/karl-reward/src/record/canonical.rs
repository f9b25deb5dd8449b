//! KARL's view of a canonical trajectory: its calls of tools are the events, and their results say how they went.

use std::collections::HashMap;

use super::events::{Event, Events};
use super::record_source::{Node, value_of, values};
use super::trajectory::TrajectoryCalls;
use super::value::Value;
use crate::fault::Fault;
use crate::version::Version;

/// Keys of the parameters of a call that v2 reads.
const PARAMS: [&str; 2] = ["command", "file_path"];

/// Return the trajectory of `messages`, with all that it counts made from the events.
///
/// # Errors
/// [`Fault::Syntax`]; [`Fault::Type`] for messages that cannot be gone through, or a tool's name that is none.
pub(crate) fn trajectory<'a, N: Node<'a>>(
    messages: Option<&N>,
    version: Version,
) -> Result<TrajectoryCalls<'a>, Fault> {
    let mut calls = Calls { events: Vec::new(), places: HashMap::new(), version };
    if let Some(messages) = messages {
        messages.each(|message| message.map_or(Ok(()), |message| calls.message(&message)))?;
    }
    TrajectoryCalls::counted(Events::of(calls.events), version)
}

/// The calls so far, each by its id.
struct Calls<'a> {
    events: Vec<Event<'a>>,
    places: HashMap<String, usize>,
    version: Version,
}

impl<'a> Calls<'a> {
    /// Take the calls of a message, or what a tool says of one; what is no message says nothing.
    fn message<N: Node<'a>>(&mut self, message: &N) -> Result<(), Fault> {
        let Some([calls, answered, success]) = object(message, ["tool_calls", "tool_call_id", "success"])?
        else {
            return Ok(());
        };
        if let (Value::Text(id), Value::Bool(success)) =
            (value_of(answered.as_ref())?, value_of(success.as_ref())?)
            && let Some(event) = self.places.get(&*id).and_then(|&at| self.events.get_mut(at))
        {
            event.success = Some(success);
        }
        match calls.filter(|calls| matches!(calls.value(), Ok(Value::List { .. }))) {
            Some(calls) => calls.each(|call| call.map_or(Ok(()), |call| self.call(&call))),
            None => Ok(()),
        }
    }

    fn call<N: Node<'a>>(&mut self, call: &N) -> Result<(), Fault> {
        let Some([id, function]) = object(call, ["id", "function"])? else { return Ok(()) };
        let function =
            function.map(|function| object(&function, ["name", "arguments"])).transpose()?.flatten();
        let [name, arguments] = function.unwrap_or([const { None }; 2]);
        if let Value::Text(id) = value_of(id.as_ref())? {
            self.places.insert(id.into_owned(), self.events.len());
        }
        let params = if self.version == Version::V1 { None } else { Some(params(arguments.as_ref())?) };
        self.events.push(Event { tool: value_of(name.as_ref())?, success: None, params });
        Ok(())
    }
}

/// Return the command and the path of a call, where they are texts: of an object, or of the text of one. Some tools
/// keep other things under these names.
fn params<'a, N: Node<'a>>(arguments: Option<&N>) -> Result<[Value<'a>; 2], Fault> {
    let Some(arguments) = arguments else { return Ok([const { Value::Absent }; 2]) };
    let found = match arguments.value()? {
        Value::Object { .. } => values(arguments, PARAMS)?,
        _ => arguments.embedded(PARAMS)?.unwrap_or([const { Value::Absent }; 2]),
    };
    Ok(found.map(|value| if matches!(value, Value::Text(_)) { value } else { Value::Absent }))
}

/// Return the values of some keys; None of what is not an object.
fn object<'a, N: Node<'a>, const K: usize>(
    node: &N,
    keys: [&str; K],
) -> Result<Option<[Option<N>; K]>, Fault> {
    match node.value()? {
        Value::Object { .. } => node.fields(keys).map(Some),
        _ => Ok(None),
    }
}
