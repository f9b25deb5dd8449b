//! Data sets read back: numbers and hashes of their rows, for a comparison of two.
//!
//! A file of rows is read in ranges by several threads; the table is the same for any number of them.

use std::ops::Range;
use std::path::Path;

use twox_hash::XxHash3_64;

use crate::cancel::Watch;
use crate::error::{Error, Result};
use crate::framing::lines::{RANGE, RangeTask, open_lines, split_into_ranges};
use crate::framing::{Piece, StreamError};
use crate::input::source::Source;
use crate::json::project::{self, PathTree, Scan, elements, skip_space};
use crate::json::reference_parser::check;
use crate::json::scalar::{Name, RewardValue, name, reward};
use crate::parallel::map;

/// First row of a file that is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRow {
    /// Number of its line, from 1.
    pub line: usize,
    /// Problem.
    pub problem: RowProblem,
}

/// Read every row of a file. Rows that are `stamped` have an object `karl_fast` with their id, group and
/// reward; others are lines as they were logged.
///
/// # Errors
/// [`Error::Io`], or [`Error::Interrupted`].
pub fn read_rows(
    path: &Path,
    stamped: bool,
    threads: usize,
    watch: &Watch,
) -> Result<std::result::Result<RowTable, BadRow>> {
    read_in_ranges(path, stamped, threads, RANGE, watch)
}

fn read_in_ranges(
    path: &Path,
    stamped: bool,
    threads: usize,
    range: u64,
    watch: &Watch,
) -> Result<std::result::Result<RowTable, BadRow>> {
    let source = Source::open(path, &path.to_string_lossy())?;
    let parts =
        map(split_into_ranges(0, &source, range), threads, |task| one_range(&source, task, stamped, watch));
    let mut all = RowTable::default();
    for part in parts {
        match part? {
            Ok(part) => all.append(part),
            Err(bad) => return Ok(Err(BadRow { line: all.rows() + bad.line, ..bad })),
        }
    }
    Ok(Ok(all))
}

/// Read the rows of one range; line numbers count from its start.
fn one_range(
    source: &Source,
    task: RangeTask,
    stamped: bool,
    watch: &Watch,
) -> Result<std::result::Result<RowTable, BadRow>> {
    let failed = |error| match error {
        StreamError::Read(error) => source.failed("read", error),
        StreamError::Other(error) => error,
        StreamError::Beyond => Error::Interrupted,
    };
    let mut lines = open_lines(source, task, usize::MAX, watch).map_err(failed)?;
    let (mut reader, mut table) = (RowReader::new(stamped), RowTable::default());
    while let Some(piece) = lines.next().map_err(|error| source.failed("read", error))? {
        let Piece::Text { bytes, .. } = piece else { continue };
        match reader.read(bytes) {
            Ok(row) => table.push(&row),
            Err(problem) => return Ok(Err(BadRow { line: table.rows() + 1, problem })),
        }
    }
    Ok(Ok(table))
}

/// Problem of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowProblem {
    /// Its bytes are not UTF-8.
    NotUtf8,
    /// Its text is not JSON.
    NoJson,
    /// It is not an object.
    NotAnObject,
    /// It has no object `karl_fast` with an id, a group and a reward.
    NoStamp,
}

/// Numbers and hashes of one row.
struct DataSetRow {
    line: u64,
    bytes: u64,
    /// Messages, and those of the assistant; -1 where the row has no array of messages.
    messages: i64,
    turns: i64,
    stamp: Option<StampFacts>,
}

/// Numbers and hashes of the object `karl_fast` of a row.
struct StampFacts {
    /// Hash of group and id; that of the line where the row has no id.
    record: u64,
    group: Option<u64>,
    /// NaN where it has none.
    reward: f64,
}

/// Paths of the metadata of a row; those of a trajectory of Harbor are in its object `extra`.
const STAMPS: [[&str; 3]; 2] = [
    ["karl_fast.id", "karl_fast.group", "karl_fast.reward"],
    ["extra.karl_fast.id", "extra.karl_fast.group", "extra.karl_fast.reward"],
];

/// Reader of the rows of one file.
struct RowReader {
    stamped: bool,
    row: Scan,
    message: Scan,
    values: Vec<Option<Range<usize>>>,
}

const MESSAGES: usize = 6;

impl RowReader {
    fn new(stamped: bool) -> Self {
        let paths: Vec<&str> = STAMPS.concat().into_iter().chain(["messages"]).collect();
        Self { stamped, row: scan_of(&paths), message: scan_of(&["role"]), values: vec![None; paths.len()] }
    }

