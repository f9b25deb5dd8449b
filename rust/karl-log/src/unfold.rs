//! Rows that a record does not hold as they are: each element of its lists, and the value of an object with its name.
//!
//! ```text
//! {"prompt": "2 + 3?", "responses": ["5", "6"], "rewards": [1, 0]}      with --reward 'rewards[]' --completion 'responses[]'
//!   -> {"karl_fast_element": {"id": "OF/0", "of": "OF", "index": 0}, "prompt": "2 + 3?", "responses": "5", "rewards": 1}
//!   -> {"karl_fast_element": {"id": "OF/1", "of": "OF", "index": 1}, "prompt": "2 + 3?", "responses": "6", "rewards": 0}
//! {"task-7": {"reward": 1}}
//!   -> {"id": "task-7", "reward": 1}
//! ```
//!
//! `OF` is the id of the record, or the hash of its bytes. A row is spliced from the bytes of its record, so that every
//! value keeps the text that it has there. It has the place of its record, and the hash of its own bytes says which of
//! the record's rows it is.

use std::borrow::Cow;
use std::ops::Range;

use karl_core::rng::id128;
use serde_json::json;

use crate::format::{ELEMENT, Fields};
use crate::json::project::{Path, PathTree, ScanFault, scan, skip_space, skip_string, skip_value};
use crate::json::scalar::{Name, join_parts, name};
use crate::json::unescape::unescape;
use crate::rejects::RejectReason;

/// Maker of the rows of a record.
#[derive(Clone, Debug)]
pub(crate) struct Unfolder {
    is_named: bool,
    /// Number of lists, whose slots come first; those of the parts of the id follow, and `id` is last.
    lists: usize,
    wanted: PathTree,
}

/// Rows of the record at the start of a text.
pub(crate) struct Unfolded {
    /// End of the record in the text.
    pub(crate) end: usize,
    /// True if a wanted key is duplicated.
    pub(crate) duplicate: bool,
    /// Bytes of each row.
    pub(crate) rows: Result<Vec<Vec<u8>>, RejectReason>,
}

impl Unfolder {
    /// Return the maker for records with these fields; `None` if each record is its only row.
    pub(crate) fn new(fields: &Fields) -> Option<Self> {
        let paths: Vec<Path> =
            fields.lists.iter().chain(&fields.of).cloned().chain([Path::key("id")]).collect();
        let (is_named, lists) = (fields.is_named, fields.lists.len());
        fields.is_unfolded().then(|| Self { is_named, lists, wanted: PathTree::new(&paths) })
    }

    /// Return the rows of the record at the start of a text.
    ///
    /// # Errors
    /// The [`ScanFault`] of a text that is not such a record.
    pub(crate) fn unfold(&self, text: &[u8]) -> Result<Unfolded, ScanFault> {
        let (key, start) = if self.is_named { member_start(text)? } else { (None, 0) };
        let mut values = vec![None; self.wanted.slots()];
        let scanned = scan(&text[start..], &self.wanted, &mut values)?;
        let record = &text[start..start + scanned.end];
        let is_unnamed = values.pop().is_none_or(|id| id.is_none());
        let head = key.as_ref().filter(|_| is_unnamed).map(|key| format!("\"id\":{}", json!(key)));
        let rows = if self.lists == 0 {
            Ok(vec![splice(record, head.as_deref().unwrap_or_default(), &[])])
        } else {
            self.elements(record, &values, key.as_deref(), head.as_deref())
        };
        Ok(Unfolded { end: start + scanned.end, duplicate: scanned.duplicate, rows })
    }

    /// Return the row with these bytes' hash, of a record that was read again; `None` if no row has it.
    pub(crate) fn find(&self, text: &[u8], has_hash: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        self.unfold(text).ok()?.rows.ok()?.into_iter().find(|row| has_hash(row))
    }

