//! Records of files of trajectories, in two passes: one to judge them, one to write them with their outcomes. The bytes
//! of a trajectory stay as they are, around the new values.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use karl_log::cancel::Watch;
use karl_log::columns::{RowSink, ScannedRow};
use karl_log::detect::{Input, Wishes, probe};
use karl_log::error::{Error, Result};
use karl_log::extract::{ScanSettings, Scanner};
use karl_log::format::Component;
use karl_log::format::preset::TRAJECTORY;
use karl_log::framing::lines::{RANGE, RangeTask};
use karl_log::input::source::Source;
use karl_log::json::project::{Path, PathTree, scan};
use karl_log::json::reference_parser;
use karl_log::log::Account;
use karl_log::parallel::{map, share};
use karl_log::read::{end, pieces, read_again, scan_all, tasks_of};
use karl_log::rejects::FileTally;
use karl_redact::secrets::{SecretCounts, add};
use serde::Serialize;
use serde_json::{Map, Number, Value};

use super::outcome::Outcome;
use crate::convert::run::Output;

/// Account of each file.
pub(super) type Accounts = Vec<(PathBuf, Account)>;

/// Files of trajectories, in ranges of bytes.
pub(super) struct Records {
    pub(super) inputs: Vec<Input>,
    tasks: Vec<RangeTask>,
    limit: usize,
    threads: usize,
}

impl Records {
    /// Look at every file.
    ///
    /// # Errors
    /// As [`probe`].
    pub(super) fn open(sources: Vec<Source>, limit: usize, threads: usize, watch: &Watch) -> Result<Self> {
        let wishes = Wishes { format: Some(&TRAJECTORY), max_line_bytes: limit, ..Wishes::default() };
        let inputs = sources.into_iter().map(|source| probe(source, &wishes, watch));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        Ok(Self { tasks: tasks(&inputs), inputs, limit, threads })
    }

    /// Pass every record to `one`; return the results in the order of the files, and the account of each file.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Interrupted`].
    pub(super) fn read<T: Send>(
        &mut self,
        one: impl Fn(&ScannedRow<'_>) -> T + Sync,
        watch: &Watch,
    ) -> Result<(Vec<T>, Accounts)> {
        loop {
            let done = map(self.tasks.clone(), self.threads, |task| {
                let mut found = Vec::new();
                self.scan(task, |row| found.push(one(row)), watch).map(|tally| (found, tally))
            });
            let (found, tallies): (Vec<_>, Vec<_>) =
                done.into_iter().collect::<Result<Vec<_>>>()?.into_iter().unzip();
            if !read_again(&mut self.inputs, self.tasks.iter().zip(&tallies), watch) {
                return Ok((found.into_iter().flatten().collect(), self.accounts(&tallies)));
            }
            self.tasks = tasks(&self.inputs);
        }
    }

    /// Write what `one` makes of every record; return the number of replaced secrets.
    ///
    /// # Errors
    /// Those of `one`, and of the output.
    pub(super) fn write(
        &self,
        output: &Output<'_>,
        one: impl Fn(&ScannedRow<'_>, &mut Vec<u8>) -> Result<()> + Sync,
        watch: &Watch,
    ) -> Result<SecretCounts> {
        let failure: Mutex<Option<Error>> = Mutex::new(None);
        let secrets = Mutex::new(SecretCounts::new());
        share(self.tasks.len(), self.threads, |queue| {
            while let Some(at) = queue.take() {
                let (mut lines, mut written) = (Vec::new(), Ok(()));
                let take = |row: &ScannedRow<'_>| {
                    if written.is_ok() {
                        written = one(row, &mut lines);
                    }
                };
                let done = self.scan(self.tasks[at], take, watch).and(written);
                let done = done.and_then(|()| output.put(at, lines)).map(|replaced| {
                    let mut secrets = secrets.lock().unwrap_or_else(PoisonError::into_inner);
                    add(&mut secrets, replaced);
                });
                if let Err(error) = done {
                    output.fail();
                    queue.close();
                    let mut first = failure.lock().unwrap_or_else(PoisonError::into_inner);
                    // A thread that another one stopped reports only an interruption.
                    if first.as_ref().is_none_or(|first| matches!(first, Error::Interrupted)) {
                        *first = Some(error);
                    }
                }
            }
        });
        let secrets = secrets.into_inner().unwrap_or_else(PoisonError::into_inner);
        failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(secrets), Err)
    }

