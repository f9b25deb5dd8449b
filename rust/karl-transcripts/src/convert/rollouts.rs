//! Logs of rollouts, as written by trainers and evaluations: each record is a trajectory. Rows of Parquet are
//! read as lines.
//!
//! The fields of a record are found by its [`Format`], as in sampling; values without a key of their own in a
//! trajectory are kept unchanged under `source.record`. Files of lines are processed in byte ranges.

use std::collections::HashSet;

use karl_log::cancel::Watch;
use karl_log::columns::{RowSink, ScannedRow};
use karl_log::conversation::{Flaw, held};
use karl_log::detect::{Input, Wishes, probe};
use karl_log::error::Result;
use karl_log::extract::{self, Scanner};
use karl_log::format::preset::GENERIC;
use karl_log::format::{Field, Fields, Format, Overrides, Transform};
use karl_log::framing::lines::{RANGE, RangeTask};
use karl_log::input::source::Source;
use karl_log::json::project::Path;
use karl_log::json::reference_parser::{
    self, forget_non_finite, lookup, may_be_non_finite, restore_non_finite,
};
use karl_log::log::Account;
use karl_log::parallel::map;
use karl_log::read::{end, pieces, read_again, scan_all, tasks_of};
use karl_log::rejects::FileTally;
use serde_json::{Map, Value};

use super::chat::{self, ChatMessages};
use super::copies::{Copyable, SourceRecords, copies, id};
use super::json::{JsonType, LIST, OBJECT, TEXT, WORDS, absent, damaged, is_mistyped, mended, source};
use super::report::{EMPTY, LineCounts, count_type};
use super::run::{ConvertSettings, Head, Tokens, write};
use super::tool_kind::{MESSAGES, TranscriptKind};

/// Keys of the rejected answer in preference sets: it stays in the record and is reported.
const REJECTED: [&str; 5] =
    ["rejected", "non_preferred_output", "rejected_response", "rejected_messages", "rejected_completion"];

/// Name under which a record in another file is counted.
const COPIED: &str = "copied_rollout";

/// Type under which a record is counted.
const RECORD: &str = "record";

/// Logs before trajectories are made of them, in work units.
pub(super) struct RolloutLogs {
    inputs: Vec<Input>,
    tasks: Vec<RangeTask>,
    /// File and offset of each record that is written for another file.
    copies: HashSet<(usize, u64)>,
}

