//! Record with its outcome: the bytes of the trajectory stay as they are, around the new values.

use std::ops::Range;

use karl_log::format::Component;
use karl_log::json::project::{Path, PathTree, scan};
use karl_log::json::reference_parser;
use serde::Serialize;
use serde_json::{Map, Number, Value};

use super::outcome::Outcome;

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
    use serde_json::json;

    use super::*;
    use crate::outcomes::outcome::Evidence;

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
