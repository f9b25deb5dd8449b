//! One row of a data set: its sizes, its reward, and hashes of what identifies it.

use std::ops::Range;

use twox_hash::XxHash3_64;

use crate::json::elements::elements;
use crate::json::project::{Path, PathTree, Scan, skip_space};
use crate::json::reference_parser::check;
use crate::json::scalar::{Name, RewardValue, name, reward};

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
pub(super) struct DataSetRow {
    pub(super) line: u64,
    pub(super) bytes: u64,
    /// Messages, and those of the assistant; -1 where the row has no array of messages.
    pub(super) messages: i64,
    pub(super) turns: i64,
    pub(super) stamp: Option<StampFacts>,
}

/// Numbers and hashes of the object `karl_fast` of a row.
pub(super) struct StampFacts {
    /// Hash of group and id; that of the line where the row has no id.
    pub(super) record: u64,
    pub(super) group: Option<u64>,
    /// NaN where it has none.
    pub(super) reward: f64,
}

/// Reader of the rows of one file.
pub(super) struct RowReader {
    stamped: bool,
    row: Scan,
    message: Scan,
    values: Vec<Option<Range<usize>>>,
}

const MESSAGES: usize = 3;

impl RowReader {
    pub(super) fn new(stamped: bool) -> Self {
        let paths = ["karl_fast.id", "karl_fast.group", "karl_fast.reward", "messages"];
        Self { stamped, row: scan_of(&paths), message: scan_of(&["role"]), values: vec![None; paths.len()] }
    }

    /// Read a row.
    ///
    /// # Errors
    /// Its problem.
    pub(super) fn read(&mut self, line: &[u8]) -> Result<DataSetRow, RowProblem> {
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

    fn stamp(&self, object: &[u8], line: u64) -> Result<StampFacts, RowProblem> {
        let value = |slot: usize| self.values[slot].clone().map(|range| &object[range]);
        let (Some(id), Some(group), Some(number)) = (value(0), value(1), value(2)) else {
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
    let paths: Vec<Path> = paths.iter().filter_map(|path| Path::parse(path).ok()).collect();
    Scan::new(PathTree::new(&paths))
}

/// Return a string, or `None` for null.
fn text(raw: &[u8]) -> Result<Option<std::borrow::Cow<'_, str>>, RowProblem> {
    match (raw.first(), name(Some(raw))) {
        (Some(b'"'), Name::Text(text)) => Ok(Some(text)),
        (_, Name::Missing) => Ok(None),
        _ => Err(RowProblem::NoStamp),
    }
}

fn is_assistant(raw: &[u8]) -> bool {
    raw == b"\"assistant\"" || matches!(text(raw), Ok(Some(role)) if role == "assistant")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamped(row: &str) -> Result<DataSetRow, RowProblem> {
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
