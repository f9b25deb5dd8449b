//! The calls of a record and what is counted of them: as recorded, as v2 derives it from the calls, or from the messages of a
//! canonical trajectory. A record is read through [`Node`], a Python object or raw JSON.

use std::collections::HashMap;

use super::value::{Fault, Value};
use crate::formula::longest_run;
use crate::reward::Version;

/// A value that can be looked into: a Python object, or a piece of raw JSON. The lifetime is that of its texts.
pub trait Node<'a>: Sized {
    /// Return the value.
    ///
    /// # Errors
    /// [`Fault::Syntax`] where it is not a value.
    fn value(&self) -> Result<Value<'a>, Fault>;

    /// Return the values of some keys of an object; of a repeated key, the last.
    ///
    /// # Errors
    /// [`Fault::Attribute`] where it is not an object.
    fn fields<const N: usize>(&self, keys: [&str; N]) -> Result<[Option<Self>; N], Fault>;

    /// Visit what Python iterates over: the elements of a list; of a text its characters and of an object its keys,
    /// as None, for neither can be looked into.
    ///
    /// # Errors
    /// [`Fault::Type`] where Python cannot iterate, and what the visit returns.
    fn each(&self, visit: impl FnMut(Option<Self>) -> Result<(), Fault>) -> Result<(), Fault>;

    /// Visit the keys and values of an object, each key at its first place, with its last value.
    ///
    /// # Errors
    /// [`Fault::Attribute`] where it is not an object, and the error of the visit.
    fn entries(&self, visit: impl FnMut(&str, Self) -> Result<(), Fault>) -> Result<(), Fault>;

    /// Return the values of some keys of the object that is written as JSON in a text; None where there is none.
    ///
    /// # Errors
    /// [`Fault::Syntax`] where the node itself is not a value.
    fn embedded<const N: usize>(&self, keys: [&str; N]) -> Result<Option<[Value<'a>; N]>, Fault>;
}

/// Return the values of some keys of an object.
pub(crate) fn values<'a, N: Node<'a>, const K: usize>(
    node: &N,
    keys: [&str; K],
) -> Result<[Value<'a>; K], Fault> {
    let mut values = [const { Value::Absent }; K];
    for (value, field) in values.iter_mut().zip(&node.fields(keys)?) {
        *value = value_of(field.as_ref())?;
    }
    Ok(values)
}

/// Return the value of a node that may be missing.
pub(crate) fn value_of<'a, N: Node<'a>>(node: Option<&N>) -> Result<Value<'a>, Fault> {
    node.map_or(Ok(Value::Absent), Node::value)
}

/// The tools that change files.
pub(crate) const MUTATIONS: [&str; 3] = ["Write", "Edit", "NotebookEdit"];

/// Keys of a trajectory.
pub const TRAJECTORY: [&str; 6] =
    ["total_tools", "successes", "failures", "bash_errors", "tool_counts", "events"];

/// The calls of a trajectory, and what is counted of them.
#[derive(Clone, Debug)]
pub struct TrajectoryCalls<'a> {
    /// Version of the reward that it is read for.
    pub version: Version,
    /// `total_tools`.
    pub total: Value<'a>,
    /// `successes`.
    pub successes: Value<'a>,
    /// `failures`.
    pub failures: Value<'a>,
    /// `bash_errors`.
    pub bash_errors: Value<'a>,
    /// `tool_counts`.
    pub counts: ToolCounts<'a>,
    /// `events`, or what `tool_calls` make of them.
    pub events: Events<'a>,
}

