//! Records of the usual shape, which is most of a log, in one pass over their keys.
//!
//! The usual shape: outcome, trajectory, timing and whatever is in the list of calls are objects, where they are there. What
//! has another shape (a canonical trajectory has), or is damaged, is for [`Raw`] to judge; both say the same of what both
//! take.

use std::ops::Range;

use karl_core::reward::karl::{
    Counts, Event, Events, Node, OUTCOME, PARAMS, Record, TRAJECTORY, Trajectory, Value, Version,
};

use super::Raw;
use crate::field::{Path, Scan, Wanted, skip_space};

/// A record: its flags, what its trajectory says, its duration; then what has to be an object; then what v2 falls back on;
/// then what no such record has.
const RECORD: usize = OUTCOME.len() + TRAJECTORY.len() + 7;

/// A call: its tool, its success, its parameters and what v2 asks of those.
const EVENT: usize = 3 + PARAMS.len();

/// A call as newer records write it: the same, and the preview of its input.
const CALL: usize = EVENT + 1;

/// What a call is long, or more: room for calls is made once.
const CALL_BYTES: usize = 128;

/// Reads one record after the other; keys that come in the order in which they came before cost least.
pub(super) struct Usual {
    version: Version,
    record: Scan,
    event: Scan,
    call: Scan,
}

impl Usual {
    pub(super) fn new(version: Version) -> Self {
        let under = |parent: &str, keys: &[&str]| keys.iter().map(|key| format!("{parent}.{key}")).collect();
        let outcome: Vec<String> = under("outcome", &OUTCOME);
        let trajectory: Vec<String> = under("trajectory", &TRAJECTORY);
        let rest = ["timing.duration_s", "outcome", "trajectory", "timing"].map(str::to_owned);
        let newer: Vec<String> = under("trajectory", &["tool_calls", "tool_count"]);
        let canonical = vec!["karl_fast_trajectory".to_owned()];
        let params: Vec<String> = under("key_params", &PARAMS);
        let of = |own: &[&str]| [own.iter().map(|&key| key.to_owned()).collect(), params.clone()].concat();
        Self {
            version,
            record: scan(&[outcome, trajectory, rest.to_vec(), newer, canonical].concat()),
            event: match version {
                Version::V1 => scan(&["tool_name", "success"].map(str::to_owned)),
                Version::V2 => scan(&of(&["tool_name", "success", "key_params"])),
            },
            call: scan(&[of(&["tool", "success", "key_params"]), vec!["input_preview".to_owned()]].concat()),
        }
    }

    /// The record of a line; None where it has another shape.
    pub(super) fn read<'a>(&mut self, line: &'a [u8]) -> Option<Record<'a>> {
        let line = line.trim_ascii_end();
        let mut slots = [const { None }; RECORD];
        let end = self.record.object(line, &mut slots).ok()?.end;
        let fields = slots.map(|slot| found(line, slot));
        let [no, redo, build, continued, total, good, bad, errors, counts, events, seconds, rest @ ..] =
            fields;
        let [outcome, trajectory, timing, calls, count, canonical] = rest;
        let objects = [outcome, trajectory, timing];
        if end != line.len() || canonical.is_some() || objects.iter().flatten().any(|raw| !raw.is_object()) {
            return None;
        }
        let mut trajectory = Trajectory {
            version: self.version,
            total: value(total)?,
            successes: value(good)?,
            failures: value(bad)?,
            bash_errors: value(errors)?,
            counts: Counts::read(counts.as_ref()).ok()?,
            events: self.events(events, calls)?,
        };
        if self.version == Version::V2 {
            trajectory.fill(|| count.map_or(Ok(Value::Absent), |raw| raw.value())).ok()?;
        }
        let outcome = [value(no)?, value(redo)?, value(build)?, value(continued)?];
        Some(Record { outcome: Ok(outcome), trajectory, duration: Ok(value(seconds)?) })
    }

    fn events<'a>(&mut self, events: Option<Raw<'a>>, calls: Option<Raw<'a>>) -> Option<Events<'a>> {
        let v2 = self.version == Version::V2;
        if events.is_some_and(|events| !events.0.starts_with(b"[")) {
            return None;
        }
        match (events, calls) {
            (Some(events), _) if !v2 || events.some() => {
                let list = if v2 {
                    each(events, &mut self.event, event)
                } else {
                    each(events, &mut self.event, plain)
                };
                list.map(Events::of)
            }
            (_, Some(calls)) if v2 => each(calls, &mut self.call, call).map(Events::of),
            _ => Some(Events::default()),
        }
    }
}

pub(super) fn scan(paths: &[String]) -> Scan {
    let paths: Vec<Path> = paths.iter().filter_map(|path| Path::parse(path).ok()).collect();
    Scan::new(Wanted::new(&paths))
}

pub(super) fn found(bytes: &[u8], slot: Option<Range<usize>>) -> Option<Raw<'_>> {
    slot.and_then(|range| bytes.get(range)).map(Raw)
}

fn value(field: Option<Raw<'_>>) -> Option<Value<'_>> {
    field.map_or(Some(Value::Absent), |raw| raw.value().ok())
}

/// The elements of a list that are all objects.
fn each<'a, const N: usize>(
    list: Raw<'a>,
    scan: &mut Scan,
    read: impl Fn([Option<Raw<'a>>; N]) -> Option<Event<'a>>,
) -> Option<Vec<Event<'a>>> {
    let bytes = list.0.strip_prefix(b"[")?;
    let (mut events, mut at) = (Vec::with_capacity(bytes.len() / CALL_BYTES), skip_space(bytes, 0));
    if bytes.get(at) == Some(&b']') {
        return Some(events);
    }
    loop {
        let element = bytes.get(at..)?;
        let mut slots = [const { None }; N];
        let end = scan.object(element, &mut slots).ok()?.end;
        events.push(read(slots.map(|slot| found(element, slot)))?);
        at = skip_space(bytes, at + end);
        match bytes.get(at)? {
            b',' => at = skip_space(bytes, at + 1),
            b']' => return Some(events),
            _ => return None,
        }
    }
}

/// A call as v1 reads it.
fn plain([tool, success]: [Option<Raw<'_>>; 2]) -> Option<Event<'_>> {
    Some(Event { tool: value(tool)?, success: value(success)?.said(), params: None })
}

fn event([tool, success, params, command, file]: [Option<Raw<'_>>; EVENT]) -> Option<Event<'_>> {
    if params.is_some_and(|params| !params.is_object()) {
        return None;
    }
    let params = Some([value(command)?, value(file)?]);
    Some(Event { tool: value(tool)?, success: value(success)?.said(), params })
}

fn call([tool, success, params, command, file, preview]: [Option<Raw<'_>>; CALL]) -> Option<Event<'_>> {
    let params = if params.is_some_and(|params| params.is_object() && params.some()) {
        Some([value(command)?, value(file)?])
    } else {
        preview.map_or(Some(None), |preview| preview.embedded(PARAMS).ok())?
    };
    let params = Some(params.unwrap_or([const { Value::Absent }; 2]));
    Some(Event { tool: value(tool)?, success: value(success)?.said(), params })
}