    fn scan(&self, task: RangeTask, take: impl FnMut(&ScannedRow<'_>), watch: &Watch) -> Result<FileTally> {
        let input = &self.inputs[task.input];
        let mut scanner = Scanner::new(task.input, &input.fields, ScanSettings::default());
        let mut tally = FileTally::default();
        let read = pieces(input, task, self.limit, watch)
            .and_then(|pieces| scan_all(pieces, &mut scanner, &mut Sink(take), &mut tally, watch));
        end(read, &input.source.name, input.source.codec, &mut tally)?;
        Ok(tally)
    }

    fn accounts(&self, tallies: &[FileTally]) -> Accounts {
        let mut accounts = vec![(0, Account::default()); self.inputs.len()];
        for (task, tally) in self.tasks.iter().zip(tallies) {
            let (lines, account) = &mut accounts[task.input];
            account.add(tally, *lines);
            *lines += tally.lines;
        }
        let names = self.inputs.iter().map(|input| input.source.name.clone().into());
        names.zip(accounts.into_iter().map(|(_, account)| account)).collect()
    }
}

fn tasks(inputs: &[Input]) -> Vec<RangeTask> {
    inputs.iter().enumerate().flat_map(|(at, input)| tasks_of(at, input, RANGE)).collect()
}

struct Sink<F>(F);

impl<F: FnMut(&ScannedRow<'_>)> RowSink for Sink<F> {
    fn push(&mut self, found: &ScannedRow<'_>) {
        (self.0)(found);
    }
}

/// Reason to drop a record with an outcome of another form: it would be lost.
pub(super) const FOREIGN_OUTCOME: &str = "outcome_not_an_object";

/// Keys that are written, and the reward, behind which new ones stand.
const KEYS: [&str; 5] = ["reward", "group", "outcome", "evidence", "attributed"];

/// Reward of a written record.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rating {
    /// The record's own.
    Kept,
    /// Another one; `None` if it is missing.
    Set(Option<f64>),
}

/// Writer of records with outcomes.
pub(super) struct OutcomeWriter(PathTree);

impl OutcomeWriter {
    pub(super) fn new() -> Self {
        let paths: Vec<Path> = KEYS.iter().filter_map(|key| Path::parse(key).ok()).collect();
        Self(PathTree::new(&paths))
    }

    /// Return whether the outcome of a record can be set.
    pub(super) fn accepts(&self, record: &[u8]) -> bool {
        let [_, _, outcome, ..] = self.places(record);
        outcome.is_none_or(|place| record[place.start] == b'{' || &record[place] == b"null")
    }

    fn places(&self, record: &[u8]) -> [Option<Range<usize>>; KEYS.len()] {
        let mut places = [const { None }; KEYS.len()];
        // A record that was scanned before has no fault.
        let _ = scan(record, &self.0, &mut places);
        places
    }

    /// Write a record with its outcome as a line. A group is set where the record has none.
    pub(super) fn write(
        &self,
        record: &[u8],
        outcome: &Outcome,
        group: Option<&str>,
        rating: Rating,
        out: &mut Vec<u8>,
    ) {
        let [reward, own_group, own, evidence, attributed] = self.places(record);
        let before = own.clone().and_then(|place| reference_parser::parse(&record[place]).ok());
        let end = reward.clone().map_or(record.len() - 1, |place| place.end);
        let mut splices: Vec<(Range<usize>, Vec<u8>)> = Vec::new();
        let mut set = |place: Option<Range<usize>>, key: &str, value: Vec<u8>| match place {
            Some(place) => splices.push((place, value)),
            None => splices.push((end..end, [format!(",\"{key}\":").as_bytes(), &value].concat())),
        };
        set(own, KEYS[2], json(&values(outcome, before)));
        set(evidence, KEYS[3], json(&outcome.evidence));
        set(attributed, KEYS[4], json(&outcome.attributed));
        if let Rating::Set(rated) = rating {
            set(reward, KEYS[0], json(&rated));
        }
        if let (Some(group), Some(b"null") | None) = (group, own_group.clone().map(|place| &record[place])) {
            set(own_group, KEYS[1], json(&group));
        }
        splices.sort_by_key(|(place, _)| (place.start, place.end));
        let mut copied = 0;
        for (place, text) in splices {
            out.extend_from_slice(&record[copied..place.start]);
            out.extend_from_slice(&text);
            copied = place.end;
        }
        out.extend_from_slice(&record[copied..]);
        out.push(b'\n');
    }
}

