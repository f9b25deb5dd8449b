//! Events of a trajectory: calls of tools.

use super::record_source::{Node, value_of, values};
use super::value::Value;
use crate::fault::Fault;
use crate::formula::process::longest_run;
use crate::version::Version;

/// One call of a tool.
#[derive(Clone, Debug)]
pub struct Event<'a> {
    /// The tool's name.
    pub tool: Value<'a>,
    /// True or false if the record has that value; else None.
    pub success: Option<bool>,
    /// The command and the path that it was given; None where the parameters are no object. Read for v2 alone.
    pub params: Option<[Value<'a>; 2]>,
}

/// The calls of a trajectory, up to the first that is not an object.
#[derive(Clone, Debug, Default)]
pub struct Events<'a> {
    list: Vec<Event<'a>>,
    length: usize,
    fault: Option<Fault>,
}

/// Keys of the parameters of a call.
pub const PARAMS: [&str; 2] = ["command", "file_path"];

impl Event<'_> {
    /// Return whether the record marks the call as failed; a call without a mark did not fail.
    pub(crate) fn failed(&self) -> bool {
        self.success == Some(false)
    }

    /// Return the command, then the path.
    pub(crate) fn params(&self) -> Result<&[Value<'_>; 2], Fault> {
        self.params.as_ref().ok_or(Fault::Attribute)
    }

    /// Return the path; an empty one is none.
    pub(crate) fn file(&self) -> Result<Option<&Value<'_>>, Fault> {
        self.params().map(|[_, file]| Some(file).filter(|file| file.truth()))
    }
}

impl<'a> Events<'a> {
    /// Read `events`. Where an element or the whole is of the wrong type, [`all`](Self::all) says so.
    ///
    /// # Errors
    /// [`Fault::Syntax`].
    pub fn read<N: Node<'a>>(node: Option<&N>, version: Version) -> Result<Self, Fault> {
        let Some(node) = node else { return Ok(Self::default()) };
        let mut events = Self::default();
        let visited = node.each(|element| events.push(element.as_ref(), version));
        match visited {
            Err(Fault::Type) => events.fault = Some(Fault::Type),
            other => other?,
        }
        Ok(events)
    }

    fn push<N: Node<'a>>(&mut self, element: Option<&N>, version: Version) -> Result<(), Fault> {
        self.length += 1;
        if self.fault.is_none() {
            match element.map_or(Err(Fault::Attribute), |element| event(element, version)) {
                Ok(event) => self.list.push(event),
                Err(Fault::Syntax) => return Err(Fault::Syntax),
                Err(fault) => self.fault = Some(fault),
            }
        }
        Ok(())
    }

    /// Read `tool_calls`, the other way to write the same: what is not an object is left out.
    ///
    /// # Errors
    /// [`Fault::Syntax`].
    pub fn of_calls<N: Node<'a>>(node: Option<&N>) -> Result<Self, Fault> {
        let mut list = Vec::new();
        if let Some(node) = node.filter(|node| matches!(node.value(), Ok(Value::List { .. }))) {
            node.each(|element| {
                if let Some(element) = element.filter(|it| matches!(it.value(), Ok(Value::Object { .. }))) {
                    list.push(call(&element)?);
                }
                Ok(())
            })?;
        }
        Ok(Self::of(list))
    }

    /// Return events of these calls, all of which are objects.
    #[must_use]
    pub fn of(list: Vec<Event<'a>>) -> Self {
        Self { length: list.len(), list, fault: None }
    }

    /// Return the calls.
    ///
    /// # Errors
    /// [`Fault::Type`] for what is not a list, [`Fault::Attribute`] for an element that is not an object.
    pub fn all(&self) -> Result<&[Event<'a>], Fault> {
        self.fault.map_or(Ok(&self.list), Err)
    }

    /// Return the calls before the one that is not an object, and what that one raises once it is reached.
    pub(crate) fn until(&self) -> (&[Event<'a>], Result<(), Fault>) {
        (&self.list, self.fault.map_or(Ok(()), Err))
    }

    /// Return the number of elements.
    pub(crate) fn length(&self) -> Result<usize, Fault> {
        if self.fault == Some(Fault::Type) { Err(Fault::Type) } else { Ok(self.length) }
    }
}

fn event<'a, N: Node<'a>>(node: &N, version: Version) -> Result<Event<'a>, Fault> {
    if version == Version::V1 {
        let [tool, success] = values(node, ["tool_name", "success"])?;
        return Ok(Event { tool, success: success.said(), params: None });
    }
    let [tool, success, params] = node.fields(["tool_name", "success", "key_params"])?;
    let params = match params.map(|params| values(&params, PARAMS)) {
        None => Some([const { Value::Absent }; 2]),
        Some(Err(Fault::Attribute)) => None,
        Some(found) => Some(found?),
    };
    Ok(Event { tool: value_of(tool.as_ref())?, success: value_of(success.as_ref())?.said(), params })
}

/// Read a call, with its parameters under `key_params`, or as JSON in the preview of its input.
fn call<'a, N: Node<'a>>(node: &N) -> Result<Event<'a>, Fault> {
    let [tool, success, params, preview] = node.fields(["tool", "success", "key_params", "input_preview"])?;
    let params = match params {
        Some(params) if params.value()? == (Value::Object { some: true }) => Some(values(&params, PARAMS)?),
        _ => preview.map(|preview| preview.embedded(PARAMS)).transpose()?.flatten(),
    };
    Ok(Event {
        tool: value_of(tool.as_ref())?,
        success: value_of(success.as_ref())?.said(),
        params: Some(params.unwrap_or([const { Value::Absent }; 2])),
    })
}

/// Return the longest run of failed calls.
#[must_use]
pub fn longest_failure(events: &[Event<'_>]) -> usize {
    longest_run(events.iter().map(Event::failed))
}