impl RolloutLogs {
    /// Look at every file, and at several files for records in more than one.
    ///
    /// # Errors
    /// As [`convert`](super::convert).
    pub(super) fn open(
        logs: Vec<(&'static Format, Source)>,
        settings: &ConvertSettings,
        watch: &Watch,
    ) -> Result<Self> {
        let limit = settings.max_line_bytes;
        let read = |(format, source): (&'static Format, Source)| {
            let messages = (format.name == GENERIC.name).then(|| MESSAGES.join("|"));
            let overrides = Overrides { messages, ..Overrides::default() };
            let wishes = Wishes { format: Some(format), overrides, max_line_bytes: limit };
            probe(source, &wishes, watch)
        };
        let inputs = logs.into_iter().map(read).collect::<Result<Vec<_>>>()?;
        let mut logs = Self { tasks: tasks(&inputs), inputs, copies: HashSet::new() };
        if logs.inputs.len() > 1 {
            watch.expect(watch.expected() + logs.inputs.iter().map(|input| input.source.size).sum::<u64>());
            logs.copies = copies(logs.records(settings, watch)?, logs.inputs.len());
        }
        Ok(logs)
    }

    /// Return every record of every file.
    fn records(&mut self, settings: &ConvertSettings, watch: &Watch) -> Result<Vec<Copyable>> {
        loop {
            let read = |task: &RangeTask| {
                let mut seen = SourceRecords::of(&self.inputs[task.input].fields);
                self.scan(*task, settings, watch, &mut seen).map(|tally| (seen.records, tally))
            };
            let done = map(self.tasks.iter().collect(), settings.threads, read);
            let done = done.into_iter().collect::<Result<Vec<_>>>()?;
            let tallies = self.tasks.iter().zip(done.iter().map(|(_, tally)| tally));
            if !read_again(&mut self.inputs, tallies, watch) {
                return Ok(done.into_iter().flat_map(|(records, _)| records).collect());
            }
            self.tasks = tasks(&self.inputs);
        }
    }

    /// Return whether some files have to be converted again as a whole, because the result is incomplete.
    pub(super) fn again(&mut self, counts: &LineCounts, watch: &Watch) -> bool {
        let done = counts.tallies.iter().map(|(unit, tally)| (&self.tasks[*unit], tally));
        let again = read_again(&mut self.inputs, done, watch);
        if again {
            self.tasks = tasks(&self.inputs);
        }
        again
    }

    /// Return the number of work units.
    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Return the trajectories of a unit, and the account of its records.
    ///
    /// # Errors
    /// As [`convert`](super::convert).
    pub(super) fn make(
        &self,
        unit: usize,
        settings: &ConvertSettings,
        watch: &Watch,
    ) -> Result<(Vec<u8>, LineCounts)> {
        let task = self.tasks[unit];
        let input = &self.inputs[task.input];
        let mut writer =
            Writer { input, settings, copies: &self.copies, out: Vec::new(), counts: LineCounts::default() };
        let tally = self.scan(task, settings, watch, &mut writer)?;
        writer.counts.tallies.push((unit, tally));
        Ok((writer.out, writer.counts))
    }

    /// Pass on the records of a part of a file.
    fn scan(
        &self,
        task: RangeTask,
        settings: &ConvertSettings,
        watch: &Watch,
        sink: &mut impl RowSink,
    ) -> Result<FileTally> {
        let input = &self.inputs[task.input];
        let mut scanner = Scanner::new(task.input, &input.fields, extract::ScanSettings::default());
        let mut tally = FileTally::default();
        let read = pieces(input, task, settings.max_line_bytes, watch)
            .and_then(|pieces| scan_all(pieces, &mut scanner, sink, &mut tally, watch));
        end(read, &input.source.name, input.source.codec, &mut tally)?;
        Ok(tally)
    }

    /// Add the account of each file, with units completed in any order.
    pub(super) fn account(&self, counts: &mut LineCounts) {
        let mut tallies = std::mem::take(&mut counts.tallies);
        tallies.sort_by_key(|(unit, _)| *unit);
        let mut accounts = vec![(0, Account::default()); self.inputs.len()];
        for (unit, tally) in tallies {
            let (lines, account) = &mut accounts[self.tasks[unit].input];
            account.add(&tally, *lines);
            *lines += tally.lines;
        }
        let named = self.inputs.iter().zip(accounts);
        counts.files.extend(named.map(|(input, (_, account))| {
            (input.source.name.clone().into(), TranscriptKind::Rollouts(input.format).name(), account)
        }));
    }
}

fn tasks(inputs: &[Input]) -> Vec<RangeTask> {
    inputs.iter().enumerate().flat_map(|(at, input)| tasks_of(at, input, RANGE)).collect()
}

/// Writer of the records of a unit.
struct Writer<'a> {
    input: &'a Input,
    settings: &'a ConvertSettings,
    copies: &'a HashSet<(usize, u64)>,
    out: Vec<u8>,
    counts: LineCounts,
}

impl RowSink for Writer<'_> {
    fn push(&mut self, scanned: &ScannedRow<'_>) {
        count_type(&mut self.counts.types, RECORD, 1);
        let place = scanned.spot.place(scanned.length);
        if self.copies.contains(&(place.input, place.offset)) {
            self.counts.duplicates += 1;
            self.counts.note(COPIED);
            return;
        }
        match self.take(scanned) {
            Ok(()) => self.counts.used += 1,
            Err(reason) => self.counts.drop_line(reason),
        }
        self.counts.locate(&self.input.source.name, place.offset);
    }
}

