//! Raw JSON with access to its parts, for the reward of a record: only requested values are built.

use std::borrow::Cow;
use std::ops::Range;

use karl_reward::{Fault, Node, Value};

use crate::json::project::{skip_space, skip_string, skip_value};
use crate::json::reference_parser;
use crate::json::scalar::number;
use crate::json::unescape::unescape;

/// One value of a JSON text, read like [`crate::json::project`]: by structure, without detecting damage in
/// skipped parts.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a>(pub(super) &'a [u8]);

impl<'a> Raw<'a> {
    /// Return the value of a text, without surrounding white space.
    ///
    /// # Errors
    /// [`Fault::Syntax`] if the text ends early, or continues after the value.
    pub fn of(text: &'a [u8]) -> Result<Self, Fault> {
        let start = skip_space(text, 0);
        let inner = text.get(start..).unwrap_or_default();
        let inner = &inner[..inner.trim_ascii_end().len()];
        // The end of a scalar is found by the byte after it, and at the top of a text there is none.
        match inner.first() {
            Some(b'{' | b'[' | b'"') if skip_value(inner, 0) != Ok(inner.len()) => Err(Fault::Syntax),
            None => Err(Fault::Syntax),
            Some(_) => Ok(Self(inner)),
        }
    }

    /// Return the value at a range of a text.
    pub(super) fn at(bytes: &'a [u8], place: Option<Range<usize>>) -> Option<Self> {
        place.and_then(|range| bytes.get(range)).map(Self)
    }