/// Number of calls of each tool.
#[derive(Clone, Debug)]
pub enum ToolCounts<'a> {
    /// A value without a length.
    Unsized {
        /// True if Python evaluates it as true.
        some: bool,
    },
    /// A text or a list, which has a length and no values.
    Sized {
        /// True if it is not empty.
        some: bool,
        /// True if there are two or more elements.
        several: bool,
    },
    /// The counts in the order of the tools; whether the tool changes files.
    Tools(Vec<(bool, Value<'a>)>),
}

impl<'a> TrajectoryCalls<'a> {
    /// Read the record's own fields, which v1 takes as they are.
    ///
    /// # Errors
    /// [`Fault::Attribute`] where it is not an object.
    pub fn read<N: Node<'a>>(node: Option<&N>, version: Version) -> Result<Self, Fault> {
        let fields = node.map(|node| node.fields(TRAJECTORY)).transpose()?;
        let [total, successes, failures, bash_errors, counts, events] = fields.unwrap_or([const { None }; 6]);
        Ok(Self {
            version,
            total: value_of(total.as_ref())?,
            successes: value_of(successes.as_ref())?,
            failures: value_of(failures.as_ref())?,
            bash_errors: value_of(bash_errors.as_ref())?,
            counts: ToolCounts::read(counts.as_ref())?,
            events: Events::read(events.as_ref(), version)?,
        })
    }

    /// Return the same with what is missing made from `tool_calls` and `tool_count`: events where there are none,
    /// then the counts of tools, successes, failures and failed calls of Bash, each where the record does not say it.
    ///
    /// # Errors
    /// [`Fault::Type`] for events without a length, and for a name of a tool that cannot be counted;
    /// [`Fault::Attribute`] for an event that is not an object.
    pub fn derive<N: Node<'a>>(node: Option<&N>) -> Result<Self, Fault> {
        let node = node.filter(|node| matches!(node.value(), Ok(Value::Object { .. })));
        let mut all = Self::read(node, Version::V2)?;
        let fields = node.map(|node| node.fields(["events", "tool_calls", "tool_count"])).transpose()?;
        let [events, calls, count] = fields.unwrap_or([const { None }; 3]);
        if !value_of(events.as_ref())?.truth() {
            all.events = Events::of_calls(calls.as_ref())?;
        }
        all.fill(|| value_of(count.as_ref()))?;
        Ok(all)
    }

    /// Return the trajectory of `messages`, with all that it counts made from the events: the calls of tools are the
    /// events, and their results say how they went.
    ///
    /// # Errors
    /// [`Fault::Syntax`]; [`Fault::Type`] for messages that cannot be gone through, or a name of a tool that cannot be
    /// counted.
    pub(crate) fn from_messages<N: Node<'a>>(messages: Option<&N>, version: Version) -> Result<Self, Fault> {
        let mut calls = MessageCalls { events: Vec::new(), places: HashMap::new(), version };
        if let Some(messages) = messages {
            messages.each(|message| message.map_or(Ok(()), |message| calls.add_message(&message)))?;
        }
        Self::from_events(Events::of(calls.events), version)
    }

    /// Return a trajectory with counts from its events alone.
    ///
    /// # Errors
    /// [`Fault::Type`] for a name of a tool that cannot be counted.
    fn from_events(events: Events<'a>, version: Version) -> Result<Self, Fault> {
        let mut all = Self {
            version,
            total: Value::Absent,
            successes: Value::Absent,
            failures: Value::Absent,
            bash_errors: Value::Absent,
            counts: ToolCounts::Tools(Vec::new()),
            events,
        };
        all.fill(|| Ok(Value::Absent))?;
        Ok(all)
    }

    /// Make what the record does not say from its events; `count` is its `tool_count`.
    ///
    /// # Errors
    /// As [`derive`](Self::derive), and those of `count`.
    pub fn fill(&mut self, count: impl FnOnce() -> Result<Value<'a>, Fault>) -> Result<(), Fault> {
        if !self.total.truth() {
            self.total = count()?;
        }
        if !self.total.truth() {
            self.total = int(self.events.length()?);
        }
        if !self.counts.truth() {
            self.counts = ToolCounts::of(&self.events)?;
        }
        let events = &self.events;
        let fill = |value: &mut Value<'a>, counted: fn(&Event<'a>) -> bool| {
            if value.is_none() {
                *value = int(events.all()?.iter().filter(|event| counted(event)).count());
            }
            Ok(())
        };
        fill(&mut self.successes, |event| event.success == Some(true))?;
        fill(&mut self.failures, Event::has_failed)?;
        fill(&mut self.bash_errors, |event| event.has_failed() && event.tool.is("Bash"))
    }
}

impl<'a> ToolCounts<'a> {
    /// Read `tool_counts`; without it there are none.
    ///
    /// # Errors
    /// [`Fault::Syntax`].
    pub fn read<N: Node<'a>>(node: Option<&N>) -> Result<Self, Fault> {
        let Some(node) = node else { return Ok(Self::Tools(Vec::new())) };
        match node.value()? {
            Value::Object { .. } => {
                let mut tools = Vec::new();
                node.entries(|key, value| {
                    tools.push((MUTATIONS.contains(&key), value.value()?));
                    Ok(())
                })?;
                Ok(Self::Tools(tools))
            }
            value @ (Value::Text(_) | Value::List { .. }) => {
                let mut length = 0_usize;
                node.each(|_| {
                    length += 1;
                    Ok(())
                })?;
                Ok(Self::Sized { some: value.truth(), several: length > 1 })
            }
            value => Ok(Self::Unsized { some: value.truth() }),
        }
    }

    /// Count the calls by tool; a call without a name is of a tool `unknown`.
    fn of(events: &Events<'a>) -> Result<Self, Fault> {
        let unknown = Value::Text("unknown".into());
        let mut places = HashMap::new();
        let mut counts: Vec<(bool, i64)> = Vec::new();
        let (list, end) = events.until();
        for event in list {
            let tool = if event.tool.truth() { &event.tool } else { &unknown };
            let place = *places.entry(tool.name()?).or_insert(counts.len());
            match counts.get_mut(place) {
                Some((_, count)) => *count += 1,
                None => counts.push((tool.is_in(&MUTATIONS), 1)),
            }
        }
        end?;
        Ok(Self::Tools(counts.into_iter().map(|(mutation, count)| (mutation, Value::Int(count))).collect()))
    }

    fn truth(&self) -> bool {
        match self {
            Self::Unsized { some } | Self::Sized { some, .. } => *some,
            Self::Tools(tools) => !tools.is_empty(),
        }
    }

    /// Return whether there are two tools or more.
    pub(crate) fn has_several(&self) -> Result<bool, Fault> {
        match self {
            Self::Unsized { .. } => Err(Fault::Type),
            Self::Sized { several, .. } => Ok(*several),
            Self::Tools(tools) => Ok(tools.len() > 1),
        }
    }

    /// Return for each tool a flag that it changes files, and its number of calls.
    pub(crate) fn tools(&self) -> Result<&[(bool, Value<'a>)], Fault> {
        if let Self::Tools(tools) = self { Ok(tools) } else { Err(Fault::Attribute) }
    }
}