    /// Return a row for each element of the lists of a record.
    fn elements(
        &self,
        record: &[u8],
        values: &[Option<Range<usize>>],
        key: Option<&str>,
        head: Option<&str>,
    ) -> Result<Vec<Vec<u8>>, RejectReason> {
        let (lists, ids) = values.split_at(self.lists);
        let mut lists: Vec<(Range<usize>, Vec<Range<usize>>)> = lists
            .iter()
            .map(|list| Some((list.clone()?, list_elements(record, list.clone()?)?)))
            .collect::<Option<_>>()
            .ok_or(RejectReason::BadList)?;
        lists.sort_by_key(|(list, _)| list.start);
        let count = lists[0].1.len();
        let is_uneven = lists.iter().any(|(_, elements)| elements.len() != count);
        let is_nested = lists.windows(2).any(|pair| pair[1].0.start < pair[0].0.end);
        if count == 0 || is_uneven || is_nested {
            return Err(RejectReason::BadList);
        }
        let of = record_id(record, ids)?.or_else(|| key.map(str::to_owned));
        let of = of.unwrap_or_else(|| format!("{:032x}", id128(record)));
        let row = |index: usize| {
            let element = json!({"id": format!("{of}/{index}"), "of": of, "index": index});
            let named = head.map_or_else(String::new, |head| format!(",{head}"));
            let parts: Vec<(Range<usize>, &[u8])> = lists
                .iter()
                .map(|(list, elements)| (list.clone(), &record[elements[index].clone()]))
                .collect();
            splice(record, &format!("\"{ELEMENT}\":{element}{named}"), &parts)
        };
        Ok((0..count).map(row).collect())
    }
}

/// Return the key of the member of an object at the start of a text, and where its value begins.
fn member_start(text: &[u8]) -> Result<(Option<Cow<'_, str>>, usize), ScanFault> {
    if text.first() != Some(&b'"') {
        return Err(ScanFault::NotAnObject);
    }
    let end = skip_string(text, 0)?;
    let key = unescape(&text[..end]).ok_or(ScanFault::Malformed(0))?;
    let colon = skip_space(text, end);
    match text.get(colon) {
        Some(b':') => Ok((Some(key), skip_space(text, colon + 1))),
        _ => Err(ScanFault::NotAnObject),
    }
}

/// Return the place of each element of a list; `None` if the value is not a list.
fn list_elements(record: &[u8], list: Range<usize>) -> Option<Vec<Range<usize>>> {
    if record.get(list.start) != Some(&b'[') {
        return None;
    }
    let (mut at, mut elements) = (skip_space(record, list.start + 1), Vec::new());
    while at + 1 < list.end {
        let end = skip_value(record, at).ok().filter(|&end| end > at)?;
        elements.push(at..end);
        at = skip_space(record, end);
        if record.get(at) == Some(&b',') {
            at = skip_space(record, at + 1);
        }
    }
    Some(elements)
}

/// Return the id of a record of these parts; `None` if it lacks one.
fn record_id(record: &[u8], parts: &[Option<Range<usize>>]) -> Result<Option<String>, RejectReason> {
    let mut names = Vec::with_capacity(parts.len());
    for part in parts {
        match name(part.clone().map(|part| &record[part])) {
            Name::Text(text) => names.push(text.into_owned()),
            Name::Missing => return Ok(None),
            Name::Bad => return Err(RejectReason::BadId),
        }
    }
    Ok(join_parts(names))
}

