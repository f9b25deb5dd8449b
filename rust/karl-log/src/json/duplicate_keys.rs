//! Detection of duplicate keys in an object, at any depth of a record.
//!
//! Nearly no record has one, so every record is first asked without a path, which takes no memory of its own.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::reference_parser::standardize;

/// Maximum bytes of a path in a message.
const SHOWN: usize = 200;

/// Maximum number of keys of an object that are compared with each other; more are sorted.
const COMPARED: usize = 16;

/// Return the path of the first duplicate key, as in `messages[2].role`; `None` if the text is not valid
/// JSON.
#[must_use]
pub fn find_duplicate_key(record: &[u8]) -> Option<String> {
    if !has_duplicate_key(record) {
        return None;
    }
    let (mut path, mut found) = (Vec::new(), None);
    let text = standardize(record);
    let seek = DuplicateSearch { path: &mut path, found: &mut found };
    seek.deserialize(&mut serde_json::Deserializer::from_slice(&text)).ok()?;
    found
}

/// Return whether an object has a key twice; false if the text is not valid JSON.
#[must_use]
pub fn has_duplicate_key(record: &[u8]) -> bool {
    let is_any = check(record).or_else(|error| match standardize(record) {
        Cow::Borrowed(_) => Err(error),
        Cow::Owned(text) => check(&text),
    });
    is_any.unwrap_or(false)
}

fn check(text: &[u8]) -> Result<bool, serde_json::Error> {
    let (mut keys, mut is_any) = (Vec::new(), false);
    let check = DuplicateCheck { keys: &mut keys, is_any: &mut is_any };
    check.deserialize(&mut serde_json::Deserializer::from_slice(text))?;
    Ok(is_any)
}

/// Search for a duplicate key without its path.
struct DuplicateCheck<'s, 'de> {
    /// Keys of the open objects, those of the innermost last.
    keys: &'s mut Vec<Cow<'de, str>>,
    is_any: &'s mut bool,
}

impl<'de> DeserializeSeed<'de> for DuplicateCheck<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DuplicateCheck<'_, 'de> {
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

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<(), A::Error> {
        let (keys, is_any) = (self.keys, self.is_any);
        while values.next_element_seed(DuplicateCheck { keys: &mut *keys, is_any: &mut *is_any })?.is_some() {
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let (keys, is_any) = (self.keys, self.is_any);
        let first = keys.len();
        while let Some(key) = members.next_key_seed(BorrowedKey)? {
            keys.push(key);
            members.next_value_seed(DuplicateCheck { keys: &mut *keys, is_any: &mut *is_any })?;
        }
        *is_any |= has_equal(&mut keys[first..]);
        keys.truncate(first);
        Ok(())
    }
}

/// Return whether two keys are equal.
fn has_equal(keys: &mut [Cow<'_, str>]) -> bool {
    if keys.len() <= COMPARED {
        return keys.iter().enumerate().any(|(at, key)| keys[..at].contains(key));
    }
    keys.sort_unstable();
    keys.windows(2).any(|pair| pair[0] == pair[1])
}

/// Key as it is in the text, or copied if it has escapes.
struct BorrowedKey;

impl<'de> DeserializeSeed<'de> for BorrowedKey {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cow<'de, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for BorrowedKey {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
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
    use super::{COMPARED, find_duplicate_key};

    #[test]
    fn an_object_of_many_keys_has_one_twice_or_not() {
        for count in [COMPARED - 1, COMPARED, COMPARED + 1, 100] {
            let keys: Vec<String> = (0..count).map(|number| format!("\"k{number}\":{{\"a\":1}}")).collect();
            let text = format!("{{{}}}", keys.join(","));
            assert_eq!(find_duplicate_key(text.as_bytes()), None);
            let twice = text.replace("\"k3\"", "\"k\\u0030\"");
            assert_eq!(find_duplicate_key(twice.as_bytes()).as_deref(), Some("k0"), "{twice}");
        }
    }

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