/// Return all components by name, after those keys of an earlier outcome that are none of them.
fn values(outcome: &Outcome, before: Option<Value>) -> Value {
    let mut all = match before {
        Some(Value::Object(keys)) => keys,
        _ => Map::new(),
    };
    all.retain(|key, _| Component::ALL.iter().all(|component| component.name() != key));
    let number = |value: Option<f64>| value.and_then(Number::from_f64).map_or(Value::Null, Value::Number);
    all.extend(outcome.values().map(|(component, value)| (component.name().to_owned(), number(value))));
    Value::Object(all)
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_else(|_| b"null".to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcomes::outcome::Evidence;
    use serde_json::json;

    fn written(record: &str, outcome: &Outcome, group: Option<&str>) -> Value {
        let mut out = Vec::new();
        OutcomeWriter::new().write(record.as_bytes(), outcome, group, Rating::Kept, &mut out);
        assert_eq!(out.pop(), Some(b'\n'));
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn a_record_keeps_everything_but_what_is_set() {
        let mut outcome = Outcome::default();
        outcome.set(Component::Tests, 1.0, Evidence { why: "ran".to_owned(), ..Evidence::default() });
        let nulls = || Component::ALL.iter().map(|component| (component.name().to_owned(), Value::Null));
        let mut wanted: Map<String, Value> = nulls().collect();
        wanted.insert("tests".to_owned(), json!(1.0));
        let evidence = json!([{"component": "tests", "value": 1.0, "why": "ran"}]);
        let made =
            written(r#"{"id":"a","group":null,"reward":0.5,"x":"é","messages":[]}"#, &outcome, Some("g"));
        assert_eq!(
            made,
            json!({"id": "a", "group": "g", "reward": 0.5, "outcome": wanted, "evidence": evidence,
            "attributed": [], "x": "é", "messages": []})
        );
        // Again, over an outcome with a key of another tool.
        let again = written(
            &made.to_string().replace("{\"verified\"", "{\"redo\":true,\"verified\""),
            &Outcome::default(),
            Some("other"),
        );
        assert_eq!(again["outcome"]["redo"], json!(true));
        assert_eq!(
            (&again["outcome"]["tests"], &again["group"], &again["evidence"]),
            (&json!(null), &json!("g"), &json!([]))
        );
        assert_eq!(again["outcome"].as_object().unwrap().len(), 13);
        assert_eq!(written(r#"{"id":"a"}"#, &outcome, None)["outcome"]["tests"], json!(1.0));
    }

    #[test]
    fn a_reward_is_set_where_one_is_given() {
        for (rated, wanted) in [(Some(0.25), json!(0.25)), (None, json!(null))] {
            let mut out = Vec::new();
            let record = br#"{"id":"a","reward":0.5,"messages":[]}"#;
            OutcomeWriter::new().write(record, &Outcome::default(), None, Rating::Set(rated), &mut out);
            let made: Value = serde_json::from_slice(&out).unwrap();
            assert_eq!(made["reward"], wanted);
        }
    }

    #[test]
    fn an_outcome_of_another_form_is_refused() {
        let writer = OutcomeWriter::new();
        assert!(
            writer.accepts(br#"{"outcome":{"a":1}}"#)
                && writer.accepts(b"{}")
                && writer.accepts(br#"{"outcome":null}"#)
        );
        assert!(!writer.accepts(br#"{"outcome":"good"}"#));
    }
}
