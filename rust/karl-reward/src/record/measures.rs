//! The measurements of a typed record, with Python's arithmetic and the faults it raises.

use std::collections::HashMap;

use super::trajectory::{Event, Events, TrajectoryCalls, longest_failure};
use super::value::{Fault, Number, Value};
use crate::calls::Words;
use crate::formula::{Measures, MeasuresV2, Waste, Writes};

/// A trajectory as its record has it, its duration, and the numbers of its files.
pub(super) struct RecordMeasures<'r, 'a> {
    pub(super) trajectory: &'r TrajectoryCalls<'a>,
    pub(super) duration: Result<&'r Value<'a>, Fault>,
    pub(super) files: &'r CallFiles,
}

impl Measures for RecordMeasures<'_, '_> {
    type Fault = Fault;

    fn is_empty(&self) -> bool {
        self.trajectory.total.or_zero().is_zero()
    }

    fn success_rate(&self) -> Result<f64, Fault> {
        let total = self.trajectory.total.number()?;
        if total.above(0) { self.trajectory.successes.or_zero().number()?.over(total) } else { Ok(0.5) }
    }

    fn bash_error_rate(&self) -> Result<f64, Fault> {
        let events = self.trajectory.events.all()?;
        let calls = events.iter().filter(|event| event.tool.is("Bash")).count();
        if calls == 0 {
            return Ok(0.0);
        }
        let calls = Number::Int(i64::try_from(calls).unwrap_or(i64::MAX));
        self.trajectory.bash_errors.or_zero().number()?.over(calls)
    }

    fn longest_failure(&self) -> Result<usize, Fault> {
        if !self.trajectory.failures.or_zero().number()?.above(0) {
            return Ok(0);
        }
        self.trajectory.events.all().map(longest_failure)
    }

    fn check_duration(&self) -> Result<(), Fault> {
        self.duration.map(|_| ())
    }

    fn diversity(&self) -> Result<Option<f64>, Fault> {
        if !self.trajectory.counts.has_several()? {
            return Ok(None);
        }
        let tools = self.trajectory.counts.tools()?;
        let mut entropy = 0.0;
        for (_, count) in tools {
            let share = count.number()?.over(self.trajectory.total.number()?)?;
            if share > 0.0 {
                entropy -= share * libm::log2(share);
            }
        }
        Ok(Some(entropy / libm::log2(tools.len() as f64)))
    }

    fn calls_a_minute(&self) -> Result<Option<f64>, Fault> {
        let duration = self.duration?;
        if !duration.truth() || !duration.number()?.above(0) {
            return Ok(None);
        }
        Ok(Some(self.trajectory.total.number()?.over(duration.number()?)? * 60.0))
    }

    fn mutations(&self) -> Result<(f64, f64), Fault> {
        let mut mutations = Number::Int(0);
        for (_, count) in self.trajectory.counts.tools()?.iter().filter(|(mutation, _)| *mutation) {
            mutations = mutations.plus(count.number()?)?;
        }
        let total = self.trajectory.total.number()?.float()?;
        Ok((mutations.float()?, total))
    }
}

impl MeasuresV2 for RecordMeasures<'_, '_> {
    fn failure_flags(&self) -> Result<impl ExactSizeIterator<Item = bool>, Fault> {
        self.trajectory.events.all().map(|events| events.iter().map(Event::has_failed))
    }

    fn good_share(&self) -> Result<(f64, f64), Fault> {
        let total = self.trajectory.total.number()?;
        let number = |value: &Value<'_>| if value.truth() { value.number() } else { Ok(Number::Int(0)) };
        let (good, bad) = (number(&self.trajectory.successes)?, number(&self.trajectory.failures)?);
        let all = good.plus(bad)?;
        let rate = if all.above(0) { good.over(all)? } else { 1.0 };
        Ok((rate, total.float()?))
    }

    fn verifications(&self) -> Result<[bool; 3], Fault> {
        let (mut test, mut build, mut read) = (false, false, false);
        let mut written = self.files.flags();
        let (events, end) = self.trajectory.events.until();
        for (at, event) in events.iter().enumerate() {
            let [command, file] = event.params()?;
            if event.tool.is("Bash") {
                let words = read_words(command)?;
                test |= words.test;
                build |= words.build;
            } else if !matches!(command, Value::Text(_)) && command.truth() {
                return Err(Fault::Attribute);
            }
            if writes_file(event) && file.truth() {
                written[self.files.of(at)?] = true;
            }
            if event.tool.is("Read") && written.contains(&true) {
                read |= written[self.files.of(at)?];
            }
        }
        end?;
        Ok([test, build, read])
    }