/// Return a record with members in front of its own, and other values in some places, which are in ascending order.
fn splice(record: &[u8], head: &str, parts: &[(Range<usize>, &[u8])]) -> Vec<u8> {
    let mut row = Vec::with_capacity(record.len() + head.len() + 2);
    row.push(b'{');
    row.extend_from_slice(head.as_bytes());
    let is_empty = record.get(skip_space(record, 1)) == Some(&b'}');
    if !head.is_empty() && !is_empty {
        row.push(b',');
    }
    let mut at = 1;
    for (place, value) in parts {
        row.extend_from_slice(&record[at..place.start]);
        row.extend_from_slice(value);
        at = place.end;
    }
    row.extend_from_slice(&record[at..]);
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Overrides, by_name};

    fn unfold(
        text: &str,
        id: &str,
        reward: &str,
        completion: &str,
        is_named: bool,
    ) -> Result<Vec<String>, RejectReason> {
        let overrides = Overrides {
            id: (!id.is_empty()).then(|| id.to_owned()),
            reward: (!reward.is_empty()).then(|| vec![reward.to_owned()]),
            completion: (!completion.is_empty()).then(|| completion.to_owned()),
            ..Overrides::default()
        };
        let fields = Fields::new(by_name("generic").unwrap(), &overrides, None).unwrap().with_names(is_named);
        let unfolded = Unfolder::new(&fields).unwrap().unfold(text.as_bytes()).unwrap();
        Ok(unfolded.rows?.into_iter().map(|row| String::from_utf8(row).unwrap()).collect())
    }

    #[test]
    fn each_element_makes_a_row_that_keeps_the_text_of_every_value() {
        let record = r#"{"id": 7, "p": 1.50, "responses" : [ "a,]", {"b": [1]} ],"rewards":[1e2 , -0.0]}"#;
        let rows = unfold(record, "", "rewards[]", "responses[]", false).unwrap();
        let head = |index| format!(r#"{{"karl_fast_element":{{"id":"7/{index}","of":"7","index":{index}}},"#);
        assert_eq!(rows[0], head(0) + r#""id": 7, "p": 1.50, "responses" : "a,]","rewards":1e2}"#);
        assert_eq!(rows[1], head(1) + r#""id": 7, "p": 1.50, "responses" : {"b": [1]},"rewards":-0.0}"#);
        let nested = r#"{"samples": [{"text": "a", "score": 1}, {"text": "b", "score": 0}]}"#;
        let rows = unfold(nested, "", "samples[].score", "samples[].text", false).unwrap();
        assert!(rows[1].ends_with(r#""samples": {"text": "b", "score": 0}}"#), "{}", rows[1]);
        assert!(rows[0].contains(&format!("{:032x}/0", id128(nested.as_bytes()))));
    }

    #[test]
    fn lists_that_give_no_rows_are_refused() {
        for record in [
            r#"{"rewards": [1, 0], "responses": ["a"]}"#,
            r#"{"rewards": [], "responses": []}"#,
            r#"{"rewards": 1, "responses": ["a"]}"#,
            r#"{"rewards": null, "responses": ["a"]}"#,
            r#"{"responses": ["a"]}"#,
        ] {
            assert_eq!(
                unfold(record, "", "rewards[]", "responses[]", false),
                Err(RejectReason::BadList),
                "{record}"
            );
        }
        let nested = r#"{"a": [{"b": [1]}]}"#;
        assert_eq!(unfold(nested, "", "a[]", "a[0].b[]", false), Err(RejectReason::BadList));
        let bad = r#"{"id": [1], "rewards": [1]}"#;
        assert_eq!(unfold(bad, "", "rewards[]", "", false), Err(RejectReason::BadId));
    }

    #[test]
    fn a_value_has_the_name_that_it_is_under() {
        let row = |text| unfold(text, "", "", "", true).unwrap().remove(0);
        assert_eq!(row(r#""a\"b" : {"reward": 1}"#), r#"{"id":"a\"b","reward": 1}"#);
        assert_eq!(row(r#""x":{"id": 3, "reward": 1}"#), r#"{"id": 3, "reward": 1}"#);
        assert_eq!(row(r#""x":{}"#), r#"{"id":"x"}"#);
        let rows = unfold(r#""x": {"rewards": [1, 2]}"#, "", "rewards[]", "", true).unwrap();
        assert_eq!(rows[1], r#"{"karl_fast_element":{"id":"x/1","of":"x","index":1},"id":"x","rewards": 2}"#);
    }
}
