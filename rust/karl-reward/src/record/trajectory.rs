//! Trajectory of a record, as recorded, or as v2 derives it from the calls.

use std::collections::HashMap;

use super::events::{Event, Events};
use super::record_source::{Node, value_of};
use super::value::Value;
use crate::fault::Fault;
use crate::version::Version;

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
    pub fn derived<N: Node<'a>>(node: Option<&N>) -> Result<Self, Fault> {
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

    /// Return a trajectory with counts from its events alone.
    ///
    /// # Errors
    /// [`Fault::Type`] for a name of a tool that cannot be counted.
    pub(crate) fn counted(events: Events<'a>, version: Version) -> Result<Self, Fault> {
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
    /// As [`derived`](Self::derived), and those of `count`.
    pub fn fill(&mut self, count: impl FnOnce() -> Result<Value<'a>, Fault>) -> Result<(), Fault> {
        if !self.total.truth() {
            self.total = count()?;
        }
        if !self.total.truth() {
            self.total = whole(self.events.length()?);
        }
        if !self.counts.truth() {
            self.counts = ToolCounts::of(&self.events)?;
        }
        let events = &self.events;
        let fill = |value: &mut Value<'a>, counted: fn(&Event<'a>) -> bool| {
            if value.is_none() {
                *value = whole(events.all()?.iter().filter(|event| counted(event)).count());
            }
            Ok(())
        };
        fill(&mut self.successes, |event| event.success == Some(true))?;
        fill(&mut self.failures, Event::failed)?;
        fill(&mut self.bash_errors, |event| event.failed() && event.tool.is("Bash"))
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
    pub(crate) fn several(&self) -> Result<bool, Fault> {
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

fn whole<'a>(count: usize) -> Value<'a> {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}