    fn changes_files(&self) -> Result<bool, Fault> {
        Ok(self.trajectory.counts.tools()?.iter().any(|(mutation, _)| *mutation))
    }

    fn is_short(&self) -> Result<bool, Fault> {
        Ok(self.trajectory.total.or_zero().number()?.below(3))
    }

    fn writes(&self) -> Result<Writes, Fault> {
        let (mut read, mut edits) = (self.files.flags(), self.files.counts());
        let (mut count, mut prepared) = (0, 0);
        for (at, event) in self.trajectory.events.all()?.iter().enumerate() {
            let Some(_) = event.file()? else { continue };
            if event.tool.is("Read") {
                read[self.files.of(at)?] = true;
            } else if writes_file(event) {
                let file = self.files.of(at)?;
                count += 1;
                prepared += u32::from(read[file]);
                edits[file] += 1;
            }
        }
        Ok(Writes { count, prepared, often: edits.iter().filter(|&&edits| edits >= 3).count() })
    }

    fn waste(&self) -> Result<Waste, Fault> {
        let events = self.trajectory.events.all()?;
        let (reads, idle) = self.count_idle(events)?;
        Ok(Waste {
            stuck: count_stuck(events),
            loops: count_loops(events),
            undone: count_undone(events)?,
            reads,
            idle,
        })
    }
}

impl RecordMeasures<'_, '_> {
    /// Return the reads of files, and those of files that are never written.
    fn count_idle(&self, events: &[Event<'_>]) -> Result<(usize, usize), Fault> {
        let (mut read, mut written) = (Vec::new(), self.files.flags());
        for (at, event) in events.iter().enumerate() {
            let Some(_) = event.file()? else { continue };
            if event.tool.is("Read") {
                read.push(self.files.of(at)?);
            } else if writes_file(event) {
                written[self.files.of(at)?] = true;
            }
        }
        Ok((read.len(), read.iter().filter(|&&file| !written[file]).count()))
    }
}

fn read_words(command: &Value<'_>) -> Result<Words, Fault> {
    match command {
        Value::Text(text) => Ok(Words::of(text)),
        other if other.truth() => Err(Fault::Attribute),
        _ => Ok(Words::default()),
    }
}

fn writes_file(event: &Event<'_>) -> bool {
    event.tool.is_in(&["Write", "Edit"])
}

fn count_stuck(events: &[Event<'_>]) -> usize {
    let runs = events.chunk_by(|one, two| one.tool.truth() && are_same(&one.tool, &two.tool));
    runs.filter(|run| run.len() >= 3 && run.iter().any(Event::has_failed)).count()
}

fn count_loops(events: &[Event<'_>]) -> usize {
    let failed = |event: &Event<'_>| event.has_failed() && event.tool.is("Bash");
    events.windows(2).filter(|pair| pair.iter().all(failed)).count()
}

fn count_undone(events: &[Event<'_>]) -> Result<usize, Fault> {
    let mut undone = 0;
    for pair in events.windows(2) {
        let [before, after] = pair else { continue };
        if writes_file(before) && writes_file(after) {
            let files = (before.file()?, after.file()?);
            undone += usize::from(matches!(files, (Some(one), Some(two)) if are_same(one, two)));
        }
    }
    Ok(undone)
}

/// Compare names as Python's `==` does; a list or an object equals none.
fn are_same(one: &Value<'_>, two: &Value<'_>) -> bool {
    matches!((one.name(), two.name()), (Ok(one), Ok(two)) if one == two)
}

/// The number of each call's file: calls of one file have one number.
#[derive(Clone, Debug, Default)]
pub(super) struct CallFiles {
    numbers: Vec<Result<usize, Fault>>,
    count: usize,
}

impl CallFiles {
    /// Number the files of calls in order of appearance.
    pub(super) fn of_events(events: &Events<'_>) -> Self {
        let mut seen = HashMap::new();
        let numbers = events.until().0.iter().map(|event| {
            let [_, file] = event.params()?;
            let next = seen.len();
            Ok(*seen.entry(file.name()?).or_insert(next))
        });
        let numbers = numbers.collect();
        Self { numbers, count: seen.len() }
    }

    /// Return the file of a call.
    pub(crate) fn of(&self, call: usize) -> Result<usize, Fault> {
        self.numbers.get(call).copied().unwrap_or(Err(Fault::Attribute))
    }

    /// Return a flag for each file, and none raised.
    pub(crate) fn flags(&self) -> Vec<bool> {
        vec![false; self.count]
    }

    /// Return a count for each file, and all 0.
    pub(crate) fn counts(&self) -> Vec<u32> {
        vec![0; self.count]
    }
}