impl Writer<'_> {
    /// Write a record's trajectory; return the reason if there is none.
    fn take(&mut self, row: &ScannedRow<'_>) -> std::result::Result<(), &'static str> {
        let (fields, counts) = (&self.input.fields, &mut self.counts);
        let parsed = mended(row.record, counts).and_then(|text| reference_parser::parse_exact(&text).ok());
        let mut record = parsed.ok_or_else(|| damaged(OBJECT, "the record", counts))?;
        let exact = may_be_non_finite(row.record).then(|| record.clone());
        if exact.is_some() {
            forget_non_finite(&mut record);
        }
        let mut head = head(&record, self.input, row, counts);
        if REJECTED.iter().any(|key| record.get(key).is_some_and(|half| !half.is_null())) {
            counts.note(REJECTED[0]);
        }
        if expect(&record, fields, counts) {
            return Err(Flaw::BadMessage.name());
        }
        let recorded = held(&mut record, fields).map_err(|flaw| {
            if flaw == Flaw::NoTrajectory {
                missing(fields, counts);
            }
            if let Some(kind) = flaw.media() {
                counts.note(kind);
            }
            flaw.name()
        })?;
        let mut messages = ChatMessages::default();
        head.tools = messages.add_message(recorded, fields.reasoning, counts).map_err(Flaw::name)?;
        if messages.talk.messages.is_empty() {
            return Err(EMPTY);
        }
        if let Some(exact) = exact {
            restore_non_finite(&mut record, &exact);
        }
        let more = Map::from_iter([("record".to_owned(), rest(record, self.input.format, &head))]);
        head.source = source(self.input.format.name, &self.input.source.name, more);
        let unanswered = messages.talk.unanswered();
        if unanswered > 0 {
            *counts.calls.entry("unanswered").or_default() += unanswered;
        }
        write(head, &messages.talk.messages, self.settings.rate, &mut self.out, counts);
        Ok(())
    }
}

/// Return the fields of a record besides its messages.
pub(super) fn head(record: &Value, input: &Input, row: &ScannedRow<'_>, counts: &mut LineCounts) -> Head {
    let format = input.format;
    let at = |path: &str| Path::parse(path).ok().and_then(|path| lookup(record, &path));
    let version = at(format.policy_version);
    let wanted = &[JsonType::Number, JsonType::Text];
    let version = version.filter(|_| !is_mistyped(version, wanted, format.policy_version, counts)).cloned();
    let model = at(format.model);
    is_mistyped(model, TEXT, format.model, counts);
    // A tool without token counts writes 0.
    let count = |path: &str| at(path).and_then(Value::as_u64).filter(|&count| count > 0);
    Head {
        id: id(record, &input.fields).unwrap_or_else(|| format!("{:032x}", row.id)),
        group: row.group.map(|group| String::from_utf8_lossy(group).into_owned()),
        reward: row.rewards.first().copied(),
        policy_version: version,
        model: model.and_then(Value::as_str).map(str::to_owned),
        tokens: Tokens {
            input: count(format.input_tokens),
            output: count(format.output_tokens),
            ..Tokens::default()
        },
        ..Head::default()
    }
}

/// Count the parts of a trajectory with unexpected types; return whether there are any. Values beside a
/// conversation are ignored, and so is a text beside a prompt and its completion.
pub(super) fn expect(record: &Value, fields: &Fields, counts: &mut LineCounts) -> bool {
    let chat = [(&fields.messages, LIST)];
    let halves = [(&fields.prompt, WORDS), (&fields.completion, WORDS)];
    let text = [(&fields.text, TEXT)];
    for parts in [&chat[..], &halves, &text] {
        let mut is_filled = false;
        let mut wrong = false;
        for (field, wanted) in parts {
            for choice in field.iter().flat_map(Field::choices) {
                let wanted = if choice.transform == Transform::Json { WORDS } else { wanted };
                let (held, place) = (lookup(record, &choice.path), choice.path.to_string());
                is_filled |= held.is_some_and(|value| !value.is_null());
                wrong |= is_mistyped(held, wanted, &place, counts);
                if let Some(messages) =
                    held.filter(|held| held.is_array() || choice.transform == Transform::Json)
                {
                    chat::expect(messages, &place, counts);
                }
            }
        }
        if is_filled {
            return wrong;
        }
    }
    false
}

/// Count a record without a trajectory, under the name of its preferred field.
pub(super) fn missing(fields: &Fields, counts: &mut LineCounts) {
    let Some(first) = fields.trajectory().flat_map(Field::choices).next() else { return };
    let list = fields.messages.is_some() && first.transform != Transform::Json;
    absent(if list { LIST } else { WORDS }, &first.path.to_string(), counts);
}

/// Return the rest of a record: the values that are kept nowhere else.
pub(super) fn rest(record: Value, format: &Format, head: &Head) -> Value {
    let taken = [
        (format.id, true),
        (format.group, head.group.is_some()),
        (format.reward, head.reward.is_some()),
        (format.policy_version, head.policy_version.is_some()),
        (format.model, head.model.is_some()),
    ];
    let Value::Object(mut fields) = record else { return Value::Null };
    fields.retain(|key, value| !value.is_null() && !taken.contains(&(&key[..], true)));
    Value::Object(fields)
}