    /// Read a row.
    ///
    /// # Errors
    /// Its problem.
    fn read(&mut self, line: &[u8]) -> std::result::Result<DataSetRow, RowProblem> {
        check(line).map_err(|_| match std::str::from_utf8(line) {
            Ok(_) => RowProblem::NoJson,
            Err(_) => RowProblem::NotUtf8,
        })?;
        let object = &line[skip_space(line, 0)..];
        self.row.object(object, &mut self.values).map_err(|_| RowProblem::NotAnObject)?;
        let hash = XxHash3_64::oneshot(line);
        let stamp = if self.stamped { Some(self.stamp(object, hash)?) } else { None };
        let (messages, turns) = self.messages(object);
        Ok(DataSetRow { line: hash, bytes: line.len() as u64, messages, turns, stamp })
    }

    fn stamp(&self, object: &[u8], line: u64) -> std::result::Result<StampFacts, RowProblem> {
        let value = |slot: usize| self.values[slot].clone().map(|range| &object[range]);
        let first = if self.values[0].is_some() { 0 } else { STAMPS[0].len() };
        let (Some(id), Some(group), Some(number)) = (value(first), value(first + 1), value(first + 2)) else {
            return Err(RowProblem::NoStamp);
        };
        let (id, group) = (text(id)?, text(group)?);
        let reward = match (number, reward(Some(number))) {
            (b"null", _) => f64::NAN,
            (b"true" | b"false", _) => return Err(RowProblem::NoStamp),
            (_, RewardValue::Value(value)) => value,
            _ => return Err(RowProblem::NoStamp),
        };
        let hash_of = |text: &str| XxHash3_64::oneshot(text.as_bytes());
        let group = group.as_deref().map(hash_of);
        let record = id.map_or(line, |id| XxHash3_64::oneshot_with_seed(group.unwrap_or(0), id.as_bytes()));
        Ok(StampFacts { record, group, reward })
    }

    /// Count the messages of a row, and those of the assistant.
    fn messages(&mut self, object: &[u8]) -> (i64, i64) {
        let Some(array) = self.values[MESSAGES].clone().map(|range| &object[range]) else { return (-1, -1) };
        if !array.starts_with(b"[") {
            return (-1, -1);
        }
        let (mut count, mut turns, mut role) = (0, 0, [None]);
        for message in elements(array) {
            count += 1;
            let is_turn = self.message.object(message, &mut role).is_ok()
                && role[0].clone().is_some_and(|range| is_assistant(&message[range]));
            turns += i64::from(is_turn);
        }
        (count, turns)
    }
}

fn scan_of(paths: &[&str]) -> Scan {
    let paths: Vec<project::Path> = paths.iter().filter_map(|path| project::Path::parse(path).ok()).collect();
    Scan::new(PathTree::new(&paths))
}

/// Return a string, or `None` for null.
fn text(raw: &[u8]) -> std::result::Result<Option<std::borrow::Cow<'_, str>>, RowProblem> {
    match (raw.first(), name(Some(raw))) {
        (Some(b'"'), Name::Text(text)) => Ok(Some(text)),
        (_, Name::Missing) => Ok(None),
        _ => Err(RowProblem::NoStamp),
    }
}

fn is_assistant(raw: &[u8]) -> bool {
    raw == b"\"assistant\"" || matches!(text(raw), Ok(Some(role)) if role == "assistant")
}

/// Numbers and hashes of rows, a column each.
#[derive(Clone, Debug, Default)]
pub struct RowTable {
    /// Hash of each row's line.
    pub lines: Vec<u64>,
    /// Bytes of each line, without its end.
    pub bytes: Vec<u64>,
    /// Messages of each row; -1 where it has no array of messages.
    pub messages: Vec<i64>,
    /// Messages of the assistant; -1 where the row has no array of messages.
    pub turns: Vec<i64>,
    /// Hash of each row's group and id; that of the line where it has no id. Of rows with a stamp.
    pub records: Vec<u64>,
    /// Hash of each row's group; 0 where it has none. Of rows with a stamp.
    pub groups: Vec<u64>,
    /// Reward of each row; NaN where it has none. Of rows with a stamp.
    pub rewards: Vec<f64>,
}

impl RowTable {
    /// Return the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.lines.len()
    }

    fn push(&mut self, row: &DataSetRow) {
        self.lines.push(row.line);
        self.bytes.push(row.bytes);
        self.messages.push(row.messages);
        self.turns.push(row.turns);
        if let Some(stamp) = &row.stamp {
            self.records.push(stamp.record);
            self.groups.push(stamp.group.map_or(0, |hash| hash.max(1)));
            self.rewards.push(stamp.reward);
        }
    }

    fn append(&mut self, mut more: Self) {
        self.lines.append(&mut more.lines);
        self.bytes.append(&mut more.bytes);
        self.messages.append(&mut more.messages);
        self.turns.append(&mut more.turns);
        self.records.append(&mut more.records);
        self.groups.append(&mut more.groups);
        self.rewards.append(&mut more.rewards);
    }
}