fn int<'a>(count: usize) -> Value<'a> {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

/// One call of a tool.
#[derive(Clone, Debug)]
pub struct Event<'a> {
    /// The tool's name.
    pub tool: Value<'a>,
    /// True or false if the record has that value; else None.
    pub success: Option<bool>,
    /// The command and the path that it was given; None where the parameters are not an object. Read for v2 alone.
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
    pub(crate) fn has_failed(&self) -> bool {
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
            match element.map_or(Err(Fault::Attribute), |element| read_event(element, version)) {
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
                    list.push(read_call(&element)?);
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

fn read_event<'a, N: Node<'a>>(node: &N, version: Version) -> Result<Event<'a>, Fault> {
    if version == Version::V1 {
        let [tool, success] = values(node, ["tool_name", "success"])?;
        return Ok(Event { tool, success: success.as_bool(), params: None });
    }
    let [tool, success, params] = node.fields(["tool_name", "success", "key_params"])?;
    let params = match params.map(|params| values(&params, PARAMS)) {
        None => Some([const { Value::Absent }; 2]),
        Some(Err(Fault::Attribute)) => None,
        Some(found) => Some(found?),
    };
    Ok(Event { tool: value_of(tool.as_ref())?, success: value_of(success.as_ref())?.as_bool(), params })
}

/// Read a call, with its parameters under `key_params`, or as JSON in the preview of its input.
fn read_call<'a, N: Node<'a>>(node: &N) -> Result<Event<'a>, Fault> {
    let [tool, success, params, preview] = node.fields(["tool", "success", "key_params", "input_preview"])?;
    let params = match params {
        Some(params) if params.value()? == (Value::Object { some: true }) => Some(values(&params, PARAMS)?),
        _ => preview.map(|preview| preview.embedded(PARAMS)).transpose()?.flatten(),
    };
    Ok(Event {
        tool: value_of(tool.as_ref())?,
        success: value_of(success.as_ref())?.as_bool(),
        params: Some(params.unwrap_or([const { Value::Absent }; 2])),
    })
}

/// Return the longest run of failed calls.
#[must_use]
pub fn longest_failure(events: &[Event<'_>]) -> usize {
    longest_run(events.iter().map(Event::has_failed))
}

/// The calls so far, each by its id.
struct MessageCalls<'a> {
    events: Vec<Event<'a>>,
    places: HashMap<String, usize>,
    version: Version,
}

impl<'a> MessageCalls<'a> {
    /// Take the calls of a message, or what a tool says of one; a value that is not a message says nothing.
    fn add_message<N: Node<'a>>(&mut self, message: &N) -> Result<(), Fault> {
        let Some([calls, answered, success]) =
            fields_of_object(message, ["tool_calls", "tool_call_id", "success"])?
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
            Some(calls) => calls.each(|call| call.map_or(Ok(()), |call| self.add_call(&call))),
            None => Ok(()),
        }
    }

    fn add_call<N: Node<'a>>(&mut self, call: &N) -> Result<(), Fault> {
        let Some([id, function]) = fields_of_object(call, ["id", "function"])? else { return Ok(()) };
        let function = function
            .map(|function| fields_of_object(&function, ["name", "arguments"]))
            .transpose()?
            .flatten();
        let [name, arguments] = function.unwrap_or([const { None }; 2]);
        if let Value::Text(id) = value_of(id.as_ref())? {
            self.places.insert(id.into_owned(), self.events.len());
        }
        let params = if self.version == Version::V1 { None } else { Some(read_params(arguments.as_ref())?) };
        self.events.push(Event { tool: value_of(name.as_ref())?, success: None, params });
        Ok(())
    }
}

/// Return the command and the path of a call, where they are texts: of an object, or of the text of one. Some tools
/// keep other things under these names.
fn read_params<'a, N: Node<'a>>(arguments: Option<&N>) -> Result<[Value<'a>; 2], Fault> {
    let Some(arguments) = arguments else { return Ok([const { Value::Absent }; 2]) };
    let params = match arguments.value()? {
        Value::Object { .. } => values(arguments, PARAMS)?,
        _ => arguments.embedded(PARAMS)?.unwrap_or([const { Value::Absent }; 2]),
    };
    Ok(params.map(|value| if matches!(value, Value::Text(_)) { value } else { Value::Absent }))
}

/// Return the values of some keys; None of what is not an object.
fn fields_of_object<'a, N: Node<'a>, const K: usize>(
    node: &N,
    keys: [&str; K],
) -> Result<Option<[Option<N>; K]>, Fault> {
    match node.value()? {
        Value::Object { .. } => node.fields(keys).map(Some),
        _ => Ok(None),
    }
}
