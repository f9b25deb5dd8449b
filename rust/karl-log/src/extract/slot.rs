//! Slots in which the fast scan stores a field, and conversion of their values to names.

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::ops::Range;

use karl_core::rng::id128;

use crate::conversation::content_hash::prompt_text;
use crate::format::{Choice, Field, Transform};
use crate::json::project::Path;
use crate::json::reference_parser;
use crate::json::scalar::{Name, name};
use crate::json::unescape::plain;

/// Slots of a field's choices.
#[derive(Debug)]
pub(crate) struct Slot(Vec<(usize, Transform)>);

/// Results of the scan: the record and the position of each wanted value in it.
#[derive(Clone, Copy)]
pub(crate) struct FieldValues<'r> {
    pub(crate) record: &'r [u8],
    pub(crate) values: &'r [Option<Range<usize>>],
}

impl Slot {
    /// Add a field's paths to the wanted ones.
    pub(crate) fn new(field: &Field, paths: &mut Vec<Path>) -> Self {
        let seat = |choice: &Choice| {
            paths.push(choice.path.clone());
            (paths.len() - 1, choice.made)
        };
        Self(field.choices().iter().map(seat).collect())
    }

    /// Add a path without conversion.
    pub(crate) fn plain(path: &Path, paths: &mut Vec<Path>) -> Self {
        paths.push(path.clone());
        Self(vec![(paths.len() - 1, Transform::AsIs)])
    }

    /// Return the first non-empty choice, or else the last.
    fn choose<'r>(&self, found: FieldValues<'r>) -> (Option<&'r [u8]>, Transform) {
        let mut chosen = (None, Transform::AsIs);
        for &(slot, made) in &self.0 {
            chosen = (found.raw(slot), made);
            if chosen.0.is_some_and(holds) {
                break;
            }
        }
        chosen
    }

    /// Return the text of the value as written.
    pub(crate) fn raw<'r>(&self, found: FieldValues<'r>) -> Option<&'r [u8]> {
        self.choose(found).0
    }

    /// Return the name in the value of the only choice, if it needs neither unescaping nor conversion.
    #[inline]
    pub(crate) fn plain_name<'r>(&self, found: FieldValues<'r>) -> Option<&'r [u8]> {
        let [(slot, Transform::AsIs)] = self.0[..] else { return None };
        found.raw(slot).and_then(plain)
    }

    /// Return the name that the value yields.
    pub(crate) fn name<'r>(&self, found: FieldValues<'r>) -> Name<'r> {
        match self.choose(found) {
            (raw, Transform::Hash) => hash(raw),
            (raw, Transform::Quotient(by)) => quotient(raw, by),
            (raw, _) => name(raw),
        }
    }
}

impl<'r> FieldValues<'r> {
    fn raw(self, slot: usize) -> Option<&'r [u8]> {
        self.record.get(self.values.get(slot)?.clone()?)
    }
}

/// Return whether a value is present and neither null nor empty; an empty choice gives way to the next.
pub(crate) fn holds(raw: &[u8]) -> bool {
    !matches!(raw, b"null" | b"\"\"" | b"[]")
}

/// Return the hash of a text, of a list of messages by the rule of equal prompts, or of any other value as
/// written without spaces and needless escapes.
fn hash(raw: Option<&[u8]>) -> Name<'static> {
    let hex = |bytes: &[u8]| Name::Text(Cow::Owned(format!("{:032x}", id128(bytes))));
    match (raw, name(raw)) {
        (_, Name::Missing) => Name::Missing,
        (_, Name::Text(text)) => hex(text.as_bytes()),
        (raw, Name::Bad) => match raw.map(reference_parser::parse) {
            Some(Ok(value)) => hex(prompt_text(&value).unwrap_or_else(|| value.to_string()).as_bytes()),
            _ => Name::Bad,
        },
    }
}

fn quotient(raw: Option<&[u8]>, by: NonZeroU64) -> Name<'static> {
    let Name::Text(text) = name(raw) else {
        return if raw.is_some_and(holds) { Name::Bad } else { Name::Missing };
    };
    text.parse().map_or(Name::Bad, |whole: i64| {
        Name::Text(Cow::Owned(i128::from(whole).div_euclid(i128::from(by.get())).to_string()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: Name<'_>) -> Option<String> {
        if let Name::Text(text) = name { Some(text.into_owned()) } else { None }
    }

    #[test]
    fn a_hash_is_of_the_text_and_not_of_the_way_it_is_written() {
        let plain = text(hash(Some(br#""a b""#)));
        assert!(plain.is_some());
        assert_eq!(text(hash(Some(br#""\u0061\u0020b""#))), plain);
        assert_ne!(text(hash(Some(br#""a  b""#))), plain);
        assert_eq!(text(hash(Some(br#"[{"role":"user","content":"a b","id":7}]"#))), plain);
        let list = text(hash(Some(br#"[{"role":"user","content":"a"}]"#)));
        assert!(list.is_some());
        assert_eq!(text(hash(Some(br#"[ {"role": "user", "content": "\u0061"} ]"#))), list);
        assert_eq!(hash(Some(b"null")), Name::Missing);
        assert_eq!(hash(None), Name::Missing);
        for damaged in [&b"[1"[..], b"\"\\ud800\"", b"[NaNa]", b"nil"] {
            assert_eq!(hash(Some(damaged)), Name::Bad);
        }
    }

    #[test]
    fn a_quotient_is_rounded_down() {
        let by = NonZeroU64::new(8).unwrap();
        for (raw, wanted) in [
            ("0", "0"),
            ("7", "0"),
            ("8", "1"),
            ("-1", "-1"),
            ("\"17\"", "2"),
            ("9223372036854775807", "1152921504606846975"),
        ] {
            assert_eq!(text(quotient(Some(raw.as_bytes()), by)).as_deref(), Some(wanted), "{raw}");
        }
        for bad in ["1.5", "\"a\"", "true", "[1]", "{}", "99999999999999999999"] {
            assert_eq!(quotient(Some(bad.as_bytes()), by), Name::Bad, "{bad}");
        }
        assert_eq!(quotient(Some(b"null"), by), Name::Missing);
        assert_eq!(quotient(None, by), Name::Missing);
    }
}