/// Equality by bits: rewards may be NaN.
impl PartialEq for RowTable {
    fn eq(&self, other: &Self) -> bool {
        let rewards = |table: &Self| table.rewards.iter().map(|reward| reward.to_bits()).collect::<Vec<_>>();
        (&self.lines, &self.bytes, &self.messages, &self.turns, &self.records, &self.groups)
            == (&other.lines, &other.bytes, &other.messages, &other.turns, &other.records, &other.groups)
            && rewards(self) == rewards(other)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn written(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn the_table_is_the_same_for_any_ranges_and_threads() {
        let mut text = String::new();
        for at in 0..100 {
            let messages = r#"{"role":"assistant","content":"é]"},"#.repeat(at % 5);
            writeln!(
                text,
                r#"{{"messages":[{messages}{{"role":"user"}}],"karl_fast":{{"id":"{at}","group":null,"reward":{at}.5}}}}"#
            )
            .unwrap();
        }
        let file = written(&text);
        let whole = read_rows(file.path(), true, 1, &Watch::new()).unwrap().unwrap();
        assert_eq!(whole.rows(), 100);
        assert_eq!((whole.messages[9], whole.turns[9], whole.rewards[9]), (5, 4, 9.5));
        for (range, threads) in [(7, 2), (97, 3), (4096, 2)] {
            let parts = read_in_ranges(file.path(), true, threads, range, &Watch::new()).unwrap().unwrap();
            assert_eq!(parts, whole, "{range}");
        }
    }

    #[test]
    fn a_damaged_row_is_named_by_the_number_of_its_line() {
        let good = r#"{"karl_fast":{"id":null,"group":"g","reward":null}}"#;
        let file = written(&format!("{}{{\n{good}\n", format!("{good}\n").repeat(40)));
        for range in [7, 100, RANGE] {
            let found = read_in_ranges(file.path(), true, 2, range, &Watch::new()).unwrap();
            assert_eq!(found, Err(BadRow { line: 41, problem: RowProblem::NoJson }), "{range}");
        }
    }

    fn stamped(row: &str) -> std::result::Result<DataSetRow, RowProblem> {
        RowReader::new(true).read(row.as_bytes())
    }

    #[test]
    fn damage_is_told_apart() {
        for (row, problem) in [
            (r#"{"messages": ["#, RowProblem::NoJson),
            ("", RowProblem::NoJson),
            ("[1]", RowProblem::NotAnObject),
            ("{}", RowProblem::NoStamp),
            (r#"{"karl_fast": 3}"#, RowProblem::NoStamp),
            (r#"{"karl_fast": {"id": 3, "group": null, "reward": 1}}"#, RowProblem::NoStamp),
            (r#"{"karl_fast": {"id": "a", "group": [], "reward": 1}}"#, RowProblem::NoStamp),
            (r#"{"karl_fast": {"id": "a", "group": "g", "reward": "1"}}"#, RowProblem::NoStamp),
            (r#"{"karl_fast": {"id": "a", "group": "g", "reward": true}}"#, RowProblem::NoStamp),
            (r#"{"karl_fast": {"id": "a", "group": "g", "reward": NaN}}"#, RowProblem::NoStamp),
            (r#"{"karl_fast": {"id": "a", "group": "g", "reward": 1e999}}"#, RowProblem::NoStamp),
        ] {
            assert_eq!(stamped(row).err(), Some(problem), "{row}");
        }
        assert_eq!(RowReader::new(false).read(b"\"\xff\"").err(), Some(RowProblem::NotUtf8));
    }

    #[test]
    fn a_record_is_its_group_and_id_and_else_its_line() {
        let record = |id: &str, group: &str, more: &str| {
            let row = format!(r#"{{"a":{more},"karl_fast":{{"id":{id},"group":{group},"reward":1}}}}"#);
            stamped(&row).unwrap().stamp.unwrap().record
        };
        assert_eq!(record("\"x\"", "\"g\"", "1"), record("\"\\u0078\"", "\"g\"", "2"));
        assert_ne!(record("\"x\"", "\"g\"", "1"), record("\"x\"", "\"h\"", "1"));
        assert_ne!(record("\"x\"", "\"g\"", "1"), record("\"x\"", "null", "1"));
        assert_ne!(record("null", "\"g\"", "1"), record("null", "\"g\"", "2"));
        assert_eq!(record("null", "\"g\"", "1"), record("null", "\"g\"", "1"));
    }

    #[test]
    fn messages_are_counted_where_there_are_some() {
        let counts = |row: &str| {
            let row = RowReader::new(false).read(row.as_bytes()).unwrap();
            (row.messages, row.turns)
        };
        assert_eq!(
            counts(r#"{"messages":[3,{"role":["x"]},{"role":"assist\u0061nt"},{"role":"user"}]}"#),
            (4, 1)
        );
        assert_eq!(counts(r#"{"messages":[]}"#), (0, 0));
        assert_eq!(counts(r#"{"messages":{"role":"assistant"}}"#), (-1, -1));
        assert_eq!(counts(r#"{"text":[NaN]}"#), (-1, -1));
    }
}