    /// Visit the members or elements of a container, each with its key if it has one.
    pub(super) fn parts(
        self,
        object: bool,
        mut visit: impl FnMut(&'a [u8], Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let bytes = self.0;
        let close = if object { b'}' } else { b']' };
        let mut at = skip_space(bytes, 1);
        if bytes.get(at) == Some(&close) {
            return Ok(());
        }
        loop {
            let key = at;
            at = if object { self.value_of_key(at)? } else { at };
            let start = at;
            at = skip_value(bytes, at).map_err(|_| Fault::Syntax)?;
            visit(&bytes[key..start], Self(&bytes[start..at]))?;
            at = skip_space(bytes, at);
            match bytes.get(at) {
                Some(b',') => at = skip_space(bytes, at + 1),
                Some(byte) if *byte == close => return Ok(()),
                _ => return Err(Fault::Syntax),
            }
        }
    }

    /// Return the start of the value after the key at `at`.
    fn value_of_key(self, at: usize) -> Result<usize, Fault> {
        if self.0.get(at) != Some(&b'"') {
            return Err(Fault::Syntax);
        }
        let end = skip_space(self.0, skip_string(self.0, at).map_err(|_| Fault::Syntax)?);
        if self.0.get(end) == Some(&b':') { Ok(skip_space(self.0, end + 1)) } else { Err(Fault::Syntax) }
    }

    /// Return whether the container is not empty.
    pub(super) fn some(self) -> bool {
        !matches!(self.0.get(skip_space(self.0, 1)), Some(b'}' | b']') | None)
    }

    pub(super) fn is_object(self) -> bool {
        self.0.first() == Some(&b'{')
    }
}

/// Return the key before a value.
pub(super) fn quoted(before: &[u8]) -> &[u8] {
    let colon = before.trim_ascii_end();
    colon.strip_suffix(b":").unwrap_or(colon).trim_ascii_end()
}

/// Return the index of a key among `keys`, comparing bytes if it has no escape.
fn place(quoted: &[u8], keys: &[&str]) -> Option<usize> {
    let inner = quoted.get(1..quoted.len().saturating_sub(1))?;
    let bytes = keys.iter().position(|key| key.as_bytes() == inner);
    bytes.or_else(|| {
        let key = memchr::memchr(b'\\', inner).and_then(|_| unescape(quoted))?;
        keys.iter().position(|wanted| *wanted == key)
    })
}

/// Keep each key once, at its first position, with its last value.
fn first_places<V: Copy>(entries: &mut Vec<(Cow<'_, str>, V)>) {
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by(|&one, &two| entries[one].0.cmp(&entries[two].0));
    let mut again = vec![false; entries.len()];
    // From the back, so that the last value moves to the first position.
    for pair in order.windows(2).rev() {
        let (one, two) = (pair[0], pair[1]);
        if entries[one].0 == entries[two].0 {
            entries[one].1 = entries[two].1;
            again[two] = true;
        }
    }
    let mut later = again.iter();
    entries.retain(|_| later.next() != Some(&true));
}

/// Return the text of a JSON string. With half a surrogate pair, which Python allows, it is its escapes,
/// which equal no other text.
fn text(quoted: &[u8]) -> Result<Cow<'_, str>, Fault> {
    let escaped = || memchr::memmem::find(quoted, b"\\u").map(|_| String::from_utf8_lossy(quoted));
    unescape(quoted).or_else(escaped).ok_or(Fault::Syntax)
}

fn numeric<'a>(raw: &[u8]) -> Option<Value<'a>> {
    let text = number(raw)?;
    let whole = !text.contains(['.', 'e', 'E']);
    if let (true, Ok(value)) = (whole, text.parse()) {
        return Some(Value::Int(value));
    }
    let value: f64 = text.parse().ok()?;
    Some(if whole && value.is_infinite() {
        Value::Vast { negative: value < 0.0 }
    } else {
        Value::Float(value)
    })
}

impl<'a> Node<'a> for Raw<'a> {
    fn value(&self) -> Result<Value<'a>, Fault> {
        match self.0 {
            [b'"', ..] => text(self.0).map(Value::Text),
            [b'{', ..] => Ok(Value::Object { some: self.some() }),
            [b'[', ..] => Ok(Value::List { some: self.some() }),
            b"true" => Ok(Value::Bool(true)),
            b"false" => Ok(Value::Bool(false)),
            b"null" => Ok(Value::Null),
            b"NaN" => Ok(Value::Float(f64::NAN)),
            b"Infinity" => Ok(Value::Float(f64::INFINITY)),
            b"-Infinity" => Ok(Value::Float(f64::NEG_INFINITY)),
            raw => numeric(raw).ok_or(Fault::Syntax),
        }
    }

    fn fields<const N: usize>(&self, keys: [&str; N]) -> Result<[Option<Self>; N], Fault> {
        if !self.is_object() {
            return Err(Fault::Attribute);
        }
        let mut found = [None; N];
        self.parts(true, |before, value| {
            if let Some(slot) = place(quoted(before), &keys).and_then(|place| found.get_mut(place)) {
                *slot = Some(value);
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn each(&self, mut visit: impl FnMut(Option<Self>) -> Result<(), Fault>) -> Result<(), Fault> {
        match self.0.first() {
            Some(b'[') => self.parts(false, |_, value| visit(Some(value))),
            Some(b'{') => self.parts(true, |_, _| visit(None)),
            Some(b'"') => text(self.0)?.chars().try_for_each(|_| visit(None)),
            _ => Err(Fault::Type),
        }
    }

    fn entries(&self, mut visit: impl FnMut(&str, Self) -> Result<(), Fault>) -> Result<(), Fault> {
        if !self.is_object() {
            return Err(Fault::Attribute);
        }
        let mut entries = Vec::with_capacity(16);
        self.parts(true, |before, value| {
            entries.push((text(quoted(before))?, value));
            Ok(())
        })?;
        first_places(&mut entries);
        entries.iter().try_for_each(|(key, value)| visit(key, *value))
    }

    fn embedded<const N: usize>(&self, keys: [&str; N]) -> Result<Option<[Value<'a>; N]>, Fault> {
        let Value::Text(text) = self.value()? else { return Ok(None) };
        within(&text, keys)
    }
}

/// Return the values of some keys of the object written as JSON in `text`, ignoring surrounding white space;
/// `None` if there is no object.
///
/// # Errors
/// [`Fault::Syntax`] if a requested value is invalid.
pub fn within<'a, const N: usize>(text: &str, keys: [&str; N]) -> Result<Option<[Value<'a>; N]>, Fault> {
    // Python's `strip` treats four separators as white space that Unicode does not.
    let inner = text.trim_matches(|char: char| char.is_whitespace() || ('\x1c'..='\x1f').contains(&char));
    if !inner.starts_with('{') || !inner.ends_with('}') || reference_parser::check(inner.as_bytes()).is_err()
    {
        return Ok(None);
    }
    let mut values = [const { Value::Absent }; N];
    for (value, field) in values.iter_mut().zip(Raw(inner.as_bytes()).fields(keys)?) {
        *value = field.map_or(Ok(Value::Absent), |field| field.value().map(into_owned))?;
    }
    Ok(Some(values))
}

fn into_owned<'a>(value: Value<'_>) -> Value<'a> {
    match value {
        Value::Absent => Value::Absent,
        Value::Null => Value::Null,
        Value::Bool(value) => Value::Bool(value),
        Value::Int(value) => Value::Int(value),
        Value::Float(value) => Value::Float(value),
        Value::Vast { negative } => Value::Vast { negative },
        Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
        Value::List { some } => Value::List { some },
        Value::Object { some } => Value::Object { some },
    }
}
