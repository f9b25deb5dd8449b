//! Detection of duplicate keys in an object, at any depth of a record.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::reference_parser::standardize;

/// Maximum bytes of a path in a message.
const SHOWN: usize = 200;

/// Return the path of the first duplicate key, as in `messages[2].role`; `None` if the text is not valid
/// JSON.
#[must_use]
pub fn find_duplicate_key(record: &[u8]) -> Option<String> {
    let (mut path, mut found) = (Vec::new(), None);
    let text = standardize(record);
    let seek = DuplicateSearch { path: &mut path, found: &mut found };
    seek.deserialize(&mut serde_json::Deserializer::from_slice(&text)).ok()?;
    found
}

/// Step from a value to a child.
enum PathStep {
    Key(String),
    Element(usize),
}

struct DuplicateSearch<'s> {
    path: &'s mut Vec<PathStep>,
    found: &'s mut Option<String>,
}

impl DuplicateSearch<'_> {
    fn nested(&mut self) -> DuplicateSearch<'_> {
        DuplicateSearch { path: self.path, found: self.found }
    }
}

impl<'de> DeserializeSeed<'de> for DuplicateSearch<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DuplicateSearch<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut values: A) -> Result<(), A::Error> {
        self.path.push(PathStep::Element(0));
        while values.next_element_seed(self.nested())?.is_some() {
            if let Some(PathStep::Element(at)) = self.path.last_mut() {
                *at += 1;
            }
        }
        self.path.pop();
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        let mut seen: HashSet<String> = HashSet::new();
        while let Some(key) = members.next_key::<Cow<'_, str>>()? {
            self.path.push(PathStep::Key(key.clone().into_owned()));
            if !seen.insert(key.into_owned()) && self.found.is_none() {
                *self.found = Some(render(self.path));
            }
            members.next_value_seed(self.nested())?;
            self.path.pop();
        }
        Ok(())
    }
}

fn render(path: &[PathStep]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            PathStep::Key(key) if text.is_empty() => text.push_str(key),
            PathStep::Key(key) => text.extend([".", key]),
            PathStep::Element(at) => text.extend(["[", &at.to_string(), "]"]),
        }
    }
    let end = (0..=SHOWN.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    text.truncate(end);
    text
}

#[cfg(test)]
mod tests {
    use super::find_duplicate_key;

    #[test]
    fn a_key_that_stands_twice_is_found_at_any_depth() {
        for (record, path) in [
            (r#"{"a":1,"b":{"a":[{"b":1},{"b":2}]},"c":1.5e400}"#, None),
            (r#"{"a":1,"b":2,"a":NaN}"#, Some("a")),
            (r#"{"a":[0,{"b":{"c":1,"\u0063":2}}]}"#, Some("a[1].b.c")),
            (r#"{"a":{"b":1,"b":2},"a":3}"#, Some("a.b")),
            (r#"{"a":1,"a":"#, None),
        ] {
            assert_eq!(find_duplicate_key(record.as_bytes()).as_deref(), path, "{record}");
        }
    }
}
